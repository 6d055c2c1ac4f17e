"""The connection of a client, as far as its producers and consumers need it."""

from __future__ import annotations

from typing import Protocol

from magnetar.broker.attachment import AttachmentOwner


class Peer(AttachmentOwner, Protocol):
    @property
    def address(self) -> str: ...

    @property
    def client_version(self) -> str: ...

    async def is_alive(self) -> bool:
        """Ask the client for a sign of life; a dead connection is closed."""

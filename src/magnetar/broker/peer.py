"""The connection of a client, as far as its producers and consumers need it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from magnetar.model.name import TopicName


class LayoutWatch(Protocol):
    @property
    def subject(self) -> TopicName: ...


class ScalableState(Protocol):
    """What a connection has to do with scalable topics; topics only carry it."""

    @property
    def layouts(self) -> Mapping[int, LayoutWatch]: ...

    @property
    def migrated(self) -> set[TopicName]: ...


class Peer(Protocol):
    @property
    def address(self) -> str: ...

    @property
    def client_version(self) -> str: ...

    @property
    def scalable(self) -> ScalableState: ...

    async def is_alive(self) -> bool:
        """Ask the client for a sign of life; a dead connection is closed."""

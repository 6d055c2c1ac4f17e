"""State of a client that a part above its connection keeps with it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

from magnetar.model.limit import Limits
from magnetar.model.permission import Need, Target
from magnetar.wire.command import BaseCommand


class Link(Protocol):
    """A connection, as far as something is sent over it."""

    @property
    def writable(self) -> bool:
        """Whether the client reads what it is sent."""

    def send_command(self, command: BaseCommand) -> None: ...


class Attachment(Protocol):
    """Made with its first use, one of each kind for a connection, and closed with it."""

    def __init__(self, link: Link, limits: Limits) -> None: ...

    def needs(self) -> Iterable[tuple[Need, Target]]:
        """The permissions without which the client may not keep what it has here."""

    def on_writable(self) -> None:
        """The client reads again what it is sent."""

    def close(self) -> None:
        """The connection has ended."""


A = TypeVar("A", bound=Attachment)


class AttachmentOwner(Protocol):
    """A connection that keeps attachments."""

    def attached(self, kind: type[A]) -> A:
        """The one attachment of a kind, made with its first use."""

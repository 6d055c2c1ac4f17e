"""The receivers of what a connection brings: producers, consumers, and handlers of pushes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from magnetar.wire.command import CommandMessage, CommandSendError, CommandSendReceipt

if TYPE_CHECKING:
    from magnetar.client.connection import Connection


class ProducerEnd(Protocol):
    """A producer, as its connection sees it."""

    def on_receipt(self, receipt: CommandSendReceipt) -> None: ...

    def on_send_error(self, error: CommandSendError) -> None: ...

    def on_closed(self, connection: Connection, assigned: str | None) -> None: ...


class ConsumerEnd(Protocol):
    """A consumer, as its connection sees it."""

    def on_message(self, command: CommandMessage, entry: bytes) -> None: ...

    def on_active_change(self, is_active: bool) -> None: ...

    def on_end_of_topic(self) -> None: ...

    def on_closed(self, connection: Connection, assigned: str | None) -> None: ...


class PushEnd(Protocol):
    """Handles what the broker pushes: a layout, an assignment, the topics there are."""

    def on_push(self, body: Any) -> None: ...

    def on_closed(self, connection: Connection, assigned: str | None) -> None: ...

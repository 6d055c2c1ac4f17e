"""Commands this broker understands but does not serve."""

from __future__ import annotations

from magnetar.broker.connection import Connection
from magnetar.errors import TransactionsNotSupported
from magnetar.wire.command import BaseCommand


def on_transaction(connection: Connection, command: BaseCommand) -> None:
    refusal = TransactionsNotSupported("transactions are not supported by this broker")
    connection.refuse(command, refusal)


def on_watch_coordinators_close(connection: Connection, command: BaseCommand) -> None:
    """Nothing is watched, so nothing ends."""

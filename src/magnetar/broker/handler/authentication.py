"""Fresh credentials of a client that is connected."""

from __future__ import annotations

from magnetar.broker.connection import Connection
from magnetar.wire.command import BaseCommand


def on_auth_response(connection: Connection, command: BaseCommand) -> None:
    connection.handshake.on_response(command.authResponse)

"""Fresh credentials of a client that is connected."""

from __future__ import annotations

from collections.abc import Awaitable

from magnetar.broker.connection import Connection
from magnetar.wire.command import BaseCommand


def on_auth_response(connection: Connection, command: BaseCommand) -> Awaitable[None]:
    return connection.handshake.on_response(command.authResponse)

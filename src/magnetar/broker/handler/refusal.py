"""Commands this broker understands but does not serve."""

from __future__ import annotations

from magnetar.broker.connection import Connection
from magnetar.errors import TransactionsNotSupported, WireCode
from magnetar.wire.command import (
    BaseCommand,
    CommandAddPartitionToTxnResponse,
    CommandAddSubscriptionToTxnResponse,
    CommandEndTxnOnPartitionResponse,
    CommandEndTxnOnSubscriptionResponse,
    CommandEndTxnResponse,
    CommandNewTxnResponse,
    CommandTcClientConnectResponse,
    CommandWatchTcAssignmentsUpdate,
    ServerError,
    body_of,
    make_command,
)

_RESPONSES = {
    BaseCommand.NEW_TXN: CommandNewTxnResponse,
    BaseCommand.ADD_PARTITION_TO_TXN: CommandAddPartitionToTxnResponse,
    BaseCommand.ADD_SUBSCRIPTION_TO_TXN: CommandAddSubscriptionToTxnResponse,
    BaseCommand.END_TXN: CommandEndTxnResponse,
    BaseCommand.END_TXN_ON_PARTITION: CommandEndTxnOnPartitionResponse,
    BaseCommand.END_TXN_ON_SUBSCRIPTION: CommandEndTxnOnSubscriptionResponse,
    BaseCommand.TC_CLIENT_CONNECT_REQUEST: CommandTcClientConnectResponse,
}
_NOT_ALLOWED = ServerError.Name(WireCode.NOT_ALLOWED)
_SENTENCE = TransactionsNotSupported("transactions are not supported by this broker").sentence


def on_transaction(connection: Connection, command: BaseCommand) -> None:
    body = body_of(command)
    request_id: int = body.request_id  # type: ignore[attr-defined]
    response = _RESPONSES[command.type](
        request_id=request_id, error=_NOT_ALLOWED, message=_SENTENCE
    )
    connection.send_command(make_command(response))


def on_watch_coordinators(connection: Connection, command: BaseCommand) -> None:
    update = CommandWatchTcAssignmentsUpdate(
        watch_id=command.watchTcAssignments.watch_id, error=_NOT_ALLOWED, message=_SENTENCE
    )
    connection.send_command(make_command(update))


def on_watch_coordinators_close(connection: Connection, command: BaseCommand) -> None:
    """Nothing is watched, so nothing ends."""

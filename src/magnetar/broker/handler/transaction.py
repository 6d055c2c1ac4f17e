"""Transactions: requests to coordinators, and ends that other brokers send to participants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from magnetar.broker.connection import Connection
from magnetar.broker.handler.permission import CommandPermissions
from magnetar.broker.transaction.remote import Coordination
from magnetar.broker.transaction.service import TransactionService
from magnetar.broker.transaction.watch import AssignmentWatches
from magnetar.errors import NotAllowed, ServiceNotReady, TransactionNotFound, UnknownOutcome
from magnetar.model.caller import Caller
from magnetar.model.limit import Limits
from magnetar.model.name import parse_stored_topic, parse_topic
from magnetar.model.permission import SUPER_USER
from magnetar.model.transaction import TransactionId
from magnetar.runtime.configuration import Configuration
from magnetar.wire.command import (
    BaseCommand,
    CommandEndTxn,
    CommandEndTxnOnPartition,
    CommandEndTxnOnSubscription,
    CommandTcClientConnectResponse,
    TxnAction,
    make_command,
)
from magnetar.wire.transaction_answer import encode_transaction_answer

_End: TypeAlias = CommandEndTxn | CommandEndTxnOnPartition | CommandEndTxnOnSubscription


@dataclass(frozen=True)
class TransactionCommands:
    permissions: CommandPermissions
    config: Configuration
    limits: Limits
    transactions: TransactionService

    # ------------------------------------------------------------------ finding coordinators

    async def on_connect(self, connection: Connection, command: BaseCommand) -> None:
        """A client that takes itself to be led on by a proxy is served wherever the coordinator
        runs. Those of Apache Pulsar 5.0.0-M1 always do, and would never reach another broker.
        """
        request = command.tcClientConnectRequest
        if connection.handshake.proxied_to:
            await self.transactions.check_exists(request.tc_id)
        else:
            await self.transactions.coordinator(request.tc_id)
        response = CommandTcClientConnectResponse(request_id=request.request_id)
        connection.send_command(make_command(response))

    async def on_watch(self, connection: Connection, command: BaseCommand) -> None:
        request = command.watchTcAssignments
        self.transactions.check_enabled()
        if not self.config.transactionCoordinatorScalableTopicsEnabled:
            raise ServiceNotReady("Coordinators cannot be watched on this broker")
        watches = connection.attached(AssignmentWatches)
        await self.transactions.assignment_feed.open(watches, request.watch_id)

    def on_watch_close(self, connection: Connection, command: BaseCommand) -> None:
        watch_id = command.watchTcAssignmentsClose.watch_id
        connection.attached(AssignmentWatches).ids.discard(watch_id)

    # ------------------------------------------------------------------ a transaction's steps

    async def on_new(self, connection: Connection, command: BaseCommand) -> None:
        request = command.newTxn
        coordinator = self._reach(connection, request.tc_id)
        timeout_ms = request.txn_ttl_millis
        longest_ms = self.limits.transaction_timeout_ms
        if timeout_ms > longest_ms:
            raise NotAllowed(
                f"A time-out of {timeout_ms} ms; at most {longest_ms} are allowed"
                " (maxTransactionTimeoutMillis)"
            )
        id_ = await coordinator.begin(_role_of(connection.caller), timeout_ms)
        _answer(connection, BaseCommand.NEW_TXN_RESPONSE, request.request_id, id_)

    async def on_add_partitions(self, connection: Connection, command: BaseCommand) -> None:
        request = command.addPartitionToTxn
        id_ = TransactionId(request.txnid_most_bits, request.txnid_least_bits)
        for each in request.partitions:  # which are kept as they are written
            topic = parse_stored_topic(each)
            await self.permissions.check(connection, BaseCommand.PRODUCER, topic=topic)
        coordinator, caller = self._reach(connection, id_.most), await self._caller(connection)
        await coordinator.join(id_, *caller, topics=tuple(request.partitions))
        _answer(connection, BaseCommand.ADD_PARTITION_TO_TXN_RESPONSE, request.request_id, id_)

    async def on_add_subscriptions(self, connection: Connection, command: BaseCommand) -> None:
        request = command.addSubscriptionToTxn
        id_ = TransactionId(request.txnid_most_bits, request.txnid_least_bits)
        subscriptions = []
        for each in request.subscription:
            topic, name = parse_stored_topic(each.topic), each.subscription
            await self.permissions.check(
                connection, BaseCommand.SUBSCRIBE, topic=topic, subscription=name
            )
            subscriptions.append((each.topic, name))
        coordinator, caller = self._reach(connection, id_.most), await self._caller(connection)
        await coordinator.join(id_, *caller, subscriptions=tuple(subscriptions))
        _answer(connection, BaseCommand.ADD_SUBSCRIPTION_TO_TXN_RESPONSE, request.request_id, id_)

    async def on_end(self, connection: Connection, command: BaseCommand) -> None:
        request = command.endTxn
        id_ = TransactionId(request.txnid_most_bits, request.txnid_least_bits)
        coordinator, caller = self._reach(connection, id_.most), await self._caller(connection)
        await coordinator.end(id_, *caller, is_commit=_is_commit(request))
        _answer(connection, BaseCommand.END_TXN_RESPONSE, request.request_id, id_)

    def _reach(self, connection: Connection, number: int) -> Coordination:
        return self.transactions.reach(number, is_relayed=bool(connection.handshake.proxied_to))

    async def _caller(self, connection: Connection) -> tuple[str, bool]:
        """The role, and whether it is that of a super-user."""
        return _role_of(connection.caller), await self._is_super_user(connection)

    async def _is_super_user(self, connection: Connection) -> bool:
        return await self.permissions.allows(connection, SUPER_USER)

    # ------------------------------------------------------------------ outcomes from other brokers

    async def on_end_partition(self, connection: Connection, command: BaseCommand) -> None:
        request = command.endTxnOnPartition
        id_ = TransactionId(request.txnid_most_bits, request.txnid_least_bits)
        await self._end_here(connection, id_, request.topic, request)
        _answer(connection, BaseCommand.END_TXN_ON_PARTITION_RESPONSE, request.request_id, id_)

    async def on_end_subscription(self, connection: Connection, command: BaseCommand) -> None:
        request = command.endTxnOnSubscription
        id_ = TransactionId(request.txnid_most_bits, request.txnid_least_bits)
        await self._end_here(connection, id_, request.subscription.topic, request)
        _answer(connection, BaseCommand.END_TXN_ON_SUBSCRIPTION_RESPONSE, request.request_id, id_)

    async def _end_here(
        self, connection: Connection, id_: TransactionId, topic: str, request: _End
    ) -> None:
        self.transactions.check_enabled()
        if not await self._is_super_user(connection):
            raise TransactionNotFound(f"Transaction {id_} is not ended by this caller")
        durable = await self.transactions.participants.end_here(
            parse_topic(topic), id_, is_commit=_is_commit(request)
        )
        if durable is not None:
            await durable


def _is_commit(request: _End) -> bool:
    """The field is not there when an action was sent that this broker does not know. To take that
    for the first action, as Protobuf does, would commit.
    """
    if not request.HasField("txn_action"):
        raise UnknownOutcome("A transaction is ended by a commit or by an abort")
    return request.txn_action == TxnAction.COMMIT


def _answer(connection: Connection, kind: int, request_id: int, id_: TransactionId) -> None:
    connection.send(encode_transaction_answer(kind, request_id, id_))


def _role_of(caller: Caller) -> str:
    return caller.original_role or caller.role or ""

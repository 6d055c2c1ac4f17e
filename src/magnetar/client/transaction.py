"""Transactions: sends and acknowledgements that take effect together, or not at all."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from enum import StrEnum
from types import TracebackType
from typing import Any, Final, Never

from magnetar.client.connection import Type
from magnetar.client.coordinator import Coordinators
from magnetar.client.error import (
    ConfigurationError,
    FeatureNotSupportedError,
    NotAllowedError,
    PulsarError,
    TransactionError,
    TransactionNotFoundError,
    TransactionTimedOutError,
)
from magnetar.client.handle import Enlisting, Handle, Opening, TransactionHandle
from magnetar.client.layout import is_apache
from magnetar.client.quantity import Duration, parse_duration
from magnetar.client.retry import wait_all
from magnetar.client.session import Session
from magnetar.errors import WireCode
from magnetar.model.name import TopicDomain, TopicName
from magnetar.model.transaction import TransactionId as TransactionId
from magnetar.runtime.log import Logger
from magnetar.wire.command import (
    CommandAddPartitionToTxn,
    CommandAddSubscriptionToTxn,
    CommandEndTxn,
    Subscription,
    TxnAction,
)


class JoinedTransaction(TransactionHandle):
    """Made by `AsyncBulk.join_transaction`. The client that began the transaction ends it, once
    it knows that everything sent within it is stored.
    """

    def __init__(
        self,
        session: Session,
        coordinators: Coordinators,
        id_: TransactionId,
        *,
        server_version: str,
    ) -> None:
        self._session = session
        self._coordinators = coordinators
        self._id = id_
        self._is_apache = is_apache(server_version)
        self._enlisted: dict[tuple[TopicName, str | None], asyncio.Future[None]] = {}

    @property
    def id(self) -> TransactionId:
        """The number of its coordinator, and the number that it gave out."""
        return self._id

    @property
    def enlisting(self) -> Enlisting:
        return self

    def follow(self, client: object, operation: asyncio.Future[Any]) -> None:
        if client is not self._session:
            raise ConfigurationError(
                f"Transaction {self._id} was begun or joined by another client"
            )

    def when_undone(self, call: Callable[[], None]) -> None:
        raise ConfigurationError(
            f"Transaction {self._id} was only joined here, where its end is not known: acknowledge"
            " a stream with the client that began it"
        )

    def enlist_topic(self, topic: TopicName) -> asyncio.Future[None] | None:
        body = CommandAddPartitionToTxn(partitions=[topic.full])
        return self._enlist(topic, None, body, Type.ADD_PARTITION_TO_TXN_RESPONSE)

    def enlist_subscription(
        self, topic: TopicName, subscription: str
    ) -> asyncio.Future[None] | None:
        named = Subscription(topic=topic.full, subscription=subscription)
        body = CommandAddSubscriptionToTxn(subscription=[named])
        return self._enlist(topic, subscription, body, Type.ADD_SUBSCRIPTION_TO_TXN_RESPONSE)

    def _enlist(
        self, topic: TopicName, subscription: str | None, body: Any, expect: int
    ) -> asyncio.Future[None] | None:
        enlisted = self._enlisted.get((topic, subscription))
        if enlisted is None:
            enlisted = asyncio.get_running_loop().create_future()
            self._enlisted[topic, subscription] = enlisted
            self._session.scope.start(
                self._announce(topic, body, expect, enlisted), f"enlist {topic} in {self._id}"
            )
        is_done = enlisted.done() and enlisted.exception() is None
        return None if is_done else enlisted

    async def _announce(
        self, topic: TopicName, body: Any, expect: int, enlisted: asyncio.Future[None]
    ) -> None:
        try:
            self._check_topic(topic)
            await self._coordinators.ask(self._id, body, expect)
        except PulsarError as error:
            enlisted.set_exception(error)
            enlisted.exception()  # whatever waits for it raises it
        else:
            enlisted.set_result(None)

    def _check_topic(self, topic: TopicName) -> None:
        """Apache Pulsar lets its two kinds of coordinators span one kind of topics each, and
        loses what is sent to the other.
        """
        is_segment = topic.domain is TopicDomain.SEGMENT
        if not is_segment and not topic.is_persistent:
            raise NotAllowedError(f"{topic} keeps nothing, so that no transaction can span it")
        if self._is_apache and is_segment is not self._coordinators.is_scalable:
            maker = "client.transaction()" if is_segment else "client.transaction(scalable=False)"
            raise FeatureNotSupportedError(
                "On Apache Pulsar a transaction spans scalable topics, or regular ones;"
                f" {topic} takes one that is made by {maker}"
            )


TIMEOUT_S: Final = 60.0
"""As other clients of Pulsar have it."""

_log = Logger(__name__)


class TransactionState(StrEnum):
    OPEN = "open"
    COMMITTING = "committing"
    ABORTING = "aborting"
    COMMITTED = "committed"
    ABORTED = "aborted"
    TIMED_OUT = "timed out"
    """By the client's clock; its coordinator aborts it, if it has not yet."""
    ERROR = "error"
    """It may be committed: the answer was lost, and `commit` can be called again."""


class AsyncTransaction(JoinedTransaction, Handle):
    """Made by `client.transaction`: `async with` commits at the end, and aborts on an exception."""

    def __init__(
        self,
        session: Session,
        coordinators: Coordinators,
        id_: TransactionId,
        *,
        deadline: float,
        server_version: str,
    ) -> None:
        super().__init__(session, coordinators, id_, server_version=server_version)
        self._deadline = deadline
        self._state = TransactionState.OPEN
        self._is_decided = False
        """Whether the coordinator was asked to commit."""
        self._ending = asyncio.Lock()
        self._pending: set[asyncio.Future[Any]] = set()
        self._failure: PulsarError | None = None
        self._undo: list[Callable[[], None]] = []

    def _tell_state(self) -> str:
        return f"{self.id}, {self.state}"

    @property
    def state(self) -> TransactionState:
        if self._state is TransactionState.OPEN and self._is_overdue:
            return TransactionState.TIMED_OUT
        return self._state

    async def commit(self) -> None:
        """Wait for everything sent and acknowledged within it, and let all of it take effect.

        When some of it has failed, abort instead, and raise why it failed.
        """
        async with self._ending:
            if self.state is TransactionState.COMMITTED:
                return
            if self.state is TransactionState.TIMED_OUT:
                await self._give_up()
            elif self._state is TransactionState.OPEN:
                await self._settle_to_commit()
            elif not self._is_decided:
                raise TransactionError(f"Transaction {self._id} is {self._state}")
            await self._commit()

    async def abort(self) -> None:
        """Undo everything sent and acknowledged within it; again does nothing."""
        async with self._ending:
            if self._state in (TransactionState.ABORTED, TransactionState.TIMED_OUT):
                return
            if self._state is not TransactionState.OPEN:
                raise TransactionError(f"Transaction {self._id} is {self._state}")
            self._state = TransactionState.ABORTING
            try:
                await self._settle(self._session.operation_timeout)
                await self._end(TxnAction.ABORT)
            except TransactionNotFoundError:
                pass  # its coordinator has aborted it, and forgotten it
            finally:  # without a commit it can only be aborted, at its time-out if not now
                self._finish(TransactionState.ABORTED)

    async def close(self) -> None:
        """Abort it if it is open; a failure of that is logged, and left to its time-out."""
        if self._state is TransactionState.OPEN:
            try:
                await self.abort()
            except PulsarError as error:
                _log.warning("transaction not aborted", id=self._id, reason=error)

    async def __aexit__(self, *raised: object) -> None:
        if raised[0] is None and self._state is TransactionState.OPEN:
            await self.commit()
        else:
            await self.close()

    # ------------------------------------------------------------------ for what takes part

    def follow(self, client: object, operation: asyncio.Future[Any]) -> None:
        super().follow(client, operation)
        if self.state is TransactionState.TIMED_OUT:
            raise TransactionTimedOutError(f"Transaction {self._id} has timed out")
        if self._state is not TransactionState.OPEN:
            raise TransactionError(f"Transaction {self._id} is {self._state}")
        self._pending.add(operation)
        operation.add_done_callback(self._on_operation)

    def when_undone(self, call: Callable[[], None]) -> None:
        self._undo.append(call)

    def _on_operation(self, operation: asyncio.Future[Any]) -> None:
        self._pending.discard(operation)
        if operation.cancelled():
            error: BaseException | None = TransactionError(
                f"A send or acknowledgement of transaction {self._id} was given up"
            )
        else:
            error = operation.exception()
        if isinstance(error, PulsarError) and self._failure is None:
            self._failure = error

    # ------------------------------------------------------------------ ending

    @property
    def _is_overdue(self) -> bool:
        return self._session.clock.monotonic() >= self._deadline

    async def _settle(self, timeout: float) -> None:
        """Until everything of it has ended, well or not."""
        left = self._deadline - self._session.clock.monotonic()
        if self._pending:
            clock = self._session.clock
            await wait_all(self._pending, clock=clock, timeout=max(0.0, min(timeout, left)))

    async def _settle_to_commit(self) -> None:
        self._state = TransactionState.COMMITTING
        try:
            await self._settle(math.inf)
        except BaseException:
            self._state = TransactionState.OPEN  # the caller gave up, and nothing is decided
            raise
        if self._failure is not None or self._pending:
            await self._give_up()

    async def _give_up(self) -> Never:
        """Abort instead of the commit that was asked for, and raise why."""
        failure = self._failure
        if failure is None:
            failure = TransactionTimedOutError(f"Transaction {self._id} has timed out")
        is_late = isinstance(failure, TransactionTimedOutError)
        try:
            await self._end(TxnAction.ABORT)
        except PulsarError as error:
            _log.info("transaction left to its time-out", id=self._id, reason=error)
        self._finish(TransactionState.TIMED_OUT if is_late else TransactionState.ABORTED)
        raise failure

    async def _commit(self) -> None:
        self._is_decided = True
        try:
            await self._end(TxnAction.COMMIT)
        except TransactionError as error:
            if self._is_overdue:
                self._finish(TransactionState.TIMED_OUT)
                raise TransactionTimedOutError(f"Transaction {self._id} has timed out") from error
            is_aborted = error.code is WireCode.INVALID_TRANSACTION_STATUS
            self._finish(TransactionState.ABORTED if is_aborted else TransactionState.ERROR)
            raise
        except BaseException:
            self._state = TransactionState.ERROR
            raise
        self._finish(TransactionState.COMMITTED)

    async def _end(self, action: TxnAction) -> None:
        body = CommandEndTxn(txn_action=action)
        await self._coordinators.ask(self._id, body, Type.END_TXN_RESPONSE)

    def _finish(self, state: TransactionState) -> None:
        self._state = state
        self._session.made.pop(self, None)
        undo, self._undo = self._undo, []
        if state is not TransactionState.COMMITTED:
            for call in undo:
                call()


class TransactionOpening(Opening[AsyncTransaction]):
    """`async with` ends the transaction as the body did."""

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._handle is not None:
            await self._handle.__aexit__(kind, error, trace)


def open_transaction(
    session: Session, coordinators: Coordinators, timeout: Duration
) -> TransactionOpening:
    """What the methods `transaction` of a client return."""
    seconds = parse_duration("timeout", timeout, least=0.001)

    async def open() -> AsyncTransaction:
        began = session.clock.monotonic()
        id_, server_version = await coordinators.begin(int(seconds * 1000))
        transaction = AsyncTransaction(
            session,
            coordinators,
            id_,
            deadline=began + seconds,
            server_version=server_version,
        )
        session.made[transaction] = None
        return transaction

    return TransactionOpening(open)


async def join_transaction(
    session: Session, coordinators: Coordinators, id_: TransactionId
) -> JoinedTransaction:
    """Take part in what another client began."""
    server_version = await coordinators.reach(id_.most)
    return JoinedTransaction(session, coordinators, id_, server_version=server_version)


async def take_over_transaction(
    session: Session, coordinators: Coordinators, id_: TransactionId
) -> AsyncTransaction:
    """End what another client began. Its coordinator alone knows its time-out."""
    server_version = await coordinators.reach(id_.most)
    taken = AsyncTransaction(
        session, coordinators, id_, deadline=math.inf, server_version=server_version
    )
    session.made[taken] = None
    return taken

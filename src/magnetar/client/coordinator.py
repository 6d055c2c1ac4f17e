"""The coordinators of transactions: how a client finds them, and asks them."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Mapping
from itertools import count
from typing import Any, TypeVar

from magnetar.client.connection import Connection, Type
from magnetar.client.error import (
    CoordinatorUnavailableError,
    FeatureNotSupportedError,
    NotAllowedError,
    PulsarError,
    decode_refusal,
)
from magnetar.client.retry import insist, is_passing
from magnetar.client.session import Session
from magnetar.client.watch import Watch
from magnetar.model.transaction import ASSIGN_TOPIC, TransactionId
from magnetar.wire.command import (
    CommandNewTxn,
    CommandTcClientConnectRequest,
    CommandWatchTcAssignments,
    CommandWatchTcAssignmentsClose,
    CommandWatchTcAssignmentsUpdate,
)

T = TypeVar("T")


class Coordinators(ABC):
    """A number for each. Transactions are begun at one after the other; what follows goes to the
    one that began it. One that moves or restarts is asked again until the operation timeout.
    """

    is_scalable: bool
    """Which of its two kinds of coordinators Apache Pulsar is to use."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._turn = count(1)
        self._reached: dict[int, Connection] = {}
        """Where each was found last."""

    async def begin(self, timeout_ms: int) -> tuple[TransactionId, str]:
        """Its id, and the version of the broker that gave it out."""

        async def attempt() -> tuple[TransactionId, str]:
            numbers = sorted(await self._numbers())
            number = numbers[next(self._turn) % len(numbers)]
            body = CommandNewTxn(tc_id=number, txn_ttl_millis=timeout_ms, scalable=self.is_scalable)
            answer, version = await self._ask(number, body, Type.NEW_TXN_RESPONSE)
            return TransactionId(answer.txnid_most_bits, answer.txnid_least_bits), version

        return await self._insist(attempt)

    async def reach(self, number: int) -> str:
        """Find a coordinator whose transactions another client began; the version of its broker."""

        async def attempt() -> str:
            await self._numbers()
            return (await self._reach(number)).server_version

        return await self._insist(attempt)

    async def ask(self, id_: TransactionId, body: Any, expect: int) -> Any:
        """Send a command about a transaction to its coordinator, and return the answer."""
        body.txnid_most_bits, body.txnid_least_bits = id_
        body.scalable = self.is_scalable

        async def attempt() -> Any:
            answer, _ = await self._ask(id_.most, body, expect)
            return answer

        return await self._insist(attempt)

    @abstractmethod
    async def _numbers(self) -> Collection[int]:
        """Those that can be asked now; one at least."""

    @abstractmethod
    async def _connect(self, number: int) -> Connection:
        """To the broker that runs a coordinator."""

    async def _ask(self, number: int, body: Any, expect: int) -> tuple[Any, str]:
        """The answer, and the version of the broker that gave it."""
        timeout = self._session.operation_timeout
        try:
            connection = await self._reach(number)
            answer = await connection.request(body, expect, timeout=timeout)
            if answer.HasField("error"):
                raise decode_refusal(answer.error, answer.message)
        except PulsarError as error:
            if is_passing(error):
                self._reached.pop(number, None)
            raise
        return answer, connection.server_version

    async def _reach(self, number: int) -> Connection:
        known = self._reached.get(number)
        if known is not None and known.is_open:
            return known
        connection = await self._connect(number)
        hello = CommandTcClientConnectRequest(tc_id=number, scalable=self.is_scalable)
        timeout = self._session.operation_timeout
        answer = await connection.request(hello, Type.TC_CLIENT_CONNECT_RESPONSE, timeout=timeout)
        if answer.HasField("error"):
            raise decode_refusal(answer.error, answer.message)
        self._reached[number] = connection
        return connection

    async def _insist(self, attempt: Callable[[], Awaitable[T]]) -> T:
        session = self._session
        return await insist(
            attempt,
            clock=session.clock,
            policy=session.policy,
            timeout=session.operation_timeout,
        )


class LookedUpCoordinators(Coordinators):
    """By the owners of the partitions of a system topic, as clients of regular topics do."""

    is_scalable = False

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._count = 0

    async def _numbers(self) -> Collection[int]:
        if not self._count:
            self._count = await self._session.lookup.count_partitions(ASSIGN_TOPIC)
            if not self._count:
                raise NotAllowedError("Transactions are not enabled on the broker")
        return range(self._count)

    async def _connect(self, number: int) -> Connection:
        return await self._session.lookup.connect(ASSIGN_TOPIC.partition(number))


class WatchedCoordinators(Coordinators):
    """By a watch that brokers push every change of, as clients of scalable topics do."""

    is_scalable = True

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._watch = AssignmentWatch(session)
        self._opening = asyncio.Lock()
        self._is_open = False

    async def close(self) -> None:
        self._watch.close()

    async def _numbers(self) -> Collection[int]:
        async with self._opening:  # one of several first transactions opens the watch
            if not self._is_open:
                await self._watch.open()
                self._is_open = True
                self._session.made[self] = None
        if not self._watch.urls:
            raise CoordinatorUnavailableError("No transaction coordinator has an owner now")
        return self._watch.urls

    async def _connect(self, number: int) -> Connection:
        url = self._watch.urls.get(number)
        if url is None:
            raise CoordinatorUnavailableError(f"Transaction coordinator {number} has no owner now")
        return await self._session.lookup.connect_to(url)


class AssignmentWatch(Watch):
    """Open it, then read `urls`."""

    kind = Type.WATCH_TC_ASSIGNMENTS_UPDATE

    def __init__(self, session: Session) -> None:
        super().__init__(session, "transaction coordinators")
        self.urls: Mapping[int, str] = {}
        """Where each coordinator runs; those without an owner are left out."""
        self._is_secure = False

    async def _connect(self) -> Connection:
        connection = await self._session.pool.get_service()
        if not connection.features.supports_tc_metadata_discovery:
            raise FeatureNotSupportedError(
                f"{connection.address} offers no transactions over scalable topics:"
                " they are not enabled, or its release has none;"
                " client.transaction(scalable=False) spans regular topics"
            )
        self._is_secure = connection.address.secure
        return connection

    def _hello(self, id: int, *, is_first: bool) -> CommandWatchTcAssignments:
        return CommandWatchTcAssignments(watch_id=id)

    def goodbye(self, id: int) -> CommandWatchTcAssignmentsClose:
        return CommandWatchTcAssignmentsClose(watch_id=id)

    def _on_news(self, body: CommandWatchTcAssignmentsUpdate) -> None:
        found = {}
        for each in body.snapshot.assignments:
            url = each.broker_service_url_tls if self._is_secure else each.broker_service_url
            if url:
                found[each.tc_id] = url
        self.urls = found

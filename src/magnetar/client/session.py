"""What everything made by one client shares."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Final

from magnetar.client.address import parse_addresses
from magnetar.client.authentication import Authentication, NoAuthentication, Tls
from magnetar.client.connection import parse_description
from magnetar.client.event import Events, OnEvent
from magnetar.client.handle import Closable
from magnetar.client.lookup import Lookup
from magnetar.client.policy import ConnectionPolicy
from magnetar.client.pool import ConnectionPool
from magnetar.client.publication import ProducerSettings
from magnetar.client.schema.book import SchemaBook
from magnetar.client.subscription import ConsumerSettings
from magnetar.client.telemetry import Telemetry
from magnetar.runtime.clock import Clock
from magnetar.runtime.task import TaskScope

MEMORY_BYTES_DEFAULT: Final = 64 * 1024 * 1024


class MemoryLimit:
    """First come, first served. A message larger than all there is waits until nothing else is."""

    def __init__(self, bytes_max: int = MEMORY_BYTES_DEFAULT) -> None:
        self._bytes_max = bytes_max
        self._used = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def used(self) -> int:
        return self._used

    def try_take(self, size: int) -> bool:
        if self._waiting or not self.fits(size):
            return False
        self._used += size
        return True

    async def take(self, size: int) -> None:
        if self.try_take(size):
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, place))
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self.give(size)  # the place was handed over and is not used
            raise

    def give(self, size: int) -> None:
        self._used -= size
        while self._waiting:
            wanted, place = self._waiting[0]
            if not place.done():
                if not self.fits(wanted):
                    return
                self._used += wanted
                place.set_result(None)
            self._waiting.popleft()

    def fits(self, size: int, *, ahead: int = 0) -> bool:
        """Behind `ahead` bytes that come first; 0 bytes at most means that there is no limit."""
        used = self._used + ahead
        return self._bytes_max == 0 or used == 0 or used + size <= self._bytes_max


@dataclass(slots=True)
class Session:
    pool: Final[ConnectionPool]
    lookup: Final[Lookup]
    clock: Final[Clock]
    policy: ConnectionPolicy
    operation_timeout: Final[float]
    made: Final[dict[Closable, None]] = field(default_factory=dict)
    """What is open, in the order it was made."""
    scope: Final[TaskScope] = field(default_factory=lambda: TaskScope("client"))
    memory: Final[MemoryLimit] = field(default_factory=MemoryLimit)
    """What may wait for receipts, all producers together."""
    telemetry: Final[Telemetry | None] = None
    events: Final[Events] = field(default_factory=Events)
    is_ending_now: bool = False
    """Nothing is waited for any more: what is not confirmed fails."""
    schemas: SchemaBook = field(init=False)
    _producer_ids: count[int] = field(default_factory=count)
    _consumer_ids: count[int] = field(default_factory=count)
    _turns: count[int] = field(default_factory=count)

    _watch_ids: count[int] = field(default_factory=lambda: count(1))

    def __post_init__(self) -> None:
        self.schemas = SchemaBook(
            self.pool, clock=self.clock, policy=self.policy, timeout=self.operation_timeout
        )

    def watch_producer(self, settings: ProducerSettings) -> ProducerSettings:
        """The settings with the client's telemetry behind the application's interceptors."""
        if self.telemetry is None:
            return settings
        added = self.telemetry.watch_producer()
        return replace(settings, interceptors=(*settings.interceptors, added))

    def watch_consumer(self, settings: ConsumerSettings) -> ConsumerSettings:
        if self.telemetry is None:
            return settings
        added = self.telemetry.watch_consumer(settings.subscription)
        return replace(settings, interceptors=(*settings.interceptors, added))

    def next_producer_id(self) -> int:
        return next(self._producer_ids)

    def next_consumer_id(self) -> int:
        return next(self._consumer_ids)

    def next_turn(self) -> int:
        """Who takes which connection to a broker, where there are several."""
        return next(self._turns)

    def next_watch_id(self) -> int:
        """For watches of layouts and of namespaces."""
        return next(self._watch_ids)


def make_session(
    service_url: str,
    clock: Clock,
    *,
    authentication: Authentication | None,
    operation_timeout: float,
    connection: ConnectionPolicy | None,
    tls: Tls | None,
    memory_limit: int,
    listener_name: str | None,
    description: str | None,
    telemetry: Telemetry | None,
    on_event: OnEvent | None,
) -> Session:
    """With everything that connects when it is first needed."""
    policy, timeout, events = connection or ConnectionPolicy(), operation_timeout, Events(on_event)
    pool = ConnectionPool(
        parse_addresses(service_url),
        authentication=authentication or NoAuthentication(),
        policy=policy,
        tls=tls,
        description=parse_description(description),
        clock=clock,
        events=events,
    )
    lookup = Lookup(pool, clock=clock, policy=policy, timeout=timeout, listener=listener_name or "")
    memory = MemoryLimit(memory_limit)
    return Session(
        pool, lookup, clock, policy, timeout, memory=memory, telemetry=telemetry, events=events
    )

"""What everything made by one client shares."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import count
from typing import Protocol

from magnetar.client.lookup import Lookup
from magnetar.client.memory import MemoryLimit
from magnetar.client.policy import ConnectionPolicy
from magnetar.client.pool import ConnectionPool
from magnetar.client.publication import ProducerSettings
from magnetar.client.schema.book import SchemaBook
from magnetar.client.subscription import ConsumerSettings
from magnetar.client.telemetry import Telemetry
from magnetar.runtime.clock import Clock
from magnetar.runtime.task import TaskScope


class Handle(Protocol):
    """A producer or consumer that an application holds."""

    async def close(self) -> None: ...


@dataclass(slots=True)
class Session:
    pool: ConnectionPool
    lookup: Lookup
    clock: Clock
    policy: ConnectionPolicy
    operation_timeout: float
    made: dict[Handle, None] = field(default_factory=dict)
    """What is open, in the order it was made."""
    scope: TaskScope = field(default_factory=lambda: TaskScope("client"))
    memory: MemoryLimit = field(default_factory=MemoryLimit)
    """What may wait for receipts, all producers together."""
    telemetry: Telemetry | None = None
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

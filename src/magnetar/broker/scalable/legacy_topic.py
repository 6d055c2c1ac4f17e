"""Regular topics that are about to become segments, at the brokers that own them.

For a moment of a migration its topics take no writes and let no client in. They are held for as
long as the lock of the migration is there, whatever becomes of the broker that asked for it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Concatenate, ParamSpec, TypeVar

from magnetar.broker.broker_call import BrokerCalls
from magnetar.broker.catalog import TopicCatalog
from magnetar.broker.persistent import PersistentTopic
from magnetar.broker.scalable.connection_registry import ConnectionRegistry
from magnetar.broker.scalable.guard import Guard
from magnetar.broker.scalable.legacy_client import classic_consumers, find_classic_clients
from magnetar.broker.scalable.segment import together
from magnetar.broker.subscription_stats import backlog_bytes
from magnetar.errors import BrokerError, Conflict
from magnetar.metadata.store import Change, ChangeKind, MetadataStore
from magnetar.model.migration import LOCKS, ClassicClient, lock_path
from magnetar.model.name import TopicName, parse_topic
from magnetar.model.segment import scalable_name
from magnetar.runtime.task import TaskScope

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class LegacySeen:
    """A regular topic as it is; one that is not loaded has no clients."""

    cursors: frozenset[str] = frozenset()
    """Its durable subscriptions."""
    clients: tuple[ClassicClient, ...] = ()
    """Those that cannot follow."""
    properties: dict[str, str] = field(default_factory=dict)
    cursor_properties: dict[str, dict[str, str]] = field(default_factory=dict)
    """Of the subscriptions that have any."""


@dataclass(frozen=True, slots=True)
class LegacyBacklog:
    """What a subscription has left to read, and how fast it does."""

    is_read: bool
    """Whether it has consumers."""
    entries: int
    size_bytes: int
    rate_out_per_s: float
    bytes_out_per_s: float


def changed_meanwhile(topic: TopicName) -> Conflict:
    return Conflict(f"{topic.base} was changed while it was to be migrated")


class Legacy:
    """Port of the broker that owns regular topics, by full names. Calls may be repeated."""

    def __init__(
        self,
        catalog: TopicCatalog,
        guard: Guard,
        *,
        store: MetadataStore,
        tasks: TaskScope,
        load_groups: Callable[[TopicName], Awaitable[None]] | None,
    ) -> None:
        """`load_groups` loads what the guard must know of groups at other brokers, if there are
        any.
        """
        self._catalog = catalog
        self._guard = guard
        self._store = store
        self._tasks = tasks
        self._load_groups = load_groups
        self._held: dict[str, PersistentTopic] = {}
        self._cancel = store.watch(LOCKS, self._on_lock)

    def close(self) -> None:
        self._cancel()

    async def look(self, name: str, load: bool = False) -> LegacySeen:
        """With `load`, a partition that was never made is made."""
        topic = parse_topic(name)
        live = await self._load(topic) if load else self._catalog.find(topic)
        if not isinstance(live, PersistentTopic):
            return LegacySeen()
        if self._load_groups is not None and live.has_clients():
            await self._load_groups(scalable_name(topic))
        durable = [each for each in live.subscriptions.values() if each.durable]
        return LegacySeen(
            frozenset(each.name for each in durable),
            tuple(find_classic_clients(self._guard, live)),
            dict(live.properties),
            {each.name: dict(each.properties) for each in durable if each.properties},
        )

    async def backlogs(self, name: str) -> dict[str, LegacyBacklog]:
        """Of each durable subscription."""
        live = await self._load(parse_topic(name))
        return {
            each.name: LegacyBacklog(
                each.consumer_count > 0,
                each.backlog,
                backlog_bytes(each),
                each.rate.count_per_s,
                each.rate.bytes_per_s,
            )
            for each in live.subscriptions.values()
            if each.durable
        }

    async def suspend(self, name: str) -> None:
        """Take no writes, and let no client attach."""
        topic = parse_topic(name)
        if name in self._held:
            return
        live = await self._load(topic)
        await live.termination.suspend()
        self._held[name] = live
        if self._load_groups is not None and not await self._store.exists(lock_path(topic)):
            await self.resume(name)
            raise Conflict(f"{topic.base} is not being migrated any more")

    async def disconnect_clients(self, name: str) -> None:
        """Disconnect producers of a topic that is held, once they have their receipts."""
        live = self._held.get(name)
        if live is not None and not live.closed:
            await live.termination.disconnect_clients()
        if live is None or live.closed:
            raise changed_meanwhile(parse_topic(name))

    async def resume(self, name: str, is_scalable: bool | None = None) -> None:
        """Let those in who waited, if they may come in; None: as the records say."""
        live = self._held.pop(name, None)
        if live is None:
            return
        successor = scalable_name(live.name) if is_scalable else None
        try:
            if is_scalable is None:
                successor = await self._catalog.find_successor(live.name)
        except BrokerError:
            # It is unknown what has become of it: its clients must come back.
            self._tasks.start(self._catalog.unload_topic(live.name), name="unload")
        finally:
            self._let_go(live, successor)

    def _let_go(self, topic: PersistentTopic, successor: TopicName | None) -> None:
        """Clients whose messages were not taken must come back, and those that cannot follow."""
        topic.successor = successor
        for producer in topic.producers:
            producer.connection.attached(ConnectionRegistry).migrated.add(topic.name)
            producer.disconnect()
        if successor is not None:
            for _, consumer in list(classic_consumers(self._guard, topic)):
                consumer.connection.attached(ConnectionRegistry).migrated.add(topic.name)
                consumer.disconnect()  # it would keep the place of those who follow
        topic.termination.resume()

    def _on_lock(self, change: Change) -> None:
        """A migration has ended, or the broker that ran it."""
        if change.kind is ChangeKind.DELETED:
            for name in self._held:
                if lock_path(parse_topic(name)) == change.path:
                    self._tasks.start(self.resume(name), name="resume")

    async def _load(self, topic: TopicName) -> PersistentTopic:
        live = await self._catalog.load_topic(topic, create=topic.is_partition)
        assert isinstance(live, PersistentTopic), "only topics that keep messages are migrated"
        return live


class LegacyCalls:
    """Makes calls about regular topics at their owners."""

    def __init__(self, calls: BrokerCalls, here: Legacy) -> None:
        self._calls = calls
        self._here = here
        calls.offer(Legacy, lambda topic: here)

    async def ask(
        self,
        name: TopicName,
        method: Callable[Concatenate[Legacy, str, P], Awaitable[R]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> R:
        topic = scalable_name(name)
        return await self._calls.ask(name, topic, method, self._here, name.full, *args, **kwargs)

    async def ask_all(
        self,
        names: Iterable[TopicName],
        method: Callable[Concatenate[Legacy, str, P], Awaitable[R]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Sequence[R]:
        return await together(self.ask(each, method, *args, **kwargs) for each in names)

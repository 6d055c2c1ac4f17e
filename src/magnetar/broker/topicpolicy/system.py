"""Topic policies as events of each namespace's `__change_events`.

A namespace's events are read by one reader that all its topics share. It begins with the first
topic that asks, and only where the system topic exists; the first policy that is set creates it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Final
from weakref import WeakValueDictionary

from magnetar.broker.broker_call import OwnerPort
from magnetar.broker.topicpolicy.contract import PolicyChange, PolicyHost, TopicPoliciesService
from magnetar.broker.topicpolicy.event_log import EventLog
from magnetar.broker.topicpolicy.event_source import ChangeEvents
from magnetar.errors import (
    BrokerError,
    InvalidName,
    NamespaceNotFound,
    PoliciesUnavailable,
    RecordNotFound,
)
from magnetar.metadata.store import ANY_VERSION, Cancel, Change, ChangeKind, SessionEvent
from magnetar.model.log_path import LOGS, without_bucket
from magnetar.model.name import NamespaceName, TopicName
from magnetar.model.policy import TopicPolicies
from magnetar.rules.system import CHANGE_EVENTS, change_events_of, is_change_events
from magnetar.runtime.configuration import Configuration
from magnetar.runtime.log import Logger
from magnetar.runtime.task import TaskScope

_log = Logger(__name__)

_NAMES: Final = (CHANGE_EVENTS, f"{CHANGE_EVENTS}-partition-0")
"""Partition 0 counts: what says how many partitions there are may outlive them in a cluster."""
NOTICES: Final = "/magnetar/change-events"
"""A record for each namespace, written after each event: readers of the events watch it."""
_CACHED_MAX: Final = 100_000
_IDLE_MAX: Final = 100
"""Namespaces that are read although none of their topics is loaded here."""


def notice_path(namespace: NamespaceName) -> str:
    return f"{NOTICES}/{namespace}"


class EventTopics:
    """Which namespaces have `__change_events`, cached until one is created or deleted."""

    def __init__(self, host: PolicyHost, on_change: Callable[[NamespaceName, bool], None]) -> None:
        """`on_change` is called when a namespace's `__change_events` may have come or gone, with
        whether one is certainly gone.
        """
        self._topics = host.topics
        self._on_event_topic = on_change
        self._cached: dict[NamespaceName, bool] = {}
        self._changes = 0
        self._cancels = (
            host.resources.local.watch(LOGS, self._on_change),
            host.resources.local.watch_session(self._on_session),
        )

    async def exists(self, namespace: NamespaceName) -> bool:
        """Both answers are cached; a look that failed is not."""
        found = self._cached.get(namespace)
        while found is None:
            seen = self._changes
            name = change_events_of(namespace)
            found = await self._topics.topic_exists(name) or (
                await self._topics.topic_exists(name.partition(0))
            )
            if seen != self._changes:
                found = None  # one came or went meanwhile, maybe this one
        if len(self._cached) >= _CACHED_MAX:
            del self._cached[next(iter(self._cached))]
        self._cached[namespace] = found
        return found

    def close(self) -> None:
        for cancel in self._cancels:
            cancel()

    def _on_change(self, change: Change) -> None:
        is_gone = change.kind is ChangeKind.DELETED
        if not (is_gone or change.kind is ChangeKind.CREATED) or not change.path.endswith(_NAMES):
            return
        # /managed-ledgers/tenant/namespace/persistent/name; what stands deeper is a cursor
        parts = without_bucket(change.path).split("/")
        if len(parts) == 6 and parts[4] == "persistent" and parts[5] in _NAMES:
            with suppress(InvalidName):
                self._forget(NamespaceName(parts[2], parts[3]), gone=is_gone)

    def _forget(self, namespace: NamespaceName, *, gone: bool) -> None:
        self._changes += 1
        self._cached.pop(namespace, None)
        self._on_event_topic(namespace, gone)

    def _on_session(self, event: SessionEvent) -> None:
        if event is SessionEvent.RECONNECTED:  # changes made meanwhile were not notified
            for namespace in tuple(self._cached):
                self._forget(namespace, gone=False)


class SystemTopicPolicies(TopicPoliciesService):
    name = "system-topic"
    allows_change_events = True
    _host: PolicyHost
    _sources: OwnerPort[ChangeEvents]

    def __init__(self, config: Configuration) -> None:
        self._config = config
        self._event_topics: EventTopics | None = None
        self._cancels: tuple[Cancel, ...] = ()
        self.logs: dict[NamespaceName, EventLog] = {}
        """The events of the namespaces that are being read."""
        self._logs_max = _IDLE_MAX
        """With more, idle ones are looked for."""
        self._read_before: set[NamespaceName] = set()
        """Namespaces that had a reader which ended: loaded topics may have missed changes."""
        self._turns: WeakValueDictionary[tuple[TopicName, bool], asyncio.Lock] = (
            WeakValueDictionary()
        )
        self._sequences = count()
        self._scope = TaskScope("change events")

    def start(self, host: PolicyHost) -> None:
        self._host = host
        self._event_topics = EventTopics(host, self._on_event_topic)
        self._sources = OwnerPort(host.calls, ChangeEvents, partial(ChangeEvents, host))
        if self._is_shared:
            local = host.resources.local
            self._cancels = (
                local.watch(NOTICES, self._on_notice),
                local.watch_session(self._on_session),
            )

    @property
    def _is_shared(self) -> bool:
        """Whether other brokers may own the events of a namespace, or write some."""
        return self._host.calls.ownership.is_shared

    async def close(self) -> None:
        if self._event_topics is not None:
            self._event_topics.close()
        for cancel in self._cancels:
            cancel()
        await self._scope.close()
        self.logs.clear()

    @property
    def _timeout_s(self) -> float:
        return float(self._config.topicPoliciesCacheInitTimeoutSeconds)

    # ------------------------------------------------------------------ the contract

    async def get(self, topic: TopicName, *, is_global: bool) -> TopicPolicies | None:
        log = await self._open_log(topic.namespace)
        return None if log is None else log.get(topic, is_global=is_global)

    async def update(self, topic: TopicName, change: PolicyChange, *, is_global: bool) -> None:
        async with self._turns.setdefault((topic, is_global), asyncio.Lock()):
            log = await self._open_log(topic.namespace)
            if log is not None and self._is_shared:
                await log.catch_up(self._timeout_s)
            present = None if log is None else log.get(topic, is_global=is_global)
            changed = change(present)
            if changed != present:
                await self._write(topic, changed, is_global=is_global)

    async def delete(self, topic: TopicName, *, keep_global: bool = False) -> None:
        for is_global in (False,) if keep_global else (False, True):
            async with self._turns.setdefault((topic, is_global), asyncio.Lock()):
                log = await self._open_log(topic.namespace)
                if log is not None and log.has(topic, is_global=is_global):
                    await self._write(topic, None, is_global=is_global)

    async def has_events(self, namespace: NamespaceName) -> bool:
        assert self._event_topics is not None, "not started"
        return await self._event_topics.exists(namespace)

    async def describe_backend(self, namespace: NamespaceName) -> tuple[str, str]:
        if await self.has_events(namespace):
            return self.name, f"{namespace} has {CHANGE_EVENTS}"
        return self.name, (
            f"{namespace} has no {CHANGE_EVENTS} yet; the configured {self.name} makes it with the"
            " first policy"
        )

    async def _write(
        self, topic: TopicName, policies: TopicPolicies | None, *, is_global: bool
    ) -> None:
        """A write that ran out of time may still come about, as with any lost answer."""
        try:
            async with self._host.clock.timeout(self._timeout_s):
                log = await self._open_log(topic.namespace, create=True)
                if log is None:
                    raise NamespaceNotFound(f"Namespace {topic.namespace} does not exist")
                sequence = next(self._sequences)
                await log.write(topic, policies, is_global=is_global, sequence=sequence)
                if self._is_shared:
                    await self._notify_brokers(topic.namespace)
        except TimeoutError:
            raise PoliciesUnavailable(
                f"{change_events_of(topic.namespace).full} did not take the change within"
                f" {self._timeout_s:g} s"
            ) from None

    async def _notify_brokers(self, namespace: NamespaceName) -> None:
        """Other brokers read on when the record of a namespace is written."""
        value = f"{self._host.producer_name} {next(self._sequences)}".encode()
        await self._host.resources.local.put(notice_path(namespace), value, expect=ANY_VERSION)

    def _on_notice(self, change: Change) -> None:
        tenant, _, local = change.path.removeprefix(f"{NOTICES}/").partition("/")
        with suppress(InvalidName):
            log = self.logs.get(NamespaceName(tenant, local))
            if log is not None:
                log.wake()

    def _on_session(self, event: SessionEvent) -> None:
        if event is SessionEvent.RECONNECTED:  # changes made meanwhile were not notified
            for log in self.logs.values():
                log.wake()

    async def delete_namespace(self, namespace: NamespaceName) -> None:
        with suppress(RecordNotFound):
            if self._is_shared:
                path = notice_path(namespace)
                await self._host.resources.local.delete(path, expect=ANY_VERSION)

    # ------------------------------------------------------------------ readers

    async def _open_log(self, namespace: NamespaceName, *, create: bool = False) -> EventLog | None:
        """The namespace's events, all of them read; None when it has none, unless the caller will
        `create` them, or when the namespace is absent or being deleted.
        """
        log = self.logs.get(namespace)
        if log is None:
            if not create and not await self.has_events(namespace):
                return None
            policies = await self._host.resources.namespaces.get(namespace)
            if policies is None or policies.deleted:
                return None
            name = change_events_of(namespace)
            partitioned = await self._host.resources.partitioned.get(name)
            partitions = 0 if partitioned is None else partitioned.partitions
            names = [name.partition(index) for index in range(partitions)] or [name]
            log = self.logs.get(namespace) or self._begin(namespace, names)
        await log.wait_ready(self._timeout_s)
        return log

    def _begin(self, namespace: NamespaceName, names: Sequence[TopicName]) -> EventLog:
        was_read = namespace in self._read_before
        log = EventLog(self._host, self._sources, namespace, names, self.notify, was_read=was_read)
        self.logs[namespace] = log
        self._forget_idle()
        self._scope.start(self._run(log), f"read {namespace}")
        return log

    async def _run(self, log: EventLog) -> None:
        try:
            await log.run(self._timeout_s)
        finally:
            # By identity: a later reader of the namespace must outlive the end of this one.
            if self.logs.get(log.namespace) is log:
                del self.logs[log.namespace]
            self._read_before.add(log.namespace)

    def _forget_idle(self) -> None:
        """Of the namespaces without a loaded topic, read only those that were asked for last."""
        if len(self.logs) <= self._logs_max:
            return
        busy = {topic.namespace for (topic, _), turn in self._turns.items() if turn.locked()}
        busy |= self._host.namespaces_in_use()
        idle = [each for each, log in self.logs.items() if log.is_ready and each not in busy]
        for namespace in idle[:-_IDLE_MAX]:
            self.forget(namespace)
        self._logs_max = len(self.logs) + max(_IDLE_MAX - len(idle), 0)

    def forget(self, namespace: NamespaceName) -> None:
        """Read a namespace's events anew when they are asked for."""
        log = self.logs.pop(namespace, None)
        if log is not None:
            log.stop()

    # ------------------------------------------------------------------ the system topic changes

    def on_topic_loaded(self, topic: TopicName) -> None:
        """Events may be loaded in place of ones that were unloaded, or be a namespace's first."""
        if is_change_events(topic) and topic.namespace in self.logs:
            self.logs[topic.namespace].wake()

    def _on_event_topic(self, namespace: NamespaceName, gone: bool) -> None:
        if gone:
            self.forget(namespace)
        if namespace in self.logs:
            return
        if namespace in self._host.namespaces_in_use():
            self._scope.start(self._look_again(namespace), f"look at {namespace}")

    async def _look_again(self, namespace: NamespaceName) -> None:
        """The system topic came or went: read it, if there is one, for the loaded topics."""
        try:
            self._read_before.add(namespace)
            if await self._open_log(namespace) is None:
                self.notify(namespace)
        except BrokerError as error:
            _log.error("change events cannot be read", error=error, namespace=str(namespace))

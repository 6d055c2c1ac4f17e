"""Topic policies as events of each namespace's `__change_events`.

A namespace's events are read by one reader that all its topics share. It begins with the first
topic that asks, and only where the system topic exists; the first policy that is set makes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

from msgspec import structs

from magnetar.broker.topicpolicy.changelog import ChangeLog
from magnetar.broker.topicpolicy.contract import (
    Listeners,
    PolicyChange,
    PolicyUpdate,
    TopicPoliciesService,
    TopicPolicyListener,
)
from magnetar.broker.topicpolicy.marker import Markers
from magnetar.errors import BrokerError, NamespaceNotFound, NotAllowed, PoliciesUnavailable
from magnetar.model.name import NamespaceName, TopicName
from magnetar.model.policy import TopicPolicies
from magnetar.model.segment import policy_name
from magnetar.rules.system import CHANGE_EVENTS, change_events_of, takes_policies
from magnetar.runtime.configuration import Configuration
from magnetar.runtime.log import Log
from magnetar.runtime.task import TaskScope
from magnetar.wire.policy_event import PolicyEvent

if TYPE_CHECKING:
    from magnetar.broker.service import Service

_log = Log(__name__)

_IDLE_MAX: Final = 100
"""Namespaces that are read although none of their topics is loaded here."""


class SystemTopicPolicies(TopicPoliciesService):
    name = "system-topic"

    def __init__(self, config: Configuration) -> None:
        self._config = config
        self._service: Service | None = None
        self._markers: Markers | None = None
        self._logs: dict[NamespaceName, ChangeLog] = {}
        self._read_before: set[NamespaceName] = set()
        """Namespaces that had a reader which ended: their listeners may have missed something."""
        self._making: set[NamespaceName] = set()
        self._listeners = Listeners()
        self._turns: WeakValueDictionary[tuple[TopicName, bool], asyncio.Lock] = (
            WeakValueDictionary()
        )
        self._sequences = count()
        self._scope = TaskScope("change events")

    def bind(self, service: Service, markers: Markers) -> None:
        """Know the broker whose topics are read. Nothing is read before somebody asks."""
        self._service = service
        self._markers = markers
        markers.listen(self._on_marker)

    def start(self, service: Service) -> None:
        self.bind(service, Markers(service))

    @property
    def readers(self) -> tuple[NamespaceName, ...]:
        """The namespaces that are being read."""
        return tuple(self._logs)

    @property
    def listening(self) -> int:
        """How many listeners there are."""
        return len(self._listeners)

    # ------------------------------------------------------------------ the contract

    async def get(self, topic: TopicName, *, is_global: bool) -> TopicPolicies | None:
        base = policy_name(topic)
        log = await self._find_log(base.namespace) if takes_policies(base) else None
        return None if log is None else log.get(base, is_global=is_global)

    async def update(
        self,
        topic: TopicName,
        change: PolicyChange,
        *,
        is_global: bool = False,
        skip_if_absent: bool = False,
    ) -> None:
        base = policy_name(topic)
        if not takes_policies(base):
            raise NotAllowed(f"{topic} belongs to the broker and takes no policies")
        async with self._turn(base, is_global=is_global):
            log = await self._find_log(base.namespace)
            present = None if log is None else log.get(base, is_global=is_global)
            if present is None and skip_if_absent:
                return
            changed = structs.replace(change(present or TopicPolicies()), isGlobal=is_global)
            if changed == present:
                return
            async with self._deadline(base.namespace):
                if log is None:
                    log = await self._make_log(base.namespace)
                await self._write(log, base, changed, is_global=is_global)

    async def delete(self, topic: TopicName, *, keep_global: bool = False) -> None:
        base = policy_name(topic)
        for is_global in (False,) if keep_global else (False, True):
            async with self._turn(base, is_global=is_global):
                log = await self._find_log(base.namespace) if takes_policies(base) else None
                if log is not None and log.has(base, is_global=is_global):
                    async with self._deadline(base.namespace):
                        await self._write(log, base, None, is_global=is_global)

    def register_listener(self, topic: TopicName, listener: TopicPolicyListener) -> bool:
        self._listeners.add(policy_name(topic), listener)
        return True

    def unregister_listener(self, topic: TopicName, listener: TopicPolicyListener) -> None:
        self._listeners.discard(policy_name(topic), listener)

    async def close(self) -> None:
        if self._markers is not None:
            self._markers.close()
        await self._scope.close()
        self._logs.clear()
        self._listeners.clear()

    async def describe_backend(self, namespace: NamespaceName) -> tuple[str, str]:
        assert self._markers is not None, "not started"
        if await self._markers.has(namespace):
            return self.name, f"{namespace} has {CHANGE_EVENTS}"
        return self.name, (
            f"{namespace} has no {CHANGE_EVENTS} yet; the configured {self.name} makes it with the"
            " first policy"
        )

    def check_change_events(self, namespace: NamespaceName) -> None:
        """It is this backend's own."""

    # ------------------------------------------------------------------ readers

    @property
    def _timeout_s(self) -> float:
        return float(self._config.topicPoliciesCacheInitTimeoutSeconds)

    @asynccontextmanager
    async def _deadline(self, namespace: NamespaceName) -> AsyncIterator[None]:
        """Of a write; one that was cut off may still come about, as with any lost answer."""
        try:
            async with asyncio.timeout(self._timeout_s):
                yield
        except TimeoutError:
            raise PoliciesUnavailable(
                f"{change_events_of(namespace).full} did not take the change within"
                f" {self._timeout_s:g} s"
            ) from None

    def _turn(self, topic: TopicName, *, is_global: bool) -> asyncio.Lock:
        return self._turns.setdefault((topic, is_global), asyncio.Lock())

    async def _find_log(self, namespace: NamespaceName) -> ChangeLog | None:
        """The namespace's events, all of them read; None when it has none."""
        assert self._service is not None and self._markers is not None, "not started"
        log = self._logs.get(namespace)
        if log is None:
            if not await self._markers.has(namespace):
                return None
            policies = await self._service.resources.namespaces.get(namespace)
            if policies is None or policies.deleted:
                return None
            names = await self._names(namespace)
            log = self._logs.get(namespace) or self._begin(namespace, names)
        await log.wait_ready(self._timeout_s)
        return log

    async def _make_log(self, namespace: NamespaceName) -> ChangeLog:
        """Make the system topic and read it."""
        assert self._service is not None
        policies = await self._service.resources.namespaces.get(namespace)
        if policies is None or policies.deleted:
            raise NamespaceNotFound(f"Namespace {namespace} does not exist")
        names = await self._names(namespace)
        self._making.add(namespace)
        try:
            for name in names:
                await self._service.load_topic(name, create=True)
            log = self._logs.get(namespace) or self._begin(namespace, names)
        finally:
            self._making.discard(namespace)
        await log.wait_ready(self._timeout_s)
        return log

    async def _names(self, namespace: NamespaceName) -> Sequence[TopicName]:
        assert self._service is not None
        name = change_events_of(namespace)
        partitioned = await self._service.resources.partitioned.get(name)
        if partitioned is None or partitioned.partitions <= 0:
            return (name,)
        return [name.partition(index) for index in range(partitioned.partitions)]

    def _begin(self, namespace: NamespaceName, names: Sequence[TopicName]) -> ChangeLog:
        assert self._service is not None
        log = ChangeLog(self._service, namespace, names, self._on_event)
        self._logs[namespace] = log
        self._forget_idle()
        self._scope.start(self._run(log), f"read {namespace}")
        return log

    async def _run(self, log: ChangeLog) -> None:
        if log.namespace in self._read_before:
            self._scope.start(self._tell_again(log), f"tell {log.namespace}")
        try:
            await log.run(self._timeout_s)
        finally:
            # By identity: a later reader of the namespace must outlive the end of this one.
            if self._logs.get(log.namespace) is log:
                del self._logs[log.namespace]
            self._read_before.add(log.namespace)

    async def _tell_again(self, log: ChangeLog) -> None:
        """Tell the present state: the reader before this one may have left listeners behind."""
        try:
            await log.wait_ready(self._timeout_s)
        except BrokerError:
            return  # the next reader tells
        for topic in self._listeners.topics(log.namespace):
            for is_global in (False, True):
                try:
                    policies = log.get(topic, is_global=is_global)
                except BrokerError as error:
                    _log.error("policies stay as they were", error=error, topic=str(topic))
                else:
                    self._listeners.tell(PolicyUpdate(topic, is_global, policies))

    async def _write(
        self, log: ChangeLog, topic: TopicName, policies: TopicPolicies | None, *, is_global: bool
    ) -> None:
        await log.write(
            topic,
            policies,
            is_global=is_global,
            sequence=next(self._sequences),
            timeout_s=self._timeout_s,
        )

    def _forget_idle(self) -> None:
        """Of the namespaces without a loaded topic, read only those that were asked for last."""
        surplus = len(self._logs) - len(self._listeners.namespaces) - _IDLE_MAX
        if surplus <= 0:
            return
        busy = {topic.namespace for (topic, _), turn in self._turns.items() if turn.locked()}
        busy |= self._listeners.namespaces.keys()
        idle = [each for each, log in self._logs.items() if log.is_ready and each not in busy]
        for namespace in idle[:surplus]:
            self.forget(namespace)

    def forget(self, namespace: NamespaceName) -> None:
        """Read a namespace's events anew when somebody asks."""
        log = self._logs.pop(namespace, None)
        if log is not None:
            log.stop()

    # ------------------------------------------------------------------ what happens

    def _on_event(self, event: PolicyEvent) -> None:
        self._listeners.tell(PolicyUpdate(event.topic, event.is_global, event.policies))

    def on_change_events_loaded(self, topic: TopicName) -> None:
        """A topic of events is loaded, maybe in place of one that was unloaded."""
        log = self._logs.get(topic.namespace)
        if log is not None:
            log.wake()

    def _on_marker(self, namespace: NamespaceName, gone: bool) -> None:
        if gone:
            self.forget(namespace)
        self._scope.start(self._look_again(namespace), f"look at {namespace}")

    async def _look_again(self, namespace: NamespaceName) -> None:
        """The system topic came or went: begin to read it for those who listen, or tell them."""
        assert self._markers is not None
        try:
            if await self._markers.has(namespace):
                is_read = namespace in self._logs or namespace in self._making
                if not is_read and self._listeners.topics(namespace):
                    self._read_before.add(namespace)
                    await self._find_log(namespace)
                return
        except BrokerError as error:
            _log.error("change events cannot be read", error=error, namespace=str(namespace))
            return
        for topic in self._listeners.topics(namespace):
            for is_global in (False, True):
                self._listeners.tell(PolicyUpdate(topic, is_global, None))

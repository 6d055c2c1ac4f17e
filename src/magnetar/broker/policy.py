"""Topic policies, and what is in force for each topic.

Policies of a loaded topic and of its namespace are held here, so that asking what is in force never
waits. A change in the store is read once, in the order changes were told, then listeners are
called.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import lru_cache
from typing import Final, TypeAlias

from msgspec import structs

from magnetar.broker.default import plan_defaults
from magnetar.broker.resource import POLICIES, Resources, document_cache
from magnetar.errors import (
    InvalidName,
    MethodNotAllowed,
    NotAllowed,
    RecordNotFound,
    RecordUnreadable,
    StoreClosed,
    StoreUnavailable,
)
from magnetar.metadata.store import Cancel, Change, ChangeKind, SessionEvent
from magnetar.model.name import NamespaceName, TopicDomain, TopicName, decode_local
from magnetar.model.policy import Policies, TopicPolicies
from magnetar.model.segment import scalable_name
from magnetar.rules.policy import (
    AutoTopicCreation,
    EffectivePolicy,
    decide_auto_topic_creation,
    decide_effective,
    plan_merged,
    plan_namespace_level,
)
from magnetar.runtime.backoff import Backoff
from magnetar.runtime.clock import Clock
from magnetar.runtime.configuration import Configuration, dynamic_names
from magnetar.runtime.log import Log
from magnetar.runtime.task import TaskScope

TOPIC_POLICIES: Final = "/admin/topic-policies"
LOCAL: Final = f"{TOPIC_POLICIES}/local"
GLOBAL: Final = f"{TOPIC_POLICIES}/global"

SYSTEM_NAMESPACE: Final = NamespaceName("pulsar", "system")
SYSTEM_TOPICS: Final = frozenset(
    {
        "__change_events",
        "__transaction_buffer_snapshot",
        "__transaction_buffer_snapshot_indexes",
        "__transaction_buffer_snapshot_segments",
    }
)
_PENDING_ACK_SUFFIX: Final = "__transaction_pending_ack"

PolicyListener: TypeAlias = Callable[[NamespaceName, TopicName | None], None]
"""Told the namespace, and the topic when only that one is concerned."""

_Key: TypeAlias = NamespaceName | TopicName
_Pair: TypeAlias = tuple[TopicPolicies | None, TopicPolicies | None]

_log = Log(__name__)


def is_system_topic(name: TopicName) -> bool:
    local = name.base.local
    return (
        name.namespace == SYSTEM_NAMESPACE
        or local in SYSTEM_TOPICS
        or local.endswith(_PENDING_ACK_SUFFIX)
    )


@lru_cache(maxsize=65536)
def policy_name(name: TopicName) -> TopicName:
    """Whose policies a topic has: a partition those of its topic, and a segment too."""
    return scalable_name(name) if name.domain is TopicDomain.SEGMENT else name.base


def topic_policies_path(name: TopicName, *, is_global: bool) -> str:
    base = policy_name(name)
    root = GLOBAL if is_global else LOCAL
    return f"{root}/{base.namespace}/{base.domain.value}/{base.encoded_local}"


class PolicyService:
    """A partition has the policies of its partitioned topic, a segment those of its topic."""

    def __init__(self, resources: Resources, config: Configuration, *, clock: Clock) -> None:
        local, configuration = resources.local, resources.configuration
        self._resources = resources
        self._config = config
        self._local = document_cache(local, LOCAL, TopicPolicies, clock=clock)
        self._global = document_cache(configuration, GLOBAL, TopicPolicies, clock=clock)
        self._defaults = plan_defaults(config)
        self._namespaces: dict[NamespaceName, Policies | None] = {}
        self._topics: dict[TopicName, _Pair] = {}
        self._effective: dict[TopicName, EffectivePolicy] = {}
        self._listeners: dict[object, PolicyListener] = {}
        self._changes = 0
        self._stale: dict[_Key, None] = {}
        self._fresh = asyncio.Event()
        self._fresh.set()
        self._scope = TaskScope("policies")
        self._cancels = (
            local.watch(LOCAL, self._on_topic_record),
            configuration.watch(GLOBAL, self._on_topic_record),
            configuration.watch(POLICIES, self._on_namespace_record),
            local.watch_session(self._on_session),
            configuration.watch_session(self._on_session),
            config.listen(dynamic_names(), self._on_configuration),
        )
        resources.namespaces.on_written(self.settle)

    @property
    def is_enabled(self) -> bool:
        """Whether topics have policies of their own."""
        return self._config.topicLevelPoliciesEnabled

    # ------------------------------------------------------------------ records

    async def get(self, name: TopicName, *, is_global: bool = False) -> TopicPolicies | None:
        """What was set in exactly one scope."""
        if not self.is_enabled:
            return None
        cache = self._global if is_global else self._local
        found = await cache.get(topic_policies_path(name, is_global=is_global))
        return None if found is None else structs.replace(found, isGlobal=is_global)

    async def get_merged(self, name: TopicName) -> TopicPolicies:
        """What was set in either scope; the local one wins."""
        local, shared = await self._load_pair(name)
        return plan_merged(local, shared)

    async def get_applied(self, name: TopicName) -> TopicPolicies:
        """Every setting, wherever it comes from."""
        local, shared = await self._load_pair(name)
        namespace = await self._resources.namespaces.get(name.namespace)
        level = (
            None
            if namespace is None
            else plan_namespace_level(namespace, cluster=self._defaults.cluster)
        )
        return plan_merged(local, shared, level, self._defaults.policies)

    async def update(
        self,
        name: TopicName,
        change: Callable[[TopicPolicies], TopicPolicies],
        *,
        is_global: bool = False,
        skip_if_absent: bool = False,
    ) -> None:
        """Set what `change` makes of the present policies; it is in force when this returns."""
        self._check_writable(name)

        def change_present(present: TopicPolicies | None) -> TopicPolicies:
            if present is None and skip_if_absent:
                raise RecordNotFound(f"{name} has no policies")
            changed = change(present or TopicPolicies())
            return structs.replace(changed, isGlobal=is_global)

        cache = self._global if is_global else self._local
        path = topic_policies_path(name, is_global=is_global)
        try:
            await cache.read_modify_update_or_create(path, change_present)
        except RecordNotFound:
            return
        await self.settle()

    async def delete(self, name: TopicName, *, keep_global: bool = False) -> None:
        """Remove what was set for a topic; nothing to remove is fine."""
        for is_global in (False,) if keep_global else (False, True):
            cache = self._global if is_global else self._local
            try:
                await cache.delete(topic_policies_path(name, is_global=is_global))
            except RecordNotFound:
                pass
        await self.settle()

    async def delete_namespace(self, namespace: NamespaceName) -> None:
        """Remove the policies of all topics of a namespace that goes."""
        await self._resources.local.delete_recursive(f"{LOCAL}/{namespace}")
        await self._resources.configuration.delete_recursive(f"{GLOBAL}/{namespace}")
        await self.settle()

    def _check_writable(self, name: TopicName) -> None:
        if not self.is_enabled:
            raise MethodNotAllowed("Topic level policies is disabled")
        if name.namespace.tenant == SYSTEM_NAMESPACE.tenant:
            raise NotAllowed(f"{name} belongs to the broker and takes no policies")

    # ------------------------------------------------------------------ what is in force

    async def load(self, name: TopicName) -> None:
        """Hold what `effective` needs for this topic."""
        base = policy_name(name)
        while True:
            seen = self._changes
            namespace = await self._resources.namespaces.get(base.namespace)
            pair = await self._load_pair(base)
            if seen == self._changes:  # else a change came meanwhile, maybe to one of these
                break
        self._hold(base.namespace, namespace)
        self._hold(base, pair)

    def effective(self, name: TopicName) -> EffectivePolicy:
        """For a topic that was loaded here."""
        base = policy_name(name)
        found = self._effective.get(base)
        if found is None:
            local, shared = self._topics[base]
            found = self._effective[base] = decide_effective(
                local,
                shared,
                self._namespaces[base.namespace],
                self._defaults,
                is_system=is_system_topic(base),
            )
        return found

    def forget(self, name: TopicName) -> None:
        """The topic is not loaded any more, nor any other partition of it."""
        self._topics.pop(policy_name(name), None)
        self._effective.pop(policy_name(name), None)

    async def auto_topic_creation(self, namespace: NamespaceName) -> AutoTopicCreation:
        policies = await self._resources.namespaces.get(namespace)
        return decide_auto_topic_creation(policies, self._defaults)

    def listen(self, listener: PolicyListener) -> Cancel:
        """Call the listener after each change of what is in force for a loaded topic."""
        key = object()
        self._listeners[key] = listener

        def cancel() -> None:
            self._listeners.pop(key, None)

        return cancel

    async def settle(self) -> None:
        """Wait until every change told so far is in force."""
        await self._fresh.wait()

    async def close(self) -> None:
        for cancel in self._cancels:
            cancel()
        await self._scope.close()
        self._local.close()
        self._global.close()
        self._stale.clear()
        self._fresh.set()

    # ------------------------------------------------------------------ changes

    async def _load_pair(self, name: TopicName) -> _Pair:
        return await self.get(name), await self.get(name, is_global=True)

    def _hold(self, key: _Key, value: Policies | _Pair | None) -> bool:
        """Keep a value; say whether it is another one."""
        if isinstance(key, TopicName):
            assert isinstance(value, tuple)
            known, before = key in self._topics, self._topics.get(key)
            self._topics[key] = value
            if known and before != value:
                self._effective.pop(key, None)
                return True
            return False
        assert not isinstance(value, tuple)
        known = key in self._namespaces
        changed = known and self._namespaces[key] != value
        self._namespaces[key] = value
        if changed:
            for topic in [topic for topic in self._effective if topic.namespace == key]:
                del self._effective[topic]
        return changed

    def _on_topic_record(self, change: Change) -> None:
        if change.kind is ChangeKind.CHILDREN_CHANGED:
            return
        parts = change.path.split("/")
        if len(parts) != 8:
            return
        try:
            namespace, domain = NamespaceName(parts[4], parts[5]), TopicDomain(parts[6])
            topic = TopicName(domain, namespace, decode_local(parts[7]))
        except (InvalidName, ValueError):
            return  # not a topic's record
        self._mark(topic, held=topic in self._topics)

    def _on_namespace_record(self, change: Change) -> None:
        parts = change.path.split("/")
        if change.kind is ChangeKind.CHILDREN_CHANGED or len(parts) != 5:
            return
        try:
            namespace = NamespaceName(parts[3], parts[4])
        except InvalidName:
            return  # not a namespace's record
        self._mark(namespace, held=namespace in self._namespaces)

    def _on_session(self, event: SessionEvent) -> None:
        if event is SessionEvent.RECONNECTED:  # what changed meanwhile was not told
            held: list[_Key] = [*self._namespaces, *self._topics]
            for key in held:
                self._mark(key, held=True)

    def _on_configuration(self) -> None:
        self._defaults = plan_defaults(self._config)
        self._effective.clear()
        for namespace in tuple(self._namespaces):
            self._tell(namespace, None)

    def _mark(self, key: _Key, *, held: bool) -> None:
        self._changes += 1
        if not held:
            return
        self._stale[key] = None
        if self._fresh.is_set():
            self._fresh.clear()
            self._scope.start(self._run_refresh(), "refresh")

    async def _run_refresh(self) -> None:
        backoff = Backoff(0.1, 5.0)
        try:
            while self._stale:
                key = next(iter(self._stale))
                del self._stale[key]
                try:
                    await self._refresh(key)
                    backoff.reset()
                except StoreUnavailable:
                    self._stale[key] = None
                    await asyncio.sleep(backoff.next_s())
                except RecordUnreadable as error:
                    _log.error("policies stay as they were", error=error, of=str(key))
                except StoreClosed:
                    self._stale.clear()
        finally:
            self._fresh.set()

    async def _refresh(self, key: _Key) -> None:
        if isinstance(key, TopicName):
            pair = await self._load_pair(key)
            if key in self._topics and self._hold(key, pair):
                self._tell(key.namespace, key)
        else:
            policies = await self._resources.namespaces.get(key)
            if self._hold(key, policies):
                self._tell(key, None)

    def _tell(self, namespace: NamespaceName, topic: TopicName | None) -> None:
        for listener in tuple(self._listeners.values()):
            try:
                listener(namespace, topic)
            except Exception as error:
                _log.error("policy listener failed", error=error, namespace=str(namespace))

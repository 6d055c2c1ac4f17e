"""What is in force for each topic.

Policies of a loaded topic and of its namespace are held here, so that asking what is in force never
waits. A change is read once, in the order changes were told, then listeners are called. What keeps
the policies of single topics may be out of order: topics load all the same, to be read, with what
was known of them last or what their namespace says; nothing is written to them before their own
policies are known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from magnetar.broker.default import plan_defaults
from magnetar.broker.resource import POLICIES, Resources
from magnetar.broker.topicpolicy.choice import choose_topic_policies, start_topic_policies
from magnetar.broker.topicpolicy.contract import DisabledTopicPolicies, PolicyUpdate
from magnetar.broker.topicpolicy.recollection import Pair, Recollection
from magnetar.errors import (
    InvalidName,
    MethodNotAllowed,
    NotAllowed,
    PoliciesUnavailable,
    RecordUnreadable,
    StoreClosed,
    StoreUnavailable,
)
from magnetar.metadata.store import Cancel, Change, ChangeKind, SessionEvent
from magnetar.model.name import NamespaceName, TopicName
from magnetar.model.policy import Policies, TopicPolicies
from magnetar.model.segment import policy_name
from magnetar.rules.caution import plan_cautious, plan_system
from magnetar.rules.policy import (
    AutoTopicCreation,
    EffectivePolicy,
    decide_auto_topic_creation,
    decide_effective,
    plan_merged,
    plan_namespace_level,
)
from magnetar.rules.system import is_change_events, is_system_topic, takes_policies
from magnetar.runtime.backoff import Backoff
from magnetar.runtime.clock import Clock
from magnetar.runtime.configuration import Configuration, dynamic_names
from magnetar.runtime.log import Log
from magnetar.runtime.task import TaskScope

if TYPE_CHECKING:
    from magnetar.broker.service import Service

_RETRY_FIRST_S: Final = 1.0
_RETRY_MOST_S: Final = 30.0

PolicyListener: TypeAlias = Callable[[NamespaceName, TopicName | None], None]
"""Told the namespace, and the topic when only that one is concerned."""

_Key: TypeAlias = NamespaceName | TopicName

_log = Log(__name__)


class PolicyService:
    """A partition has the policies of its partitioned topic, a segment those of its topic."""

    def __init__(self, resources: Resources, config: Configuration, *, clock: Clock) -> None:
        """Raise InvalidConfiguration when the backend that is asked for cannot be made."""
        self._resources = resources
        self._config = config
        self.topic_policies = choose_topic_policies(config, resources, clock=clock)
        """What keeps the policies of single topics."""
        self._defaults = plan_defaults(config)
        self._namespaces: dict[NamespaceName, Policies | None] = {}
        self._topics: dict[TopicName, Pair] = {}
        self._effective: dict[TopicName, EffectivePolicy] = {}
        self._users: dict[TopicName, set[TopicName]] = {}
        """The loaded partitions or segments that have the policies of one topic."""
        self._recollection = Recollection(self.topic_policies, config)
        self._provisional: set[TopicName] = set()
        """Loaded topics whose own policies could not be read."""
        self._retries: set[TopicName] = set()
        self._listeners: dict[object, PolicyListener] = {}
        self._changes = 0
        self._stale: dict[_Key, None] = {}
        self._fresh = asyncio.Event()
        self._fresh.set()
        self._scope = TaskScope("policies")
        configuration = resources.configuration
        self._cancels = (
            configuration.watch(POLICIES, self._on_namespace_record),
            configuration.watch_session(self._on_session),
            config.listen(dynamic_names(), self._on_configuration),
        )
        resources.namespaces.on_written(self.settle)

    def attach(self, service: Service) -> None:
        """Start what keeps the policies of single topics; it may keep them in topics.

        Raise InvalidConfiguration when it does not start.
        """
        start_topic_policies(self.topic_policies, service)

    @property
    def is_enabled(self) -> bool:
        """Whether topics have policies of their own."""
        return not isinstance(self.topic_policies, DisabledTopicPolicies)

    # ------------------------------------------------------------------ what was set

    async def get(self, name: TopicName, *, is_global: bool = False) -> TopicPolicies | None:
        """What was set in exactly one scope."""
        return await self.topic_policies.get(policy_name(name), is_global=is_global)

    async def get_merged(self, name: TopicName) -> TopicPolicies:
        """What was set in either scope; the local one wins."""
        return await self.topic_policies.get_merged(policy_name(name))

    async def get_applied(self, name: TopicName) -> TopicPolicies:
        """Every setting, wherever it comes from."""
        local, shared = await self._recollection.load(policy_name(name))
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
        if not self.is_enabled:
            raise MethodNotAllowed("Topic level policies is disabled")
        if not takes_policies(name):
            raise NotAllowed(f"{name} belongs to the broker and takes no policies")
        await self.topic_policies.update(
            policy_name(name), change, is_global=is_global, skip_if_absent=skip_if_absent
        )
        await self.settle()

    async def delete(self, name: TopicName, *, keep_global: bool = False) -> None:
        """Remove what was set for a topic; nothing to remove is fine."""
        await self.topic_policies.delete(policy_name(name), keep_global=keep_global)
        self._recollection.forget(policy_name(name))
        await self.settle()

    async def delete_namespace(self, namespace: NamespaceName) -> None:
        """Remove the policies of all topics of a namespace that goes."""
        await self.topic_policies.delete_namespace(namespace)
        self._recollection.forget_namespace(namespace)
        await self.settle()

    async def describe_backend(self, namespace: NamespaceName) -> tuple[str, str]:
        """What keeps the topic policies of a namespace, and why."""
        return await self.topic_policies.describe_backend(namespace)

    # ------------------------------------------------------------------ the topics of events

    def on_topic_loaded(self, name: TopicName) -> None:
        if is_change_events(name):
            self.topic_policies.on_change_events_loaded(name)

    def check_creation(self, name: TopicName) -> None:
        """Raise when making this topic would take policies away from where they are kept."""
        if is_change_events(name):
            self.topic_policies.check_change_events(name.namespace)

    # ------------------------------------------------------------------ what is in force

    async def load(self, name: TopicName) -> None:
        """Hold what `effective` needs for this topic. Policies that cannot be read do not keep a
        topic from being loaded.
        """
        base = policy_name(name)
        self._users.setdefault(base, set()).add(name)
        while True:
            seen = self._changes
            namespace = await self._resources.namespaces.get(base.namespace)
            pair, is_certain = await self._recollection.load_or_recall(base, self._on_update)
            if seen == self._changes:  # else a change came meanwhile, maybe to one of these
                break
        self._hold(base.namespace, namespace)
        self._hold(base, pair)
        self._settle_on(base, is_certain=is_certain)

    def _settle_on(self, topic: TopicName, *, is_certain: bool) -> None:
        """Note whether a topic's policies are its own; if not, keep asking for them."""
        if is_certain != (topic in self._provisional):
            return
        self._effective.pop(topic, None)
        if is_certain:
            self._provisional.discard(topic)
            self._retries.discard(topic)
            return
        self._provisional.add(topic)
        is_idle = not self._retries
        self._retries.add(topic)
        if is_idle:
            self._scope.start(self._run_retries(), "retries")

    async def _run_retries(self) -> None:
        backoff = Backoff(_RETRY_FIRST_S, _RETRY_MOST_S)
        while self._retries:
            await asyncio.sleep(backoff.next_s())
            await asyncio.gather(*(self._retry(topic) for topic in tuple(self._retries)))

    async def _retry(self, topic: TopicName) -> None:
        seen = self._changes
        try:
            await self.topic_policies.register_listener_async(topic, self._on_update)
            pair = await self._recollection.load(topic)
        # As when it was loaded: whatever the backend does, the topic goes on without.
        except Exception as error:
            _log.warning("topic is still without its own policies", topic=str(topic), error=error)
            return
        if topic in self._topics and seen == self._changes:
            self._hold(topic, pair)
            self._settle_on(topic, is_certain=True)
            self._tell(topic.namespace, topic)

    def effective(self, name: TopicName) -> EffectivePolicy:
        """For a topic that was loaded here."""
        base = policy_name(name)
        found = self._effective.get(base)
        if found is None:
            local, shared = self._topics[base]
            found = decide_effective(
                local,
                shared,
                self._namespaces[base.namespace],
                self._defaults,
                is_system=is_system_topic(base),
            )
            if base in self._provisional:
                found = plan_cautious(found)
            if is_system_topic(base):
                found = plan_system(found)
            self._effective[base] = found
        return found

    async def find_effective(self, name: TopicName) -> EffectivePolicy:
        """For any topic, loaded here or not; as with `load`, policies need not be readable."""
        base = policy_name(name)
        if base in self._topics:
            return self.effective(base)
        namespace = await self._resources.namespaces.get(base.namespace)
        (local, shared), is_certain = await self._recollection.load_or_recall(base)
        found = decide_effective(local, shared, namespace, self._defaults)
        return found if is_certain else plan_cautious(found)

    def forget(self, name: TopicName) -> None:
        """The topic is not loaded any more; what it shares with others stays for them."""
        base = policy_name(name)
        users = self._users.get(base, set())
        users.discard(name)
        if users:
            return
        self._users.pop(base, None)
        self.topic_policies.unregister_listener(base, self._on_update)
        self._topics.pop(base, None)
        self._effective.pop(base, None)
        self._provisional.discard(base)
        self._retries.discard(base)

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
        await self.topic_policies.settle()
        await self._fresh.wait()

    async def close(self) -> None:
        for cancel in self._cancels:
            cancel()
        await self._scope.close()
        await self.topic_policies.close()
        self._stale.clear()
        self._fresh.set()

    # ------------------------------------------------------------------ changes

    def _hold(self, key: _Key, value: Policies | Pair | None) -> bool:
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

    def _on_update(self, update: PolicyUpdate) -> None:
        self._mark(update.topic, held=update.topic in self._topics)

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
            for namespace in tuple(self._namespaces):
                self._mark(namespace, held=True)

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
                except (RecordUnreadable, PoliciesUnavailable) as error:
                    _log.error("policies stay as they were", error=error, of=str(key))
                except StoreClosed:
                    self._stale.clear()
        finally:
            self._fresh.set()

    async def _refresh(self, key: _Key) -> None:
        if isinstance(key, TopicName):
            pair = await self._recollection.load(key)
            if key in self._topics:
                changed = self._hold(key, pair) or key in self._provisional
                self._settle_on(key, is_certain=True)
                if changed:
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

"""The policies of topics: what was set for them, and what is in force.

Policies of a loaded topic and of its namespace are held here, so that asking what is in force never
waits. A change is read once, in the order of the notifications, then listeners are called. The
backend of topic policies may be out of order: topics load all the same, to be read, with what
was known of them last or what their namespace says; nothing is written to them before their own
policies are known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from msgspec.structs import replace

from magnetar.broker.policy_default import plan_defaults
from magnetar.broker.resource import POLICIES, Resources
from magnetar.broker.topicpolicy.choice import choose_topic_policies, invalid_backend
from magnetar.broker.topicpolicy.contract import (
    DisabledTopicPolicies,
    PolicyHost,
    PolicyNotice,
    TopicPoliciesService,
)
from magnetar.broker.topicpolicy.last_known import LastKnownPolicies, Pair
from magnetar.errors import BrokerError, InvalidName, NotAllowed, StoreClosed, StoreUnavailable
from magnetar.metadata.store import Change, ChangeKind, SessionEvent
from magnetar.model.name import NamespaceName, TopicName
from magnetar.model.policy import Policies, TopicPolicies
from magnetar.model.segment import policy_name
from magnetar.rules.caution import plan_cautious, plan_system
from magnetar.rules.policy import (
    AutoTopicCreation,
    BrokerDefaults,
    EffectivePolicy,
    decide_auto_topic_creation,
    decide_effective,
    plan_merged,
    plan_namespace_level,
)
from magnetar.rules.system import CHANGE_EVENTS, is_change_events, is_system_topic, takes_policies
from magnetar.runtime.clock import Clock
from magnetar.runtime.configuration import Configuration, dynamic_names
from magnetar.runtime.log import Logger
from magnetar.runtime.reconciler import Reconciler
from magnetar.runtime.task import TaskScope

_CATCH_UP_S_MAX: Final = 10.0

PolicyListener: TypeAlias = Callable[[NamespaceName, TopicName | None], None]
"""Called with the namespace, and the topic when only that one is concerned."""

_log = Logger(__name__)


_Inputs: TypeAlias = tuple[Pair, bool, Policies | None, BrokerDefaults]


@dataclass(slots=True)
class _Loaded:
    """A topic that is loaded here, itself or in partitions or segments."""

    users: set[TopicName] = field(default_factory=set)
    """The loaded partitions or segments that have its policies."""
    own: Pair | None = None
    """What was set for the topic itself; None before it was read for the first time."""
    is_certain: bool = True
    """Whether `own` could be read."""
    decided: tuple[_Inputs, EffectivePolicy] | None = None
    """What is in force, and what it was decided from."""


class _Absent(Exception):
    """There are no policies that could be changed."""


def _decide(
    base: TopicName,
    own: Pair,
    is_certain: bool,
    namespace: Policies | None,
    defaults: BrokerDefaults,
) -> EffectivePolicy:
    is_system = is_system_topic(base)
    found = decide_effective(*own, namespace, defaults, is_system=is_system)
    if not is_certain:
        found = plan_cautious(found)
    return plan_system(found) if is_system else found


class EffectivePolicies:
    """What is in force for loaded topics. A partition has the policies of its partitioned topic, a
    segment those of its topic.
    """

    def __init__(
        self,
        resources: Resources,
        config: Configuration,
        backend: TopicPoliciesService,
        *,
        clock: Clock,
    ) -> None:
        self._resources = resources
        self._config = config
        self._clock = clock
        self.defaults = plan_defaults(config)
        """What the broker's configuration says."""
        self.own: Final = LastKnownPolicies(backend, config, clock)
        """What was set for topics themselves."""
        self._namespaces: dict[NamespaceName, Policies | None] = {}
        self._topics: dict[TopicName, _Loaded] = {}
        self._listeners: list[PolicyListener] = []
        self._changes = 0
        self._stale: dict[NamespaceName | TopicName, None] = {}
        self._scope = TaskScope("policies")
        self._refresh = Reconciler(self._scope, "refresh", self._refresh_stale, clock=clock)
        self._retry = Reconciler(
            self._scope, "retry", self._load_uncertain, clock=clock, first_s=1.0, most_s=30.0
        )
        self._cancels = (
            resources.configuration.watch(POLICIES, self._on_namespace_record),
            resources.configuration.watch_session(self._on_session),
            config.listen(dynamic_names(), self._on_configuration),
        )
        backend.notify = self._on_topic_policies
        resources.namespaces.on_written(self.catch_up)

    async def load(self, name: TopicName) -> None:
        """Hold what `get` needs for this topic. Unreadable policies do not keep a
        topic from being loaded, unless brokers share topics.
        """
        base = policy_name(name)
        self._namespaces.setdefault(base.namespace, None)
        self._topics.setdefault(base, _Loaded()).users.add(name)
        await self._load(base)

    async def _load(self, base: TopicName) -> None:
        while True:
            seen = self._changes
            namespace = await self._resources.namespaces.get(base.namespace)
            self._keep_namespace(base.namespace, namespace)
            own, is_certain = await self.own.load_or_recall(base)
            if seen == self._changes or not is_certain:  # else one of these may have changed
                break
        self._keep(base, own, is_certain=is_certain)

    async def _load_uncertain(self) -> None:
        """Ask again for policies that could not be read when their topic was loaded."""
        topics = [topic for topic, loaded in self._topics.items() if not loaded.is_certain]
        with suppress(BrokerError):  # of their namespace
            await asyncio.gather(*map(self._load, topics))
        if any(not loaded.is_certain for loaded in self._topics.values()):
            raise StoreUnavailable("topics are still without their own policies")

    def get(self, name: TopicName) -> EffectivePolicy:
        """For a topic that was loaded here."""
        base = policy_name(name)
        loaded = self._topics[base]
        assert loaded.own is not None, "loaded"
        inputs = (loaded.own, loaded.is_certain, self._namespaces[base.namespace], self.defaults)
        if loaded.decided is None or loaded.decided[0] != inputs:
            loaded.decided = inputs, _decide(base, *inputs)
        return loaded.decided[1]

    async def find(self, name: TopicName) -> EffectivePolicy:
        """For any topic, loaded here or not; as with `load`, policies need not be readable."""
        base = policy_name(name)
        loaded = self._topics.get(base)
        if loaded is not None and loaded.own is not None:
            return self.get(base)
        namespace = await self._resources.namespaces.get(base.namespace)
        own, is_certain = await self.own.load_or_recall(base)
        return _decide(base, own, is_certain, namespace, self.defaults)

    def forget(self, name: TopicName) -> None:
        """The topic is not loaded any more; what it shares with others stays for them."""
        base = policy_name(name)
        loaded = self._topics.get(base, _Loaded())
        loaded.users.discard(name)
        if not loaded.users:
            self._topics.pop(base, None)

    def namespaces_in_use(self) -> set[NamespaceName]:
        """Those with loaded topics that may have policies of their own."""
        return {topic.namespace for topic in self._topics if takes_policies(topic)}

    def listen(self, listener: PolicyListener) -> None:
        """Call the listener after each change of what is in force for a loaded topic."""
        self._listeners.append(listener)

    async def catch_up(self) -> None:
        """Wait until every change that is known here is in force, or the store does not answer."""
        try:
            async with self._clock.timeout(_CATCH_UP_S_MAX):
                await self._refresh.catch_up()
        except TimeoutError:
            _log.warning("policies are written, and in force when the store answers again")

    async def close(self) -> None:
        for cancel in self._cancels:
            cancel()
        self._refresh.close()
        self._retry.close()
        await self._scope.close()

    # ------------------------------------------------------------------ changes

    def _keep(self, topic: TopicName, own: Pair, *, is_certain: bool = True) -> None:
        """Keep a topic's own policies; call listeners when they are other ones than before."""
        loaded = self._topics.get(topic)
        if loaded is None:
            return
        before, loaded.own, loaded.is_certain = (loaded.own, loaded.is_certain), own, is_certain
        if before[0] is not None and before != (own, is_certain):
            self._notify(topic.namespace, topic)
        if not is_certain:
            self._retry.request()

    def _keep_namespace(self, namespace: NamespaceName, policies: Policies | None) -> bool:
        """Keep a namespace's policies; say whether they are other ones."""
        changed = self._namespaces[namespace] != policies
        self._namespaces[namespace] = policies
        return changed

    def _on_namespace_record(self, change: Change) -> None:
        parts = change.path.split("/")
        if change.kind is not ChangeKind.CHILDREN_CHANGED and len(parts) == 5:
            with suppress(InvalidName):  # not a namespace's record
                self._mark(NamespaceName(parts[3], parts[4]))

    def _on_session(self, event: SessionEvent) -> None:
        if event is SessionEvent.RECONNECTED:  # changes made meanwhile were not notified
            for namespace in tuple(self._namespaces):
                self._mark(namespace)

    def _on_configuration(self) -> None:
        self.defaults = plan_defaults(self._config)
        for namespace in tuple(self._namespaces):
            self._notify(namespace, None)

    def _on_topic_policies(self, notice: PolicyNotice) -> None:
        topics = [notice] if isinstance(notice, TopicName) else [*self._topics]
        for topic in topics:
            if notice in (None, topic, topic.namespace):
                self._mark(topic)

    def _mark(self, key: NamespaceName | TopicName) -> None:
        """What was read of a loaded topic or its namespace may be out of date."""
        if key in self._topics or key in self._namespaces:
            self._changes += 1
            self._stale[key] = None
            self._refresh.request()

    async def _refresh_stale(self) -> None:
        while self._stale:
            key = next(iter(self._stale))
            del self._stale[key]
            try:
                if isinstance(key, TopicName):
                    self._keep(key, await self.own.load(key))
                elif self._keep_namespace(key, await self._resources.namespaces.get(key)):
                    self._notify(key, None)
            except (StoreUnavailable, StoreClosed):
                self._stale[key] = None
                raise
            # A backend may be of another package: whatever it raises, the other keys are read.
            except Exception as error:
                _log.error("policies stay as they were", error=error, of=str(key))

    def _notify(self, namespace: NamespaceName, topic: TopicName | None) -> None:
        for listener in self._listeners:
            try:
                listener(namespace, topic)
            except Exception as error:
                _log.error("policy listener failed", error=error, namespace=str(namespace))


class PolicyService:
    """What was set for topics, and the backend that keeps it."""

    def __init__(self, resources: Resources, config: Configuration, *, clock: Clock) -> None:
        """Raise InvalidConfiguration when the backend that is asked for cannot be made."""
        self._resources = resources
        self._config = config
        self.backend: Final = choose_topic_policies(config, resources, clock=clock)
        self.in_force: Final = EffectivePolicies(resources, config, self.backend, clock=clock)

    def start(self, host: PolicyHost) -> None:
        """Start the backend. Raise InvalidConfiguration when it does not start."""
        self.in_force.own.is_required = host.calls.ownership.is_shared
        try:
            self.backend.start(host)
        # It may be of another package and raise anything; the operator must learn which one it was.
        except Exception as error:
            name = self._config.topicPoliciesServiceClassName
            raise invalid_backend(f"{name} does not start: {error!r}") from error

    @property
    def is_enabled(self) -> bool:
        """Whether topics have policies of their own."""
        return not isinstance(self.backend, DisabledTopicPolicies)

    async def get(self, name: TopicName, *, is_global: bool = False) -> TopicPolicies | None:
        """What was set in exactly one scope."""
        if not takes_policies(name):
            return None
        return await self.backend.get(policy_name(name), is_global=is_global)

    async def get_merged(self, name: TopicName) -> TopicPolicies:
        """What was set in either scope; the local one wins, setting by setting."""
        return plan_merged(*await self.in_force.own.load(policy_name(name)))

    async def get_applied(self, name: TopicName) -> TopicPolicies:
        """Every setting, wherever it comes from."""
        own = await self.in_force.own.load(policy_name(name))
        namespace = await self._resources.namespaces.get(name.namespace)
        levels = [self.in_force.defaults.policies]
        if namespace is not None:
            levels.insert(
                0, plan_namespace_level(namespace, cluster=self.in_force.defaults.cluster)
            )
        return plan_merged(*own, *levels)

    async def update(
        self,
        name: TopicName,
        change: Callable[[TopicPolicies], TopicPolicies],
        *,
        is_global: bool = False,
        skip_if_absent: bool = False,
    ) -> None:
        """Set what `change` makes of the present policies, or of new ones unless `skip_if_absent`;
        it is in force when this returns.
        """

        def change_present(present: TopicPolicies | None) -> TopicPolicies:
            if present is None and skip_if_absent:
                raise _Absent
            return replace(change(present or TopicPolicies()), isGlobal=is_global)

        if not takes_policies(name):
            raise NotAllowed(f"{name} belongs to the broker and takes no policies")
        with suppress(_Absent):
            await self.backend.update(policy_name(name), change_present, is_global=is_global)
            await self.in_force.catch_up()

    async def delete(self, name: TopicName, *, keep_global: bool = False) -> None:
        """Remove what was set for a topic; nothing to remove is fine."""
        if takes_policies(name):
            await self.backend.delete(policy_name(name), keep_global=keep_global)
            self.in_force.own.forget(policy_name(name))
            await self.in_force.catch_up()

    async def delete_namespace(self, namespace: NamespaceName) -> None:
        """Remove the policies of all topics of a namespace that is deleted."""
        await self.backend.delete_namespace(namespace)
        self.in_force.own.forget_namespace(namespace)
        await self.in_force.catch_up()

    async def auto_topic_creation(self, namespace: NamespaceName) -> AutoTopicCreation:
        policies = await self._resources.namespaces.get(namespace)
        return decide_auto_topic_creation(policies, self.in_force.defaults)

    def check_creation(self, name: TopicName) -> None:
        """Raise when creating this topic would move a namespace to another backend."""
        if is_change_events(name) and not self.backend.allows_change_events:
            raise NotAllowed(
                f"{CHANGE_EVENTS} would take the topic policies of {name.namespace} away from"
                f" {self.backend.name}"
            )

    async def close(self) -> None:
        await self.in_force.close()
        await self.backend.close()

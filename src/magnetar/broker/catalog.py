"""The catalog of topics: how a topic comes to be loaded, unloaded and deleted, and which there are.

A topic is loaded at most once at a time. Callers that come while it is being loaded, unloaded or
deleted wait for the outcome.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import Final, Protocol, TypeAlias

from magnetar.broker.client_limit import RequestLimit
from magnetar.broker.keyed_lock import KeyedLock
from magnetar.broker.nonpersistent import NonPersistentTopic
from magnetar.broker.ownership import Owner, Ownership, require_self
from magnetar.broker.persistent import PersistentTopic, TopicGuard, TopicListener
from magnetar.broker.policy import PolicyService
from magnetar.broker.resource import Resources
from magnetar.broker.topic_host import TopicHost
from magnetar.broker.topic_limit import TopicLimit
from magnetar.broker.topic_log import TopicLogs
from magnetar.broker.transactional import TopicTransactions
from magnetar.errors import (
    BrokerError,
    Conflict,
    NamespaceNotFound,
    NotAllowed,
    ResourceBusy,
    ServiceNotReady,
    TopicNotFound,
)
from magnetar.model.name import NamespaceName, TopicDomain, TopicName
from magnetar.model.scalable import BrokerAddress
from magnetar.model.segment import policy_name, scalable_name
from magnetar.rules.bundle import Bundle
from magnetar.rules.system import SYSTEM_TENANT, is_system_topic
from magnetar.runtime.log import Logger

AnyTopic: TypeAlias = PersistentTopic | NonPersistentTopic

_CLOSED_AT_ONCE: Final = 64

_log = Logger(__name__)


class ScalableNames(Protocol):
    """The records of scalable topics, by their names."""

    async def get(self, topic: TopicName) -> object | None: ...


class TopicWatchers(Protocol):
    """Clients that watch which topics a namespace has."""

    def on_change(self, name: TopicName, *, exists: bool) -> None: ...


class TopicCatalog:
    def __init__(
        self,
        host: TopicHost,
        *,
        resources: Resources,
        logs: TopicLogs,
        policies: PolicyService,
        ownership: Ownership,
        scalable: ScalableNames,
        watchers: TopicWatchers,
        list_elsewhere: Callable[[NamespaceName], Awaitable[Collection[str]]] | None = None,
    ) -> None:
        """`list_elsewhere` names the non-persistent topics of a namespace that other brokers
        serve.
        """
        self._host = host
        self._config = config = host.config
        self._resources = resources
        self.logs: Final = logs
        self._tree = logs.tree
        self._policies = policies
        self._ownership = ownership
        self._scalable = scalable
        self._watchers = watchers
        self._list_elsewhere = list_elsewhere
        self.topics: Final[dict[str, AnyTopic]] = {}
        """Those that are loaded, by their full names."""
        self.listeners: Final[list[TopicListener]] = []
        """Follow what happens to persistent topics."""
        self.guards: Final[list[TopicGuard]] = []
        """Asked when clients attach to a topic that has become a part of a scalable one."""
        self.open_transactions: (
            Callable[[PersistentTopic], Awaitable[TopicTransactions | None]] | None
        ) = None
        """Finds what transactions that span a topic have left there."""
        self.closing = False
        """Whether the broker is; nothing is loaded any more."""
        self.limit: Final = TopicLimit(config, resources, logs.tree)
        self.loading: Final = RequestLimit(
            lambda: config.maxConcurrentTopicLoadRequest,
            ServiceNotReady,
            "Too many topics are being loaded",
        )
        self._changing = KeyedLock()
        """Topics that are being loaded, unloaded or deleted, by their full names."""
        ownership.listen(self._on_moved)
        policies.in_force.listen(self._on_policies_changed)

    # ------------------------------------------------------------------ loading

    def find(self, name: TopicName) -> AnyTopic | None:
        """The topic, when it is loaded."""
        topic = self.topics.get(name.full)
        return None if topic is None or topic.closed else topic

    async def load_topic(
        self,
        name: TopicName,
        *,
        create: bool = False,
        properties: Mapping[str, str] | None = None,
        cursors: Collection[str] = (),
    ) -> AnyTopic:
        """The live topic; loads it, or makes it, with these cursors, when asked to."""
        while True:
            topic = self.find(name)
            if topic is not None:
                return topic
            if name.full in self._changing:
                await self._changing.wait(name.full)
                continue
            if self.closing:
                raise ServiceNotReady("The broker is closing")
            with self.loading.counted():
                async with self._changing.hold(name.full):
                    try:
                        return await self._open(name, create, properties, cursors)
                    finally:
                        if name.full not in self.topics:
                            self._policies.in_force.forget(name)

    async def _open(
        self,
        name: TopicName,
        create: bool,
        properties: Mapping[str, str] | None,
        cursors: Collection[str],
    ) -> AnyTopic:
        if name.domain is TopicDomain.TOPIC:
            raise NotAllowed(f"{name} is a scalable topic; attach to its segments")
        owner = await self.require_owner(name)  # of other brokers' topics nothing is read here
        in_force = self._policies.in_force
        await in_force.load(name)
        policy = in_force.get(name)
        is_new = False
        topic: AnyTopic
        if not name.is_persistent:
            if not self._config.enableNonPersistentTopics:
                raise NotAllowed("Broker is not set to serve non-persistent topics")
            if not create:
                raise TopicNotFound(f"Topic {name} not found")
            topic, is_new = NonPersistentTopic(self._host, name, policy), True
        else:
            if not self._config.enablePersistentTopics:
                raise NotAllowed("Broker is not set to serve persistent topics")
            is_new = not await self._tree.exists(name)
            if is_new:
                if not create:
                    raise TopicNotFound(f"Topic {name} not found")
                await self._check_creation(name)
            log = await self.logs.open(name, policy, owner, birth=cursors if is_new else None)
            topic = await PersistentTopic.open(
                self._host, name, policy, log, listeners=self.listeners, guards=self.guards
            )
            log.record.fenced.append(partial(self._on_fenced, topic))
            if self.open_transactions is not None:
                topic.transactions = await self.open_transactions(topic)
            if properties:
                await topic.set_properties(properties)
            topic.successor = await self.find_successor(name)
        try:
            # Its bundle may have moved meanwhile, with the topics that were loaded by then.
            await self.require_owner(name)
        except BaseException:
            await topic.close()
            raise
        topic.on_policies_changed(in_force.get(name))  # there may be others by now
        self.topics[name.full] = topic
        self._policies.backend.on_topic_loaded(name)
        if is_new:
            self._notify_watchers(name, exists=True)
        return topic

    def _on_fenced(self, topic: AnyTopic) -> None:
        """Another owner has the log: the clients must look for it."""
        if not topic.closed:
            self._host.tasks.start(self.unload_topic(topic.name), name="unload")

    async def require_owner(self, name: TopicName) -> Owner:
        """This broker, with the term under which it may write; others are asked by lookup."""
        return require_self(await self._ownership.owner_of(name), name)

    async def _check_creation(self, name: TopicName) -> None:
        if name.namespace.tenant == SYSTEM_TENANT:
            return
        policies = await self._resources.namespaces.get(name.namespace)
        if policies is None:
            raise NamespaceNotFound(f"Namespace {name.namespace} does not exist")
        if policies.deleted:
            raise NamespaceNotFound(f"Namespace {name.namespace} is being deleted")
        self._policies.check_creation(name)
        await self._tree.claim(name.namespace)
        if name.domain is TopicDomain.SEGMENT:
            return  # what counts is its topic
        if await self._is_scalable(name):
            raise Conflict(f"A scalable topic of this name exists: {name.base}")
        if not is_system_topic(name):
            await self.limit.check(name.namespace, policies)

    async def find_successor(self, name: TopicName) -> TopicName | None:
        """The scalable topic to which the name of a regular one, or of a partition, belongs."""
        if name.domain is not TopicDomain.PERSISTENT or await self._scalable.get(name.base) is None:
            return None
        return scalable_name(name.base)

    async def _is_scalable(self, name: TopicName) -> bool:
        """Whether a regular name is taken by a scalable topic."""
        enabled = self._config.scalableTopicsEnabled and name.domain is TopicDomain.PERSISTENT
        return enabled and await self._scalable.get(name) is not None

    async def may_create(self, name: TopicName) -> bool:
        """Whether attaching to a missing topic makes it: the namespace says, else the broker."""
        creation = await self._policies.auto_topic_creation(name.namespace)
        return creation.allowed and not await self._is_scalable(name)

    async def attach_topic(self, name: TopicName, *, may_create: bool = True) -> AnyTopic:
        """The regular topic a client attaches to. A partition needs its partitioned topic; a
        partitioned topic's own name has no log.
        """
        topic = self.find(name)
        if topic is not None:
            return topic
        if self.closing:
            raise ServiceNotReady("The broker is closing")
        await self._ownership.require(name)
        partitioned = await self._resources.partitioned.get(name.base)
        partitions = 0 if partitioned is None else partitioned.partitions
        if not name.is_partition and partitions > 0:
            raise NotAllowed(f"{name} is a partitioned topic; attach to its partitions")
        if name.is_partition and partitioned is not None and name.partition_index >= partitions:
            raise NotAllowed(f"{name} has no such partition: the topic has {partitions}")
        if name.is_partition and partitioned is None and not await self.topic_exists(name):
            raise NotAllowed(f"{name.base} is not a partitioned topic")
        is_partition = name.is_partition and partitioned is not None
        create = is_partition or (may_create and await self.may_create(name))
        return await self.load_topic(name, create=create)

    # ------------------------------------------------------------------ asking

    async def partitions_of(self, name: TopicName, *, may_create: bool) -> int:
        """How many partitions a topic has; 0 when it is not partitioned. A missing topic may be
        created partitioned here, as its namespace says; else it is left to attaching.
        """
        partitioned = await self._resources.partitioned.get(name.base)
        if partitioned is not None:
            if not name.is_partition:
                return partitioned.partitions
            if name.partition_index >= partitioned.partitions:
                raise TopicNotFound(f"Topic {name} not found")
            return 0
        if await self.topic_exists(name):
            return 0
        if await self._resources.namespaces.get(name.namespace) is None:
            raise TopicNotFound(f"Namespace {name.namespace} not found")
        creation = await self._policies.auto_topic_creation(name.namespace)
        if not (may_create and await self.may_create(name)):
            raise TopicNotFound(f"Topic {name} not found")
        if creation.partitions <= 0 or name.is_partition:
            return 0
        await self._resources.partitioned.create(name, creation.partitions, {})
        return creation.partitions

    async def topic_exists(self, name: TopicName) -> bool:
        if self.find(name) is not None:
            return True
        return name.is_persistent and await self._tree.exists(name)

    async def list_topics(self, namespace: NamespaceName, domain: TopicDomain) -> list[str]:
        if domain is TopicDomain.NON_PERSISTENT:
            elsewhere = self._list_elsewhere
            others = () if elsewhere is None else await elsewhere(namespace)
            return sorted({*self.list_loaded(namespace, domain), *others})
        return await self._tree.list(namespace, domain)

    def list_loaded(self, namespace: NamespaceName, domain: TopicDomain) -> list[str]:
        loaded = (topic.name for topic in self.topics.values() if not topic.closed)
        return [n.full for n in loaded if n.domain is domain and n.namespace == namespace]

    # ------------------------------------------------------------------ unloading and deleting

    async def unload_topic(self, name: TopicName) -> None:
        topic = self.topics.get(name.full)
        if topic is None:
            if not await self.topic_exists(name):
                raise TopicNotFound(f"Topic {name} not found")
            return
        async with self._changing.hold(name.full):
            await topic.close()
            self._drop(topic)

    async def unload_bundle(self, bundle: Bundle, moved_to: BrokerAddress | None = None) -> None:
        """Close its topics, so that clients look them up again, or go where they are `moved_to`."""
        gate = asyncio.Semaphore(_CLOSED_AT_ONCE)

        async def unload_one(topic: AnyTopic) -> None:
            async with gate:
                try:
                    topic.moved_to = moved_to
                    await self.unload_topic(topic.name)
                except BrokerError as failure:
                    _log_unclosed(topic, failure)

        loaded = [topic for topic in self.topics.values() if bundle.holds(topic.name)]
        await asyncio.gather(*map(unload_one, loaded))

    def _drop(self, topic: AnyTopic) -> None:
        name = topic.name
        if self.topics.get(name.full) is not topic:
            return
        del self.topics[name.full]
        self._policies.in_force.forget(name)

    async def delete_topic(self, name: TopicName, *, force: bool = False) -> None:
        topic = await self.load_topic(name)
        if not force:
            topic.check_unused()
        if name.full in self._changing:
            raise ResourceBusy(f"Topic {name} is being unloaded or deleted")
        async with self._changing.hold(name.full):
            try:
                await topic.delete()
            finally:
                self._drop(topic)
        self._notify_watchers(name, exists=False)

    async def close_topics(self) -> None:
        """Close every topic that is loaded; they stay listed, closed."""
        gate = asyncio.Semaphore(_CLOSED_AT_ONCE)

        async def close_one(topic: AnyTopic) -> None:
            async with gate:
                try:
                    await topic.close()
                except BrokerError as failure:
                    _log_unclosed(topic, failure)

        await asyncio.gather(*(close_one(topic) for topic in list(self.topics.values())))

    # ------------------------------------------------------------------ changes

    def _notify_watchers(self, name: TopicName, *, exists: bool) -> None:
        if name.domain is TopicDomain.PERSISTENT:
            self._watchers.on_change(name, exists=exists)

    def _on_moved(self, bundle: Bundle) -> None:
        self._host.tasks.start(self.unload_bundle(bundle), name=f"leave {bundle}")

    def _on_policies_changed(self, namespace: NamespaceName, topic: TopicName | None) -> None:
        for live in list(self.topics.values()):
            if live.name.namespace == namespace and topic in (None, policy_name(live.name)):
                live.on_policies_changed(self._policies.in_force.get(live.name))


def _log_unclosed(topic: AnyTopic, failure: BrokerError) -> None:
    _log.error("topic did not close", topic=topic.name.full, reason=failure.sentence)

"""The broker: its topics and connections, and how a topic comes to be loaded, unloaded and
deleted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from itertools import count

from magnetar import __version__
from magnetar.broker.authentication import make_authenticator
from magnetar.broker.authorization import Authorization
from magnetar.broker.ceiling import Ceiling
from magnetar.broker.change import Change
from magnetar.broker.connection import Connection
from magnetar.broker.heartbeat import HEARTBEAT_TENANT
from magnetar.broker.nonpersistent import NonPersistentTopic
from magnetar.broker.ownership import Owner, Ownership
from magnetar.broker.persistent import PersistentTopic
from magnetar.broker.policy import PolicyService
from magnetar.broker.producer import Producer
from magnetar.broker.resource import Resources
from magnetar.broker.revocation import Revocation
from magnetar.broker.room import check_room
from magnetar.broker.scalable.service import ScalableService
from magnetar.broker.schema import SchemaRegistry
from magnetar.broker.stored_configuration import StoredConfiguration
from magnetar.broker.sweep import NamedLedgers
from magnetar.broker.topic_log import open_log
from magnetar.broker.topic_tree import TopicTree
from magnetar.broker.topiclist import TopicLists
from magnetar.broker.topicpolicy.contract import PolicyHost
from magnetar.broker.unread import UnreadBytes
from magnetar.errors import (
    BrokerError,
    Conflict,
    NamespaceNotFound,
    NotAllowed,
    ResourceBusy,
    ServiceNotReady,
    TopicNotFound,
)
from magnetar.ledger.cache import EntryCache
from magnetar.ledger.orphan import remove_orphans
from magnetar.ledger.pace import CursorPace
from magnetar.ledger.store import LedgerStore
from magnetar.metadata.store import MetadataStore
from magnetar.model.limit import make_limits
from magnetar.model.name import NamespaceName, TopicDomain, TopicName
from magnetar.model.position import LedgerId
from magnetar.model.segment import policy_name
from magnetar.rules.system import is_system_topic
from magnetar.runtime.clock import Clock
from magnetar.runtime.configuration import Configuration
from magnetar.runtime.log import Log
from magnetar.runtime.task import TaskScope
from magnetar.runtime.watchdog import Watchdog

_log = Log(__name__)

AnyTopic = PersistentTopic | NonPersistentTopic


class Service:
    def __init__(
        self,
        config: Configuration,
        clock: Clock,
        *,
        store: MetadataStore,
        ledgers: LedgerStore,
        resources: Resources,
        policies: PolicyService,
        schemas: SchemaRegistry,
        ownership: Ownership,
        owner: Owner,
        cache: EntryCache,
    ) -> None:
        self.config = config
        self.limits = make_limits(config.get)
        self.clock = clock
        self.store = store
        self.ledgers = ledgers
        self.resources = resources
        self.tree = TopicTree(store, resources.namespaces)
        self.policies = policies
        self.schemas = schemas
        self.authorization = Authorization(config, resources)
        self.ceiling = Ceiling(config)
        self.unread = UnreadBytes(self.limits)
        self.watchdog = Watchdog(warn_ms=self.limits.loop_held_ms)
        self.ownership = ownership
        self.owner = owner
        self.authentication = make_authenticator(config, clock)
        self.cluster = config.clusterName or "standalone"
        self.version = __version__
        self.started_ms = clock.now_ms()
        self.loop = asyncio.get_running_loop()
        self.tasks = TaskScope("broker")
        self.topics: dict[str, AnyTopic] = {}
        self.connections: set[Connection] = set()
        self.unsynced_bytes = 0
        """What all connections have on its way to the disk."""
        self.topic_lists = TopicLists(self.tasks, clock)
        self.idle_waiters: dict[Producer, asyncio.Future[None]] = {}
        self.closing = False
        self.cache = cache
        self.pace = CursorPace(clock)
        self._changing: dict[str, asyncio.Future[None]] = {}
        """Topics that are being loaded, unloaded or deleted: whoever comes waits for the outcome.
        """
        self._names = count()
        self._name_prefix = f"{self.cluster}-{owner.term}"
        self.scalable = ScalableService(self)
        self.revocation = Revocation(self)
        self.stored_configuration = StoredConfiguration(self)
        policies.in_force.listen(self._on_policies_changed)
        policies.start(
            PolicyHost(
                clock=clock,
                resources=resources,
                schemas=schemas,
                topics=self,
                cluster=self.cluster,
                producer_name=self._name_prefix,
                namespaces_in_use=policies.in_force.namespaces_in_use,
            )
        )

    @property
    def broker_id(self) -> str:
        return self.owner.broker_id

    @property
    def service_url(self) -> str:
        return self.owner.service_url

    @property
    def web_url(self) -> str:
        return self.owner.web_url

    def next_producer_name(self) -> str:
        return f"{self._name_prefix}-{next(self._names)}"

    # ------------------------------------------------------------------ loading

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
            topic = self.topics.get(name.full)
            if topic is not None and not topic.closed:
                return topic
            changing = self._changing.get(name.full)
            if changing is not None:
                await asyncio.shield(changing)
                continue
            if self.closing:
                raise ServiceNotReady("The broker is closing")
            with self.ceiling.loading():
                async with Change(self._changing, name.full):
                    try:
                        return await self._open_topic(name, create, properties, cursors)
                    finally:
                        if name.full not in self.topics:
                            self.policies.in_force.forget(name)

    async def _open_topic(
        self,
        name: TopicName,
        create: bool,
        properties: Mapping[str, str] | None,
        cursors: Collection[str],
    ) -> AnyTopic:
        if name.domain is TopicDomain.TOPIC:
            raise NotAllowed(f"{name} is a scalable topic; attach to its segments")
        owner = await self.require_owner(name)  # of other brokers' topics nothing is read here
        await self.policies.in_force.load(name)
        policy = self.policies.in_force.get(name)
        is_new = False
        topic: AnyTopic
        if not name.is_persistent:
            if not self.config.enableNonPersistentTopics:
                raise NotAllowed("Broker is not set to serve non-persistent topics")
            if not create:
                raise TopicNotFound(f"Topic {name} not found")
            topic, is_new = NonPersistentTopic(self, name, policy), True
        else:
            if not self.config.enablePersistentTopics:
                raise NotAllowed("Broker is not set to serve persistent topics")
            is_new = not await self.tree.exists(name)
            if is_new:
                if not create:
                    raise TopicNotFound(f"Topic {name} not found")
                await self._check_creation(name)
            birth = cursors if is_new else None
            log = await open_log(self, name, policy, owner, birth=birth)
            topic = await PersistentTopic.open(self, name, policy, log)
            if properties:
                await topic.set_properties(properties)
        topic.on_policies_changed(self.policies.in_force.get(name))  # there may be others by now
        self.topics[name.full] = topic
        self.policies.backend.on_topic_loaded(name)
        if is_new:
            self.tell_watchers(name, exists=True)
        return topic

    async def require_owner(self, name: TopicName) -> Owner:
        """This broker, with the term under which it may write; others are asked by lookup."""
        owner = await self.ownership.owner_of(name)
        if not owner.is_self:
            raise ServiceNotReady(f"{name} is served by {owner.service_url}")
        return owner

    async def _check_creation(self, name: TopicName) -> None:
        if name.namespace.tenant == HEARTBEAT_TENANT:
            return
        policies = await self.resources.namespaces.get(name.namespace)
        if policies is None:
            raise NamespaceNotFound(f"Namespace {name.namespace} does not exist")
        if policies.deleted:
            raise NamespaceNotFound(f"Namespace {name.namespace} is being deleted")
        self.policies.check_creation(name)
        await self.tree.claim(name.namespace)
        if name.domain is TopicDomain.SEGMENT:
            return  # what counts is its topic
        if await self._is_scalable(name):
            raise Conflict(f"A scalable topic of this name exists: {name.base}")
        if not is_system_topic(name):
            await check_room(self, name.namespace, policies)

    async def _is_scalable(self, name: TopicName) -> bool:
        """Whether a regular name is taken by a scalable topic."""
        enabled = self.config.scalableTopicsEnabled and name.domain is TopicDomain.PERSISTENT
        return enabled and await self.scalable.records.get(name) is not None

    async def may_create(self, name: TopicName) -> bool:
        """Whether attaching to a missing topic makes it: the namespace says, else the broker."""
        creation = await self.policies.auto_topic_creation(name.namespace)
        return creation.allowed and not await self._is_scalable(name)

    async def attach_topic(self, name: TopicName, *, may_create: bool = True) -> AnyTopic:
        """The topic a client attaches to. A partition needs its partitioned topic; a partitioned
        topic's own name has no log.
        """
        if name.domain is TopicDomain.SEGMENT:
            return await self.scalable.attach_segment(name)
        topic = self.topics.get(name.full)
        if topic is not None and not topic.closed:
            return topic
        if self.closing:
            raise ServiceNotReady("The broker is closing")
        partitioned = await self.resources.partitioned.get(name.base)
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
        """How many partitions a topic has; 0 when it is not partitioned, or will come to be so by
        attaching.
        """
        partitioned = await self.resources.partitioned.get(name.base)
        if partitioned is not None:
            if not name.is_partition:
                return partitioned.partitions
            if name.partition_index >= partitioned.partitions:
                raise TopicNotFound(f"Topic {name} not found")
            return 0
        if await self.topic_exists(name):
            return 0
        if await self.resources.namespaces.get(name.namespace) is None:
            raise TopicNotFound(f"Namespace {name.namespace} not found")
        creation = await self.policies.auto_topic_creation(name.namespace)
        if not (may_create and await self.may_create(name)):
            raise TopicNotFound(f"Topic {name} not found")
        if creation.partitions <= 0 or name.is_partition:
            return 0
        await self.resources.partitioned.create(name, creation.partitions, {})
        return creation.partitions

    async def topic_exists(self, name: TopicName) -> bool:
        topic = self.topics.get(name.full)
        if topic is not None and not topic.closed:
            return True
        return name.is_persistent and await self.tree.exists(name)

    async def list_topics(self, namespace: NamespaceName, domain: TopicDomain) -> list[str]:
        if domain is TopicDomain.NON_PERSISTENT:
            loaded = self.topics.values()
            return sorted(
                t.name.full
                for t in loaded
                if t.name.domain is domain and t.name.namespace == namespace and not t.closed
            )
        return await self.tree.list(namespace, domain)

    # ------------------------------------------------------------------ unloading and deleting

    async def unload_topic(self, name: TopicName) -> None:
        topic = self.topics.get(name.full)
        if topic is None:
            if not await self.topic_exists(name):
                raise TopicNotFound(f"Topic {name} not found")
            return
        async with Change(self._changing, name.full):
            await topic.close()
            self._drop(topic)

    def leave_namespace(self, namespace: NamespaceName) -> None:
        """Close its topics, so that clients look them up again and they open under a new term."""
        self.tasks.start(self._leave(namespace), name=f"leave {namespace}")

    async def _leave(self, namespace: NamespaceName) -> None:
        for topic in list(self.topics.values()):
            if topic.name.namespace == namespace:
                try:
                    await self.unload_topic(topic.name)
                except BrokerError as failure:
                    _log.error(
                        "topic did not close", topic=topic.name.full, reason=failure.sentence
                    )

    def _drop(self, topic: AnyTopic) -> None:
        name = topic.name
        if self.topics.get(name.full) is not topic:
            return
        del self.topics[name.full]
        self.policies.in_force.forget(name)

    async def delete_topic(self, name: TopicName, *, force: bool = False) -> None:
        topic = await self.load_topic(name)
        if not force:
            topic.check_unused()
        if name.full in self._changing:
            raise ResourceBusy(f"Topic {name} is being unloaded or deleted")
        async with Change(self._changing, name.full):
            try:
                await topic.delete()
            finally:
                self._drop(topic)
        self.tell_watchers(name, exists=False)

    async def sweep_ledgers(self, suspects: Sequence[LedgerId]) -> None:
        """Delete what a crash left of ledgers that were there before this broker served."""
        named = NamedLedgers(self.tree, self.schemas, self.ledgers)
        found = await remove_orphans(self.ledgers, suspects, named.has, term=self.owner.term)
        if found.removed:
            _log.info("removed ledgers that nothing names", count=len(found.removed))

    # ------------------------------------------------------------------ changes

    def tell_watchers(self, name: TopicName, *, exists: bool) -> None:
        if name.domain is TopicDomain.PERSISTENT:
            self.topic_lists.on_change(name, exists=exists)

    def _on_policies_changed(self, namespace: NamespaceName, topic: TopicName | None) -> None:
        for live in list(self.topics.values()):
            if live.name.namespace == namespace and topic in (None, policy_name(live.name)):
                live.on_policies_changed(self.policies.in_force.get(live.name))

    # ------------------------------------------------------------------ the end

    async def close(self) -> None:
        """Tell every client to go elsewhere, make everything durable, end the connections."""
        self.closing = True
        self.revocation.close()
        await self.scalable.close()
        await self._close_topics()
        for connection in list(self.connections):
            connection.close()
        await self.tasks.close()
        self.authentication.close()
        await self._close_topics()  # those that were still being loaded when the first round began
        self.schemas.close()

    async def _close_topics(self) -> None:
        gate = asyncio.Semaphore(64)

        async def close_one(topic: AnyTopic) -> None:
            async with gate:
                try:
                    await topic.close()
                except BrokerError as failure:
                    _log.error(
                        "topic did not close", topic=topic.name.full, reason=failure.sentence
                    )

        await asyncio.gather(*(close_one(topic) for topic in list(self.topics.values())))

"""The scalable plane of a broker: puts its parts together, makes and deletes topics, and takes what
topics and clients report.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

from magnetar.broker.attachment import Link
from magnetar.broker.broker_call import BrokerCalls, OwnerPort
from magnetar.broker.catalog import AnyTopic, TopicCatalog, TopicWatchers
from magnetar.broker.ownership import Owner
from magnetar.broker.policy import PolicyService
from magnetar.broker.resource import Resources
from magnetar.broker.scalable.autoscale import ScalePolicies
from magnetar.broker.scalable.control import Control, Controls
from magnetar.broker.scalable.controller import Controller, ControllerNeeds
from magnetar.broker.scalable.controller_directory import ControllerDirectory
from magnetar.broker.scalable.coordinator import Coordinator
from magnetar.broker.scalable.deletion import Deletions
from magnetar.broker.scalable.group import GroupOwner
from magnetar.broker.scalable.guard import Guard
from magnetar.broker.scalable.key_hash import KeyHashes, is_mixed
from magnetar.broker.scalable.legacy_topic import Legacy, LegacyCalls
from magnetar.broker.scalable.load import SegmentLoadReporter
from magnetar.broker.scalable.migration import Migrations
from magnetar.broker.scalable.migration_plan import MigrationPlanner
from magnetar.broker.scalable.owned_segment import Place, own_segments
from magnetar.broker.scalable.reader import SegmentReaders
from magnetar.broker.scalable.record import ScalableRecords
from magnetar.broker.scalable.refusal import LegacyRefusals
from magnetar.broker.scalable.regular import RegularTopics
from magnetar.broker.scalable.resolution import LayoutResolver
from magnetar.broker.scalable.segment import Segments, together
from magnetar.broker.scalable.segment_report import SegmentReports
from magnetar.broker.scalable.session import LayoutSession, WatchingLink
from magnetar.broker.scalable.size import LayoutSize
from magnetar.broker.scalable.watch import NamespaceWatcher
from magnetar.broker.schema import SchemaRegistry
from magnetar.errors import BrokerError, Conflict, NamespaceNotFound, TopicNotFound
from magnetar.metadata.store import MetadataStore
from magnetar.model.layout import Layout
from magnetar.model.migration import regular_name
from magnetar.model.name import NamespaceName, TopicDomain, TopicName
from magnetar.model.scalable import HealIntent, ScalableTopicMetadata, WipeIntent
from magnetar.model.segment import SegmentName, check_scalable_name, parse_segment, scalable_name
from magnetar.rules.bundle import Bundle
from magnetar.runtime.clock import Clock
from magnetar.runtime.configuration import Configuration
from magnetar.runtime.log import Logger
from magnetar.runtime.task import TaskScope

_ROUND_S: Final = 60

_log = Logger(__name__)


class ScalableService:
    def __init__(
        self,
        catalog: TopicCatalog,
        records: ScalableRecords,
        *,
        config: Configuration,
        clock: Clock,
        tasks: TaskScope,
        store: MetadataStore,
        resources: Resources,
        policies: PolicyService,
        schemas: SchemaRegistry,
        owner: Owner,
        calls: BrokerCalls,
        cluster: str,
        watchers: TopicWatchers,
        place: Place | None = None,
    ) -> None:
        ownership = calls.ownership
        self._calls = calls
        self._place = place
        self._catalog = catalog
        self._config = config
        self._clock = clock
        self._tasks = tasks
        self._namespaces = resources.namespaces
        self._partitioned = resources.partitioned
        self._size = LayoutSize(
            config, owner.address, records.encode, record_bytes_max=store.record_bytes_max
        )
        self._keys = KeyHashes(resources.partitioned, catalog.topics, calls)
        self.redeliveries = 0
        """Sealed segments that were taken from a consumer and assigned to it again."""
        self.records: Final = records
        self.scale_policies: Final = ScalePolicies(config, resources.namespaces)
        self.refusals: Final = LegacyRefusals(clock)
        self.deletions: Final = Deletions(clock)
        make_coordinator = partial(
            Coordinator, clock=clock, config=config, on_redelivered=self._on_redelivered
        )
        self.regular: Final = RegularTopics(
            catalog,
            resources.partitioned,
            self.segments_of,
            make_coordinator,
            ownership=ownership,
            clock=clock,
            tasks=tasks,
        )
        self.reporter: Final = SegmentLoadReporter(
            catalog.topics,
            self.records,
            self.scale_policies,
            ownership,
            config=config,
            clock=clock,
            led=self._present,
        )
        needs = ControllerNeeds(
            records=self.records,
            segments_of=self.segments_of,
            wake_elsewhere=self._wake_elsewhere,
            regular=self.regular,
            make_coordinator=make_coordinator,
            policies=policies,
            schemas=schemas,
            scale_policies=self.scale_policies,
            size=self._size,
            is_outdated=self.reporter.is_outdated,
            store=store,
            broker_id=owner.broker_id,
            clock=clock,
            config=config,
        )
        self.controllers: Final = ControllerDirectory(
            needs, ownership, catalog, tasks, on_deleted=self.deletions.on_deleted
        )
        calls.offer(Segments, self._local_segments)
        self.controls: Final[Controls] = OwnerPort(
            calls,
            Control,
            lambda topic: Control(self.controllers, self._owners_of, topic),
            scalable_name,
        )
        self.reports: Final = SegmentReports(self.controllers, self.controls, tasks)
        """Follows what happens to topics."""
        self.readers: Final = SegmentReaders(clock, config, self._owners_of, self.controls, tasks)
        self.guard: Final = Guard(
            self.records,
            self.refusals,
            is_assigned=self.readers.is_assigned,
            load_groups=self.readers.load_groups,
        )
        self.layouts: Final = LayoutResolver(
            self.records,
            self.controllers,
            self.regular,
            keys=self._keys,
            partitioned=resources.partitioned,
            store=store,
            owner=owner,
            ownership=ownership,
            catalog=catalog,
            create=self._create_by_lookup,
        )
        self._legacy = Legacy(
            catalog,
            self.guard,
            store=store,
            tasks=tasks,
            load_groups=self.readers.load_groups if ownership.is_shared else None,
        )
        legacy = LegacyCalls(calls, self._legacy)
        planner = MigrationPlanner(
            catalog,
            self.records,
            resources,
            policies,
            legacy=legacy,
            keys=self._keys,
            size=self._size,
            config=config,
            clock=clock,
            cluster=cluster,
        )
        self.migrations: Final = Migrations(
            catalog,
            self.records,
            planner,
            self.segments_of,
            legacy=legacy,
            guard=self.guard,
            policies=policies,
            partitioned=resources.partitioned,
            store=store,
            clock=clock,
            broker_id=owner.broker_id,
            watchers=watchers,
            wake=self.controllers.wake,
            ownership=ownership,
        )

    def start(self) -> None:
        """Begin the rounds, and go on with what an earlier process left unfinished."""
        self._tasks.start(self.resume(), name="resume scalable topics")
        self._tasks.periodic(_ROUND_S, self.run_round, "scalable topics")
        self.reporter.start(self._tasks)
        interval_s = self._config.scalableTopicAutoScaleIntervalSeconds
        if interval_s > 0:
            self._tasks.periodic(interval_s, self.controllers.evaluate, "auto split and merge")

    async def resume(self) -> None:
        await self.migrations.resume()
        await self.controllers.resume()

    async def run_round(self) -> None:
        await self.regular.drop_idle()
        await self._look_at_keys()
        await self.controllers.run_round()

    async def _look_at_keys(self) -> None:
        """V4 producers may have begun since V5 clients opened a regular topic: a hash that is found
        is stored, and sent to those who watch.
        """
        mixed = [each.name for each in list(self._catalog.topics.values()) if is_mixed(each)]
        for topic in dict.fromkeys((*self.records.watched(), *map(scalable_name, mixed))):
            try:
                if "/" not in topic.local and await self.records.get(topic) is None:
                    await self._keys.find(regular_name(topic), again=True)
            except BrokerError as failure:
                _log.warning("keys not read", topic=topic.full, reason=failure.sentence)

    # ------------------------------------------------------------------ topics

    async def create_topic(
        self,
        topic: TopicName,
        *,
        segments: int = 1,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """The record first: from there on the topic exists, and missing segments are made when
        they are needed.
        """
        name = scalable_name(topic)
        check_scalable_name(name)
        layout = Layout.initial(
            segments,
            now_ms=self._clock.now_ms(),
            bucket_budget=self._config.scalableTopicEntryBucketBudget,
        )
        await self._check_creation(name)
        record = ScalableTopicMetadata(layout, dict(properties or {}))
        self._size.check(name, record)
        await self.records.create(name, record)
        create = self.segments_of(name).create
        await together(create(segment.ref, ()) for segment in layout.segments)
        _log.info("scalable topic created", topic=name.full, segments=segments)

    async def _check_creation(self, name: TopicName) -> None:
        """A topic of another kind is never hidden behind a new one."""
        policies = await self._namespaces.get(name.namespace)
        if policies is None or policies.deleted:
            raise NamespaceNotFound(f"Namespace {name.namespace} does not exist")
        record = await self.records.get(name)
        if record is not None:
            raise Conflict(
                f"Scalable topic is being deleted: {name}"
                if record.is_deleting
                else f"Scalable topic already exists: {name}"
            )
        regular = TopicName(TopicDomain.PERSISTENT, name.namespace, name.local)
        if "/" not in name.local and await self.regular.exists(regular):
            raise Conflict(f"A regular topic of this name exists: {regular}; migrate it instead")
        await self._catalog.limit.check(name.namespace, policies)

    async def _create_by_lookup(self, topic: TopicName) -> None:
        if not await self._catalog.may_create(topic):
            raise TopicNotFound(f"Scalable topic not found: {topic}")
        try:
            await self.create_topic(topic)
        except Conflict as conflict:
            if not await self.exists(topic):  # else another client was quicker
                raise TopicNotFound(conflict.sentence) from None

    async def delete_topic(self, topic: TopicName, *, force: bool = False) -> None:
        name = scalable_name(topic)
        if not await self.exists(name):
            raise TopicNotFound(f"Scalable topic not found: {name}")
        await (await self.controller(name)).changes.delete(force=force)

    async def exists(self, topic: TopicName) -> bool:
        return (record := await self.records.get(topic)) is not None and not record.is_deleting

    async def controller(self, topic: TopicName) -> Controller:
        """The controller of a topic, leading here; raise NoOwner when another broker has it."""
        return await self.controllers.get(topic)

    # ------------------------------------------------------------------ clients

    def open_layout(
        self, connection: WatchingLink, session_id: int, name: TopicName
    ) -> LayoutSession:
        return LayoutSession(
            connection,
            session_id,
            name,
            self.layouts,
            clock=self._clock,
            tasks=self._tasks,
            frame_bytes_max=self._size.frame_bytes_max,
        )

    def watch_namespace(
        self, connection: Link, watch_id: int, namespace: NamespaceName, filters: Mapping[str, str]
    ) -> NamespaceWatcher:
        return NamespaceWatcher(
            connection,
            watch_id,
            namespace,
            filters,
            self.records,
            clock=self._clock,
            tasks=self._tasks,
        )

    # ------------------------------------------------------------------ segments

    def segments_of(self, topic: TopicName) -> Segments:
        local = self._local_segments(topic)
        is_shared = self._calls.ownership.is_shared
        return own_segments(self._calls, local, topic, self._place) if is_shared else local

    def _local_segments(self, topic: TopicName) -> Segments:
        return Segments(self._catalog, self.records, self._partitioned, topic)

    async def attach_segment(self, name: TopicName) -> AnyTopic:
        """The topic of a segment; one that the layout does not name is refused. An active one that
        has no topic is made with the first client. Of a migrated topic, an old partition is found
        by the name of its segment as well.
        """
        wanted = parse_segment(name)
        record = await self.records.get(wanted.topic)
        segment = None if record is None else record.layout.by_id.get(wanted.id)
        if segment is None and self._calls.ownership.is_shared:
            # The client may know a layout of which this broker has not been notified yet.
            held = await self.records.load(wanted.topic, refresh=True)
            record = None if held is None else held.value
            segment = None if record is None else record.layout.by_id.get(wanted.id)
        if record is None or record.is_deleting or segment is None:
            raise TopicNotFound(f"Segment not found: {name}")
        if segment.range != wanted.range:
            raise TopicNotFound(f"Segment {wanted.id} of {wanted.topic} is not {name}")
        self.controllers.wake(wanted.topic)
        if segment.is_legacy:
            return await self._catalog.load_topic(segment.name_in(wanted.topic))
        if segment.is_active and self._config.scalableTopicsEnabled:
            await self._heal(record, wanted)
        return await self._catalog.load_topic(wanted.name)

    async def _heal(self, record: ScalableTopicMetadata, segment: SegmentName) -> None:
        """No client is let in before every subscription is there."""
        is_changing = isinstance(record.intent, HealIntent | WipeIntent) and any(
            ref.id == segment.id for ref in record.intent.segments
        )
        if is_changing or not await self._catalog.topic_exists(segment.name):
            await self._catalog.require_owner(segment.name)
            await self.controls.at(segment.topic).heal(segment.id)

    # ------------------------------------------------------------------ what its parts need

    async def _wake_elsewhere(self, topic: TopicName) -> None:
        await self.controls.at(topic).wake()

    def _on_redelivered(self) -> None:
        self.redeliveries += 1

    def _present(self) -> Iterator[Controller]:
        return self.controllers.present()

    def _owners_of(self, topic: TopicName) -> list[GroupOwner]:
        found = (self.controllers.find(topic), self.regular.find(topic))
        return [each for each in found if each is not None]

    # ------------------------------------------------------------------ the end

    async def leave(self, bundle: Bundle) -> None:
        """The names in a bundle get another owner."""
        await self.controllers.leave(bundle)
        await self.regular.leave(bundle)

    async def close(self) -> None:
        await self.controllers.close()
        await self.regular.close()
        await self.migrations.close()
        self._legacy.close()
        self.records.close()

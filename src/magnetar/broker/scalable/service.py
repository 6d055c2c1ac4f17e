"""Scalable topics as the broker serves them: which there are, who controls each, what clients see
of them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from magnetar.broker.scalable.controller import Controller
from magnetar.broker.scalable.deletion import Deletions
from magnetar.broker.scalable.key_hash import find_key_hash, is_mixed
from magnetar.broker.scalable.load import LoadReporter
from magnetar.broker.scalable.migration import Migrations
from magnetar.broker.scalable.record import ScalableRecords
from magnetar.broker.scalable.refusal import LegacyRefusals
from magnetar.broker.scalable.regular import RegularTopics
from magnetar.broker.scalable.segment import LocalSegments, together
from magnetar.broker.scalable.size import check_size
from magnetar.errors import (
    BrokerError,
    Conflict,
    NamespaceNotFound,
    NoOwner,
    NotAllowed,
    ServiceNotReady,
    StoreClosed,
    TopicNotFound,
)
from magnetar.metadata.store import Cancel
from magnetar.model.layout import Layout
from magnetar.model.migration import regular_name
from magnetar.model.name import NamespaceName, TopicDomain, TopicName
from magnetar.model.position import EARLIEST, LATEST, Position
from magnetar.model.scalable import (
    BrokerAddress,
    HealIntent,
    LayoutView,
    MigrateIntent,
    ScalableTopicMetadata,
    WipeIntent,
)
from magnetar.model.scaling import ScaleTally
from magnetar.model.segment import (
    SegmentName,
    check_scalable_name,
    parse_segment,
    scalable_name,
)
from magnetar.runtime.log import Log
from magnetar.wire.command import CommandSubscribe, signed64

if TYPE_CHECKING:
    from magnetar.broker.catalog import AnyTopic
    from magnetar.broker.service import Service
    from magnetar.broker.subscription import Subscription

_ROUND_S: Final = 60
_RETRY_S: Final = 1.0

_log = Log(__name__)


class ScalableService:
    """There is a controller for a topic while anybody uses it or anything is to be done in it."""

    def __init__(self, service: Service, records: ScalableRecords) -> None:
        self._service = service
        self._controllers: dict[TopicName, Controller] = {}
        self.recalls = 0
        """Sealed segments that were taken from a consumer and handed out anew."""
        self._idle: dict[TopicName, tuple[int, ScaleTally]] = {}
        """Active segments and counts of topics that were controlled here and are not in use."""
        self.records = records
        self.reporter = LoadReporter(service, self.records)
        self.regular = RegularTopics(service)
        self.migrations = Migrations(service, self.records)
        self.refusals = LegacyRefusals(service.clock)
        self.deletions = Deletions(service.clock)

    def start(self) -> None:
        """Begin the rounds, and go on with what an earlier process left unfinished."""
        self._service.tasks.start(self.resume(), name="resume scalable topics")
        self._service.tasks.periodic(_ROUND_S, self.look_round, "scalable topics")
        self.reporter.start()
        interval_s = self._service.config.scalableTopicAutoScaleIntervalSeconds
        if interval_s > 0:
            self._service.tasks.periodic(interval_s, self.evaluate, "auto split and merge")

    async def evaluate(self) -> None:
        """Ask every topic that is controlled here whether it should split or merge."""
        await together(each.scaler.evaluate() for each in self.controllers if each.is_leading)

    # ------------------------------------------------------------------ topics

    async def create_topic(
        self,
        topic: TopicName,
        *,
        segments: int = 1,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """The record first: from there on the topic exists, and missing segments are made by
        whoever needs them.
        """
        name = scalable_name(topic)
        check_scalable_name(name)
        layout = Layout.initial(
            segments,
            now_ms=self._service.clock.now_ms(),
            bucket_budget=self._service.config.scalableTopicEntryBucketBudget,
        )
        await self._check_creation(name)
        await self._require_owner(name)
        record = ScalableTopicMetadata(layout, dict(properties or {}))
        check_size(self._service, name, record)
        await self.records.create(name, record)
        access = LocalSegments(self._service, name)
        await together(access.create(segment.ref, ()) for segment in layout.segments)
        _log.info("scalable topic created", topic=name.full, segments=segments)

    async def _check_creation(self, name: TopicName) -> None:
        """A topic of another kind is never hidden behind a new one."""
        policies = await self._service.resources.namespaces.get(name.namespace)
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
        await self._service.catalog.limit.check(name.namespace, policies)

    async def delete_topic(self, topic: TopicName, *, force: bool = False) -> None:
        name = scalable_name(topic)
        if not await self.exists(name):
            raise TopicNotFound(f"Scalable topic not found: {name}")
        await (await self.controller(name)).delete(force=force)

    async def metadata(self, topic: TopicName) -> ScalableTopicMetadata:
        return await self.records.require(topic)

    async def exists(self, topic: TopicName) -> bool:
        return (record := await self.records.get(topic)) is not None and not record.is_deleting

    async def list(
        self, namespace: NamespaceName, filters: Mapping[str, str] | None = None
    ) -> list[TopicName]:
        return await self.records.list(namespace, filters)

    async def update_properties(self, topic: TopicName, properties: Mapping[str, str]) -> None:
        await self.records.update_properties(topic, properties)

    # ------------------------------------------------------------------ controllers

    @property
    def controllers(self) -> tuple[Controller, ...]:
        return tuple(self._controllers.values())

    def loaded_controller(self, topic: TopicName) -> Controller | None:
        return self._controllers.get(scalable_name(topic))

    async def controller(self, topic: TopicName) -> Controller:
        """The controller of a topic, leading here; raise NoOwner when another broker has it."""
        name = scalable_name(topic)
        controller = self._controllers.get(name)
        if controller is None:
            if self._service.closing:
                raise ServiceNotReady("The broker is closing")
            await self.records.require(name)
            await self._require_owner(name)
            controller = self._controllers.get(name)
        if controller is None:
            controller = self._controllers[name] = Controller(
                self._service, name, self.records, on_end=self._on_end
            )
        await controller.ready()
        self._idle.pop(name, None)
        return controller

    async def _require_owner(self, name: TopicName) -> None:
        """Segments and controller of a topic are with the one broker that owns its namespace."""
        owner = await self._service.ownership.owner_of(name)
        if not owner.is_self:
            raise NoOwner(f"{name} is controlled by {owner.service_url}")

    def wake(self, topic: TopicName) -> None:
        """Somebody uses a topic: see to it that it has a controller, without waiting for it."""
        if scalable_name(topic) not in self._controllers and not self._service.closing:
            self._service.tasks.start(self._wake(topic), name="controller")

    async def _wake(self, topic: TopicName) -> None:
        try:
            await self.controller(topic)
        except (NoOwner, StoreClosed, TopicNotFound, ServiceNotReady):
            pass  # another broker's, or nobody's any more
        except BrokerError as failure:
            _log.warning("topic has no controller", topic=topic.full, reason=failure.sentence)

    def _on_end(self, controller: Controller) -> None:
        if controller.is_gone:
            self.deletions.on_deleted(controller.topic)
        if self._controllers.get(controller.topic) is controller:
            del self._controllers[controller.topic]
        self._service.tasks.start(self._finish(controller), name="close controller")

    async def _finish(self, controller: Controller) -> None:
        """A deletion that came to a halt at its very end is taken up again."""
        await controller.finish()
        record = await self.records.get(controller.topic)
        if record is not None and record.is_deleting:
            await self._service.clock.sleep(_RETRY_S)
            await self._resume(controller.topic, is_deleting=True)

    async def resume(self) -> None:
        """Wake the controllers of topics in which something is left to be done."""
        await self.migrations.resume()
        for namespace in await self.records.namespaces():
            for topic, record in (await self.records.load_unfinished(namespace)).items():
                await self._resume(topic, is_deleting=record.is_deleting)

    async def _resume(self, topic: TopicName, *, is_deleting: bool) -> None:
        if not is_deleting:
            await self._wake(topic)
        elif topic not in self._controllers:
            try:
                await self._require_owner(topic)
                controller = self._controllers[topic] = Controller(
                    self._service, topic, self.records, on_end=self._on_end
                )
                await controller.ready()
            except (NoOwner, TopicNotFound):
                pass  # another broker's, or deleted by now, as it should be

    async def look_round(self) -> None:
        """What a controller does now and then; one that nobody needs any more goes."""
        await self.regular.drop_idle()
        await self._look_at_keys()
        for controller in list(self._controllers.values()):
            try:
                if controller.is_leading:
                    await controller.delete_unused_subscriptions()
                    await controller.prune()
                    await controller.drop_idle_coordinators()
                if not controller.is_needed and not self.records.is_watched(controller.topic):
                    await self._close(controller)
            except BrokerError as failure:
                topic = controller.topic.full
                _log.warning("round failed", topic=topic, reason=failure.sentence)

    async def _look_at_keys(self) -> None:
        """V4 producers may have begun since V5 clients opened a regular topic: a hash that is found
        is stored, and told to those who watch.
        """
        sessions = [s for c in self._service.connections for s in c.scalable.layouts.values()]
        mixed = [t.name for t in list(self._service.topics.values()) if is_mixed(t)]
        for topic in {*(s.subject for s in sessions), *map(scalable_name, mixed)}:
            try:
                if "/" not in topic.local and await self.records.get(topic) is None:
                    await find_key_hash(self._service, regular_name(topic), again=True)
            except BrokerError as failure:
                _log.warning("keys not read", topic=topic.full, reason=failure.sentence)

    async def _close(self, controller: Controller) -> None:
        del self._controllers[controller.topic]
        is_leading = controller.is_leading
        await controller.close()
        tally = controller.scaler.tally
        if is_leading and tally != ScaleTally(epoch=tally.epoch):
            self._idle[controller.topic] = (len(controller.layout.active), tally)

    def tallies(self) -> Mapping[TopicName, tuple[int, ScaleTally]]:
        """How many segments each topic has that is controlled here, and how it scaled itself. The
        counts of one that nobody uses are not forgotten.
        """
        leading = {
            name: (len(each.layout.active), each.scaler.tally)
            for name, each in self._controllers.items()
            if each.is_leading
        }
        return self._idle | leading

    # ------------------------------------------------------------------ what clients see

    async def view(self, topic: TopicName) -> LayoutView:
        """The layout with who serves the active segments and who controls the topic."""
        name = scalable_name(topic)
        record = await self.records.require(name)
        brokers = {}
        for segment in record.layout.active:
            try:
                owner = await self._service.ownership.owner_of(segment.name_in(name))
            except NoOwner:
                continue  # clients look it up themselves
            brokers[segment.id] = owner.address
        return LayoutView(record.layout, brokers, await self._controller_address(name))

    async def _controller_address(self, topic: TopicName) -> BrokerAddress | None:
        controller = self._controllers.get(topic)
        if controller is not None and controller.is_leading:
            return self._service.owner.address
        leader = await self.records.load_controller(topic)
        if leader is not None and leader == json.dumps(self._service.broker_id).encode():
            return self._service.owner.address
        return await self._remote_controller(topic)

    async def _remote_controller(self, topic: TopicName) -> BrokerAddress | None:
        try:
            owner = await self._service.ownership.owner_of(topic)
            return None if owner.is_self else owner.address
        except NoOwner:
            return None

    async def _host_address(self, name: TopicName) -> BrokerAddress | None:
        """Where the groups of a regular topic are: with the owner of its partitions, whichever
        broker a client knows. A broker that runs alone need not say so.
        """
        if not self._service.ownership.is_shared:
            return None
        try:
            return (await self._service.ownership.owner_of(name)).address
        except NoOwner:
            return None

    async def resolve(
        self, name: TopicName, *, create_if_missing: bool
    ) -> tuple[TopicName, LayoutView]:
        """What a client that looks a name up is to see, whatever kind of topic it is."""
        if name.domain is TopicDomain.NON_PERSISTENT:
            raise NotAllowed(f"{name} keeps nothing and has no layout")
        if name.is_partition:
            raise TopicNotFound(f"{name} is an individual partition; look up {name.base}")
        topic = scalable_name(name)
        record = await self.records.get(topic)
        if record is None and name.domain is TopicDomain.TOPIC and create_if_missing:
            await self._create_by_lookup(topic)
            record = await self.records.get(topic)
        if record is None and name.domain is TopicDomain.PERSISTENT:
            layout = await self.regular.load_layout(name)
            found = await find_key_hash(self._service, name)
            hashing = "" if found is None else found.value
            return topic, LayoutView(
                layout, controller=await self._host_address(name), key_hash=hashing
            )
        if record is None or record.is_deleting:
            raise TopicNotFound(f"Scalable topic not found: {topic}")
        if isinstance(record.intent, MigrateIntent):  # writers wait to hear of it, sealing can wait
            self.wake(topic)
            view = await self.view(topic)  # who will control it is told at once, not once more
            return topic, replace(view, controller=view.controller or self._service.owner.address)
        try:
            await self.controller(topic)
        except TopicNotFound:
            raise
        except BrokerError as failure:  # the layout can be served without
            _log.warning("topic has no controller", topic=topic.full, reason=failure.sentence)
        return topic, await self.view(topic)

    async def _create_by_lookup(self, topic: TopicName) -> None:
        if not await self._service.may_create(topic):
            raise TopicNotFound(f"Scalable topic not found: {topic}")
        try:
            await self.create_topic(topic)
        except Conflict as conflict:
            if not await self.exists(topic):  # else another client was quicker
                raise TopicNotFound(conflict.sentence) from None

    def watch(self, name: TopicName, listener: Callable[[], None]) -> Cancel:
        """Call the listener after each change of what `resolve` says of the name."""
        cancels = [self.records.watch(name, listener)]
        if name.domain is TopicDomain.PERSISTENT:
            cancels.append(self._service.resources.partitioned.watch(name, listener))

        def cancel() -> None:
            for each in cancels:
                each()

        return cancel

    # ------------------------------------------------------------------ segments

    async def attach_segment(self, name: TopicName) -> AnyTopic:
        """The topic of a segment; one that the layout does not name is refused. An active one that
        has no topic is made by whoever comes first. Of a migrated topic, an old partition is found
        by the name of its segment as well.
        """
        wanted = parse_segment(name)
        record = await self.records.get(wanted.topic)
        segment = None if record is None else record.layout.by_id.get(wanted.id)
        if record is None or record.is_deleting or segment is None:
            raise TopicNotFound(f"Segment not found: {name}")
        if segment.range != wanted.range:
            raise TopicNotFound(f"Segment {wanted.id} of {wanted.topic} is not {name}")
        self.wake(wanted.topic)
        if segment.is_legacy:
            return await self._service.load_topic(segment.name_in(wanted.topic))
        if segment.is_active and self._service.config.scalableTopicsEnabled:
            await self._heal(record, wanted)
        return await self._service.load_topic(wanted.name)

    async def _heal(self, record: ScalableTopicMetadata, segment: SegmentName) -> None:
        """Nobody is let in before every subscription is there."""
        is_changing = isinstance(record.intent, HealIntent | WipeIntent) and any(
            ref.id == segment.id for ref in record.intent.segments
        )
        if is_changing or not await self._service.topic_exists(segment.name):
            await self._service.require_owner(segment.name)
            await (await self.controller(segment.topic)).heal(segment.id)

    async def on_subscribed(self, name: TopicName, request: CommandSubscribe) -> None:
        """A client attaches to a durable subscription on a segment: it is one of the whole topic,
        and is there when the client hears that it has attached.
        """
        start: Position | None = None
        age_s = signed64(request.start_message_rollback_duration_sec)
        if age_s <= 0:  # else each segment has its own place
            is_first = request.initialPosition == CommandSubscribe.Earliest
            start = EARLIEST if is_first else LATEST
        await self.adopt_subscription(name, request.subscription, start)

    async def adopt_subscription(
        self, name: TopicName, subscription: str, start: Position | None
    ) -> None:
        """Give every segment a subscription that one of them has."""
        controller = await self.controller(name)
        await controller.adopt_subscription(subscription, start)

    def on_drained(self, subscription: Subscription) -> None:
        """Nothing is left to acknowledge on a sealed segment."""
        controller = self.loaded_controller(subscription.topic.name)
        if controller is not None and subscription.name in controller.coordinators:
            self._service.tasks.start(self._tell_drained(controller, subscription), name="drained")

    async def _tell_drained(self, controller: Controller, subscription: Subscription) -> None:
        """What waits for this must not begin before it is certain that it holds after a crash."""
        await subscription.cursor.flush()
        if subscription.backlog:
            return
        name = subscription.topic.name
        for segment in controller.layout.sealed:
            if segment.name_in(controller.topic) == name:
                controller.on_drained(segment.id, subscription.name)

    def on_cursor_moved(self, subscription: Subscription) -> None:
        controller = self.loaded_controller(subscription.topic.name)
        if controller is not None:
            controller.on_cursor_moved(subscription.name)

    # ------------------------------------------------------------------ the end

    async def close(self) -> None:
        controllers, self._controllers = self._controllers, {}
        await asyncio.gather(*(controller.close() for controller in controllers.values()))
        await self.regular.close()
        await self.migrations.close()
        self.records.close()

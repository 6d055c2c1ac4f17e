"""Migration of regular topics to scalable ones: one conditional write makes the difference.

Segments for new messages are made first, with every cursor, and belong to no topic yet. Then
writers are held back for as long as it takes to look once more and to write the record of the
scalable topic: that is all that the caller waits for. The rest is an intent in that record: the
controller seals the regular topics, now or after a crash; they take no writes any more. What goes
wrong before the record is written is taken back. Both are decided by `rules.phase`, and carried
out by the engine of all changes.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from http import HTTPStatus
from typing import Final

from magnetar.broker.catalog import TopicCatalog, TopicWatchers
from magnetar.broker.ownership import Ownership
from magnetar.broker.policy import PolicyService
from magnetar.broker.resource import PartitionedTopics
from magnetar.broker.scalable.engine import Engine
from magnetar.broker.scalable.guard import Guard
from magnetar.broker.scalable.key_hash import KEY_HASH_PROPERTIES
from magnetar.broker.scalable.legacy_topic import (
    Legacy,
    LegacyCalls,
    LegacySeen,
    changed_meanwhile,
)
from magnetar.broker.scalable.migration_plan import MigrationPlanner
from magnetar.broker.scalable.record import ScalableRecords
from magnetar.broker.scalable.segment import SegmentsOf
from magnetar.errors import (
    BrokerError,
    Conflict,
    LockBusy,
    MigrationFailed,
    RecordNotFound,
    ServiceNotReady,
    fault_of,
)
from magnetar.metadata.lock import Locks
from magnetar.metadata.store import (
    ABSENT,
    ANY_VERSION,
    Change,
    ChangeKind,
    MetadataStore,
    SessionEvent,
)
from magnetar.model.migration import (
    LOCKS,
    PREPARATIONS,
    Preparation,
    Rehearsal,
    legacy_names,
    lock_path,
    parse_lock_path,
    preparation_path,
    preparations_path,
    regular_name,
)
from magnetar.model.name import NamespaceName, TopicDomain, TopicName, decode_local
from magnetar.model.policy import TopicPolicies
from magnetar.model.scalable import ScalableTopicMetadata
from magnetar.model.segment import scalable_name
from magnetar.rules.migrate import Survey, find_refusals
from magnetar.rules.phase import Phase, SegmentsSeen, decide_preparation, decide_withdrawal
from magnetar.runtime.clock import Clock
from magnetar.runtime.log import Logger
from magnetar.runtime.reconciler import Reconciler
from magnetar.runtime.task import TaskScope
from magnetar.wire.migration import decode_preparation, encode_preparation

_LAST_RECEIPTS_S: Final = 10.0
"""How long writers may take to get their last receipts."""

_MADE_AT_ONCE: Final = 256
"""Segments whose records share a sync; no caller waits for any of them alone."""

_log = Logger(__name__)


class Outcome(StrEnum):
    MIGRATED = "migrated"
    REFUSED = "refused"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class _Request:
    name: TopicName
    force: bool
    segments: int | None


@dataclass(slots=True)
class _Suspension:
    """Whether the topics that are suspended have become segments, once that is known."""

    is_scalable: bool | None = None


class Migrations:
    def __init__(
        self,
        catalog: TopicCatalog,
        records: ScalableRecords,
        planner: MigrationPlanner,
        segments_of: SegmentsOf,
        *,
        legacy: LegacyCalls,
        guard: Guard,
        policies: PolicyService,
        partitioned: PartitionedTopics,
        store: MetadataStore,
        clock: Clock,
        broker_id: str,
        watchers: TopicWatchers,
        wake: Callable[[TopicName], None],
        ownership: Ownership,
    ) -> None:
        """`wake` sees to it that a scalable topic has a controller."""
        self._ownership = ownership
        self._catalog = catalog
        self._records = records
        self._planner = planner
        self._segments_of = segments_of
        self._legacy = legacy
        self._guard = guard
        self._policies = policies
        self._partitioned = partitioned
        self._store = store
        self._clock = clock
        self._broker_id = broker_id
        self._watchers = watchers
        self._wake = wake
        self._locks = Locks(store, clock=clock)
        self._scope = TaskScope("migrations")
        self._running: set[TopicName] = set()
        self.outcomes: Counter[Outcome] = Counter()
        """Of the migrations that were asked for since the broker started."""
        self._left: set[TopicName] = set()
        """Topics whose migration may have ended with the broker that ran it."""
        self._may_have_missed = False
        """Whether such an end may not have been notified."""
        self._take_over = Reconciler(
            self._scope, "take back", self._recover_abandoned, clock=clock, retried=BrokerError
        )
        self._cancels = (
            store.watch(LOCKS, self._on_lock),
            store.watch_session(self._on_session),
        )
        self._resumed = asyncio.Event()
        """Set unless what an earlier process left is being taken back."""
        self._resumed.set()

    def check_idle(self, name: TopicName) -> None:
        """Raise Conflict for a topic that is being migrated: nothing else may change it."""
        if name.domain is TopicDomain.PERSISTENT and scalable_name(name) in self._running:
            raise _migrating(name)

    async def check_regular(self, topic: TopicName) -> None:
        """Refuse to change what has become a part of a scalable topic, or is about to."""
        self.check_idle(topic)
        await self._guard.check_regular_name(topic)
        may_be_elsewhere = self._ownership.is_shared and topic.domain is TopicDomain.PERSISTENT
        if may_be_elsewhere and await self._store.exists(lock_path(topic)):
            raise _migrating(topic)

    async def rehearse(self, topic: TopicName, *, segments: int | None = None) -> Rehearsal:
        """Say what a migration would do, and what is in its way."""
        return await self._planner.rehearse(regular_name(topic), segments)

    # ------------------------------------------------------------------ acting

    async def run(
        self, topic: TopicName, *, force: bool = False, segments: int | None = None
    ) -> None:
        """Make a topic scalable, with as many segments as partitions, or as fit, or as are asked
        for; or change nothing. A caller that gives up waiting does not stop it.
        """
        request = _Request(regular_name(topic), force, segments)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def body() -> None:
            try:
                await self._migrate(request, done)
            except BrokerError as refusal:
                self._end(topic, done, refusal)
            except asyncio.CancelledError:
                self._end(topic, done, ServiceNotReady("The broker is closing"))
                raise
            # The caller waits for an answer, whatever goes wrong.
            except Exception as bug:
                _log.error("migration failed", error=bug, topic=topic.full)
                self._end(topic, done, _failed(topic, bug))

        if self._catalog.closing:
            raise ServiceNotReady("The broker is closing")
        self._scope.start(body(), f"migrate {topic}")
        await asyncio.shield(done)

    def _end(self, topic: TopicName, done: asyncio.Future[None], failure: BrokerError) -> None:
        """Answer, unless the topic is scalable already: then only the tidying failed."""
        if done.done():
            _log.warning("migration not tidied", topic=topic.full, reason=failure.sentence)
            return
        is_refused = fault_of(failure).status < HTTPStatus.INTERNAL_SERVER_ERROR
        self.outcomes[Outcome.REFUSED if is_refused else Outcome.FAILED] += 1
        done.set_exception(failure)
        done.exception()  # the caller may be gone

    async def _migrate(self, request: _Request, done: asyncio.Future[None]) -> None:
        name, force = request.name, request.force
        topic = scalable_name(name)
        await self._resumed.wait()
        async with self._locked(topic):
            survey, _ = await asyncio.gather(
                self._planner.survey(name, request.segments), self._clean(topic)
            )
            for refusal in find_refusals(survey, force=force):
                raise refusal
            record = await self._planner.plan(survey)
            _log.info(
                "migration begins",
                topic=name.full,
                partitions=survey.partitions,
                segments=survey.segments,
            )
            try:
                prepared = await self._prepare(topic, survey, record)
                await self._flip(topic, survey, record, prepared, force=force)
            except BaseException:
                await self._take_back(topic)
                raise
            _log.info("topic is scalable", topic=topic.full)
            self.outcomes[Outcome.MIGRATED] += 1
            self._running.discard(topic)
            done.set_result(None)
            for each in legacy_names(name, survey.partitions):
                # Consumers of a pattern must forget these.
                self._watchers.on_change(each, exists=False)
            self._wake(topic)
            await self._forget(topic)

    @asynccontextmanager
    async def _locked(self, topic: TopicName) -> AsyncIterator[None]:
        try:
            lock = await self._locks.acquire(lock_path(topic), self._broker_id.encode())
        except LockBusy:
            for refusal in find_refusals(
                await self._planner.survey(regular_name(topic)), force=True
            ):
                raise refusal from None  # it may be scalable, and only to be tidied up
            raise Conflict(f"{regular_name(topic)} is being migrated already") from None
        self._running.add(topic)
        try:
            yield
        finally:
            self._running.discard(topic)
            await lock.release()

    async def _prepare(
        self, topic: TopicName, survey: Survey, record: ScalableTopicMetadata
    ) -> SegmentsSeen:
        """Make the segments for new messages, with all cursors, and note that they are to go."""
        children = tuple(segment.ref for segment in record.layout.active)
        preparation = Preparation(children, self._clock.now_ms())
        path = preparation_path(topic)
        await self._store.put(path, encode_preparation(preparation), expect=ABSENT)
        await self._copy_policies(survey.topic, topic)
        parents = legacy_names(survey.topic, survey.partitions)
        looked = await self._legacy.ask_all(parents, Legacy.look, load=True)
        return await self._advance(topic, record, {}, looked)

    async def _advance(
        self,
        topic: TopicName,
        record: ScalableTopicMetadata,
        seen: SegmentsSeen,
        parents: Sequence[LegacySeen],
        *,
        is_held: bool = False,
    ) -> SegmentsSeen:
        """Go on as far as possible from what was seen: these segments have no other writer."""
        engine = self._engine(topic)
        names = frozenset(name for each in parents for name in each.cursors)
        properties = {name: own for each in parents for name, own in each.cursor_properties.items()}
        while step := decide_preparation(record, seen, names, properties, is_held=is_held):
            await engine.take(step)
            if step.phase is Phase.PUBLISH:
                break
            seen = await engine.see(tuple(segment.ref for segment in record.layout.active))
        return seen

    def _engine(self, topic: TopicName) -> Engine:
        return Engine(
            topic,
            self._segments_of(topic),
            self._records.scaling,
            store=partial(self._records.create, topic),
            forget=partial(self._forget, topic),
            at_once=_MADE_AT_ONCE,
        )

    async def _copy_policies(self, name: TopicName, topic: TopicName) -> None:
        """What holds for the regular topic holds for the scalable one."""
        for is_global in (False, True):
            found = await self._policies.get(name, is_global=is_global)
            if found is not None:
                await self._policies.update(topic, _always(found), is_global=is_global)

    async def _flip(
        self,
        topic: TopicName,
        survey: Survey,
        record: ScalableTopicMetadata,
        prepared: SegmentsSeen,
        *,
        force: bool,
    ) -> None:
        parents = legacy_names(survey.topic, survey.partitions)
        async with self._suspended(parents) as suspension:
            seen = await self._legacy.ask_all(parents, Legacy.look)
            clients = tuple(client for each in seen for client in each.clients)
            found, _ = await asyncio.gather(
                self._planner.survey(survey.topic), self._disconnect_clients(parents)
            )
            again = replace(found, clients=clients)
            for refusal in find_refusals(again, force=force):
                raise refusal
            if again.partitions != survey.partitions:
                raise changed_meanwhile(survey.topic)
            properties = await self._find_properties(survey.topic, seen[0].properties)
            record = replace(record, properties=properties)
            # From here on there is only forward: the topic is scalable.
            await self._advance(topic, record, prepared, seen, is_held=True)
            suspension.is_scalable = True

    async def _find_properties(self, name: TopicName, own: Mapping[str, str]) -> dict[str, str]:
        """`own` are those of a topic without partitions."""
        partitioned = await self._partitioned.get(name)
        found = (partitioned.properties if partitioned else own) or {}
        return {key: value for key, value in found.items() if key not in KEY_HASH_PROPERTIES}

    @asynccontextmanager
    async def _suspended(self, names: Sequence[TopicName]) -> AsyncIterator[_Suspension]:
        """The topics take no writes and let no client attach meanwhile."""
        suspension = _Suspension()
        try:
            await self._legacy.ask_all(names, Legacy.suspend)
            yield suspension
        finally:
            try:
                await self._legacy.ask_all(names, Legacy.resume, suspension.is_scalable)
            except BrokerError as failure:  # its owner does it when the lock of the migration ends
                _log.warning("topic not released", reason=failure.sentence)

    async def _disconnect_clients(self, names: Sequence[TopicName]) -> None:
        try:
            async with self._clock.timeout(_LAST_RECEIPTS_S):
                await self._legacy.ask_all(names, Legacy.disconnect_clients)
        except TimeoutError:
            raise ServiceNotReady("Messages are on their way to disk for too long") from None

    # ------------------------------------------------------------------ after a failure or a crash

    async def resume(self) -> None:
        """Take back what an earlier process had prepared and did not come to use."""
        self._resumed.clear()
        try:
            for topic in await _find_prepared(self._store):
                with suppress(BrokerError):
                    await self._resume(topic)
        finally:
            self._resumed.set()

    async def _resume(self, topic: TopicName) -> None:
        try:
            async with self._locked(topic):
                await self._clean(topic)
        except BrokerError as failure:
            _log.warning("migration not taken back", topic=topic.full, reason=failure.sentence)
            raise

    def _on_lock(self, change: Change) -> None:
        if change.kind is ChangeKind.DELETED and self._ownership.is_shared:
            topic = parse_lock_path(change.path)
            if topic is not None and topic not in self._running:
                self._left.add(topic)
                self._take_over.request()

    def _on_session(self, event: SessionEvent) -> None:
        if event is SessionEvent.RECONNECTED and self._ownership.is_shared:
            self._may_have_missed = True
            self._take_over.request()

    async def _recover_abandoned(self) -> None:
        """The owner of a topic's name takes back what a broker that is gone, or that could not do
        so itself, had prepared.
        """
        if self._may_have_missed:
            self._left.update(await _find_prepared(self._store))
            self._may_have_missed = False
        for topic in tuple(self._left):
            is_left = await self._store.exists(preparation_path(topic))
            # The end of the one that holds the lock will be notified.
            if is_left and not await self._store.exists(lock_path(topic)):
                if not (await self._ownership.owner_of(topic)).is_self:
                    # The owner may be another before it learns of this: look again until it did.
                    self._take_over.request_later()
                    continue
                try:
                    await self._resume(topic)
                except BrokerError as failure:
                    if fault_of(failure).retry:
                        raise
            self._left.discard(topic)

    async def _take_back(self, topic: TopicName) -> None:
        """As far as possible: the next migration, or the next process, begins with it."""
        try:
            await self._clean(topic)
        # What stopped the migration is what its caller is to learn.
        except Exception as failure:
            _log.error("migration not taken back", error=failure, topic=topic.full)

    async def _clean(self, topic: TopicName) -> None:
        """Segments that came to be part of a scalable topic stay; others go."""
        stored = await self._store.get(preparation_path(topic))
        if stored is None:
            return
        preparation = decode_preparation(stored.value)
        held = await self._records.load(topic, refresh=True)
        record = held.value if held else None
        if record is None:
            await self._policies.delete(topic)
        engine = self._engine(topic)
        phase = None
        while phase is not Phase.FORGET:
            seen = await engine.see(preparation.children) if record is None else {}
            step = decide_withdrawal(preparation, record, seen)
            await engine.take(step)
            phase = step.phase

    async def _forget(self, topic: TopicName) -> None:
        try:
            await self._store.delete(preparation_path(topic), expect=ANY_VERSION)
        except RecordNotFound:
            pass

    async def close(self) -> None:
        """What is under way is left where it is, and taken back by the next process."""
        for cancel in self._cancels:
            cancel()
        self._take_over.close()
        await self._scope.close()
        await self._locks.close()


async def _find_prepared(store: MetadataStore) -> list[TopicName]:
    return [
        TopicName(TopicDomain.TOPIC, NamespaceName(tenant, local), decode_local(component))
        for tenant in await store.children(PREPARATIONS)
        for local in await store.children(f"{PREPARATIONS}/{tenant}")
        for component in await store.children(preparations_path(NamespaceName(tenant, local)))
    ]


def _migrating(topic: TopicName) -> Conflict:
    return Conflict(f"{topic.base} is being migrated to a scalable topic")


def _failed(topic: TopicName, bug: Exception) -> MigrationFailed:
    return MigrationFailed(
        f"The migration of {regular_name(topic)} stopped at an unexpected {type(bug).__name__};"
        " the broker's log has the details. What was begun is taken back before the next attempt"
    )


def _always(policies: TopicPolicies) -> Callable[[TopicPolicies], TopicPolicies]:
    return lambda _: policies

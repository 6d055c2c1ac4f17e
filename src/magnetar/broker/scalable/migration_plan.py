"""Migration plan: a survey of a regular topic, and the layout that it would get."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from magnetar.broker.catalog import TopicCatalog
from magnetar.broker.persistent import PersistentTopic
from magnetar.broker.policy import PolicyService
from magnetar.broker.resource import Resources
from magnetar.broker.scalable.guard import Guard
from magnetar.broker.scalable.key_hash import KeyHashes
from magnetar.broker.scalable.legacy_client import find_classic_clients
from magnetar.broker.scalable.record import ScalableRecords
from magnetar.broker.scalable.segment import in_turns, together
from magnetar.broker.scalable.size import LayoutSize
from magnetar.broker.subscription import Subscription
from magnetar.broker.subscription_stats import backlog_bytes
from magnetar.errors import Conflict
from magnetar.model.migration import Backlog, ClassicClient, Rehearsal, legacy_names
from magnetar.model.name import TopicName
from magnetar.model.scalable import ScalableTopicMetadata
from magnetar.model.segment import scalable_name
from magnetar.rules.migrate import (
    Survey,
    estimate_backlog,
    find_fitting,
    find_notes,
    find_refusals,
    plan_migration,
)
from magnetar.rules.system import is_system_topic
from magnetar.runtime.clock import Clock
from magnetar.runtime.configuration import Configuration
from magnetar.runtime.worker import run_in_thread

_MANY: Final = 500
"""Partitions whose layout takes longer to make than others should wait."""


class MigrationPlanner:
    def __init__(
        self,
        catalog: TopicCatalog,
        records: ScalableRecords,
        resources: Resources,
        policies: PolicyService,
        *,
        guard: Guard,
        keys: KeyHashes,
        size: LayoutSize,
        config: Configuration,
        clock: Clock,
        cluster: str,
    ) -> None:
        self._catalog = catalog
        self._records = records
        self._resources = resources
        self._policies = policies
        self._guard = guard
        self._keys = keys
        self._size = size
        self._config = config
        self._clock = clock
        self._cluster = cluster

    async def rehearse(self, name: TopicName, wanted: int | None) -> Rehearsal:
        survey = await self.survey(name, wanted)
        is_regular = survey.exists and survey.record is None
        fits = 1 <= survey.segments <= survey.fitting
        record = await self.plan(survey) if is_regular and fits else None
        parents = await self.load(survey) if is_regular else ()
        made = () if record is None else record.layout.segments
        return Rehearsal(
            name,
            scalable_name(name),
            survey.partitions,
            tuple(refusal.sentence for refusal in find_refusals(survey)),
            survey.clients,
            survey.segments,
            find_notes(survey, await self._keys.load_evidence(name, survey.partitions)),
            {each.name_in(scalable_name(name)).full: each.state.value for each in made},
            _estimate_backlogs(parents),
        )

    async def survey(self, name: TopicName, wanted: int | None = None) -> Survey:
        partitioned = await self._resources.partitioned.get(name)
        partitions = 0 if partitioned is None else partitioned.partitions
        held = await self._records.load(name, refresh=True)
        config = self._config
        return Survey(
            name,
            exists=bool(partitions) or await self._catalog.topic_exists(name),
            partitions=partitions,
            wanted=wanted,
            fitting=find_fitting(lambda count: self._size.fits_migrated(name, partitions, count)),
            record=None if held is None else held.value,
            clients=await self.find_clients(legacy_names(name, partitions)),
            is_enabled=config.enableScalableTopicMigration and config.scalableTopicsEnabled,
            is_system=is_system_topic(name),
            replicated_to=await self._find_replicas(name),
        )

    async def find_clients(self, names: Sequence[TopicName]) -> tuple[ClassicClient, ...]:
        found: list[ClassicClient] = []
        async for name in in_turns(names):
            live = self._catalog.topics.get(name.full)
            if isinstance(live, PersistentTopic):
                found += find_classic_clients(self._guard, live)
        return tuple(found)

    async def _find_replicas(self, name: TopicName) -> tuple[str, ...]:
        namespace = await self._resources.namespaces.get(name.namespace)
        clusters = set(() if namespace is None else namespace.replication_clusters)
        clusters |= set((await self._policies.get_merged(name)).replicationClusters or ())
        return tuple(sorted(clusters - {self._cluster}))

    async def load(self, survey: Survey) -> Sequence[PersistentTopic]:
        """The topics that hold the messages; a partition that was never made is made."""
        names = legacy_names(survey.topic, survey.partitions)
        absent = [each async for each in in_turns(names) if not self._is_live(each)]
        await together(self._catalog.load_topic(each, create=each.is_partition) for each in absent)
        topics = [self._catalog.topics.get(each.full) async for each in in_turns(names)]
        live = [each for each in topics if isinstance(each, PersistentTopic)]
        if len(live) < len(names):
            raise changed_meanwhile(survey.topic)  # unloaded again already
        return live

    def _is_live(self, name: TopicName) -> bool:
        topic = self._catalog.topics.get(name.full)
        return topic is not None and not topic.closed

    async def plan(self, survey: Survey) -> ScalableTopicMetadata:
        """The record to be written. Of thousands of partitions it is made beside the loop."""
        now_ms, budget = self._clock.now_ms(), self._config.scalableTopicEntryBucketBudget

        def plan() -> ScalableTopicMetadata:
            record = plan_migration(
                survey.topic,
                survey.partitions,
                now_ms=now_ms,
                segments=survey.segments,
                bucket_budget=budget,
            )
            self._size.check(scalable_name(survey.topic), record)
            return record

        return plan() if survey.partitions < _MANY else await run_in_thread(plan)


def changed_meanwhile(topic: TopicName) -> Conflict:
    return Conflict(f"{topic} was changed while it was to be migrated")


def _estimate_backlogs(parents: Iterable[PersistentTopic]) -> dict[str, Backlog]:
    """Of each durable subscription, over all partitions; one without consumers reads nothing."""
    found: dict[str, list[Subscription]] = {}
    for parent in parents:
        for each in parent.subscriptions.values():
            if each.durable:
                found.setdefault(each.name, []).append(each)
    return {
        name: estimate_backlog(
            sum(each.backlog for each in here),
            sum(map(backlog_bytes, here)),
            sum(each.rate.count_per_s for each in here if each.consumers),
            sum(each.rate.bytes_per_s for each in here if each.consumers),
        )
        for name, here in found.items()
    }

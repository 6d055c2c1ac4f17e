"""Migration plan: a survey of a regular topic, and the layout that it would get."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from magnetar.broker.catalog import TopicCatalog
from magnetar.broker.policy import PolicyService
from magnetar.broker.resource import Resources
from magnetar.broker.scalable.key_hash import KeyHashes
from magnetar.broker.scalable.legacy_topic import Legacy, LegacyBacklog, LegacyCalls
from magnetar.broker.scalable.record import ScalableRecords
from magnetar.broker.scalable.size import LayoutSize
from magnetar.model.migration import Backlog, ClassicClient, Rehearsal, legacy_names
from magnetar.model.name import TopicName
from magnetar.model.scalable import ScalableTopicMetadata
from magnetar.model.segment import scalable_name
from magnetar.rules.migrate import (
    Survey,
    estimate_backlog,
    find_fitting,
    find_notes,
    plan_migration,
    run_checks,
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
        legacy: LegacyCalls,
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
        self._legacy = legacy
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
        names = legacy_names(name, survey.partitions) if is_regular else ()
        made = () if record is None else record.layout.segments
        return Rehearsal(
            name,
            scalable_name(name),
            survey.partitions,
            {
                each.requirement: "" if each.refusal is None else each.refusal.sentence
                for each in run_checks(survey)
            },
            survey.clients,
            survey.segments,
            find_notes(survey, await self._keys.load_evidence(name, survey.partitions)),
            {each.name_in(scalable_name(name)).full: each.state.value for each in made},
            _estimate_backlogs(await self._legacy.ask_all(names, Legacy.backlogs)),
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
        seen = await self._legacy.ask_all(names, Legacy.look)
        return tuple(client for each in seen for client in each.clients)

    async def _find_replicas(self, name: TopicName) -> tuple[str, ...]:
        namespace = await self._resources.namespaces.get(name.namespace)
        clusters = set(() if namespace is None else namespace.replication_clusters)
        clusters |= set((await self._policies.get_merged(name)).replicationClusters or ())
        return tuple(sorted(clusters - {self._cluster}))

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


def _estimate_backlogs(parts: Iterable[Mapping[str, LegacyBacklog]]) -> dict[str, Backlog]:
    """Of each durable subscription, over all partitions; one without consumers reads nothing."""
    found: dict[str, list[LegacyBacklog]] = {}
    for part in parts:
        for name, each in part.items():
            found.setdefault(name, []).append(each)
    return {
        name: estimate_backlog(
            sum(each.entries for each in here),
            sum(each.size_bytes for each in here),
            sum(each.rate_out_per_s for each in here if each.is_read),
            sum(each.bytes_out_per_s for each in here if each.is_read),
        )
        for name, here in found.items()
    }

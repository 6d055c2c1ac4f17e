"""The leader's part in balancing: it asks owners to hand bundles over or to cut them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from magnetar.broker.bundle_boundary import Boundaries
from magnetar.broker.bundle_ownership import BundleOwnership
from magnetar.broker.bundle_record import BundleAction, BundleRequest, owner_path
from magnetar.broker.placement import Placement
from magnetar.metadata.store import MetadataStore
from magnetar.model.load import BrokerReport
from magnetar.rules.bundle import parse_bundle
from magnetar.rules.shedding import (
    Rounds,
    ShedPolicy,
    SplitPolicy,
    count_rounds,
    decide_moves,
    decide_splits,
)
from magnetar.runtime.clock import Clock
from magnetar.runtime.configuration import Configuration
from magnetar.runtime.log import Logger

_MIB: Final = 2**20

_log = Logger(__name__)


class Balancer:
    def __init__(
        self,
        store: MetadataStore,
        ownership: BundleOwnership,
        placement: Placement,
        boundaries: Boundaries,
        *,
        config: Configuration,
        clock: Clock,
    ) -> None:
        self._store = store
        self._ownership = ownership
        self._placement = placement
        self._boundaries = boundaries
        self._config = config
        self._clock = clock
        self._rounds = Rounds()
        self._moved_ms: dict[str, int] | None = None
        """When bundles moved last; None while another broker leads."""

    async def run(self) -> None:
        """One round."""
        config = self._config
        if not self._ownership.is_leader or not config.loadBalancerEnabled:
            self._rounds, self._moved_ms = Rounds(), None
            return
        reports = await self._ownership.directory.reports()
        if self._moved_ms is None:
            self._moved_ms = await self._load_ages(reports)
        shed, split = plan_shedding(config), plan_split(config)
        self._rounds = count_rounds(self._rounds, reports, shed, split)
        if config.loadBalancerSheddingEnabled:
            await self._move(reports, shed)
        if config.loadBalancerAutoBundleSplitEnabled:
            await self._split(reports, split)

    async def _load_ages(self, reports: Mapping[str, BrokerReport]) -> dict[str, int]:
        """What an earlier leader moved is not known: since when each bundle has its owner is."""
        ages = {}
        for name in (each for report in reports.values() for each in report.bundles):
            record = await self._store.get(owner_path(parse_bundle(name)))
            if record is not None:
                ages[name] = record.stat.created_ms
        return ages

    async def _move(self, reports: Mapping[str, BrokerReport], policy: ShedPolicy) -> None:
        assert self._moved_ms is not None, "set in each round"
        namespaces = {
            parse_bundle(bundle).namespace
            for report in reports.values()
            for bundle in report.lastStats
        }
        allowed = {
            each: await self._placement.find_allowed(each, reports)
            for each in sorted(namespaces, key=str)
        }
        now_ms = self._clock.now_ms()
        for move in decide_moves(
            reports,
            self._rounds,
            policy,
            moved_ms=self._moved_ms,
            allowed=lambda bundle: allowed[parse_bundle(bundle).namespace],
            now_ms=now_ms,
        ):
            _log.info("bundle moves", bundle=move.bundle, source=move.source, to=move.destination)
            self._moved_ms[move.bundle] = now_ms
            request = BundleRequest(action=BundleAction.OWN, brokerId=move.destination)
            await self._ownership.requests.put(parse_bundle(move.bundle), request)

    async def _split(self, reports: Mapping[str, BrokerReport], policy: SplitPolicy) -> None:
        counts = {}
        for bundle in self._rounds.large:
            namespace = parse_bundle(bundle).namespace
            boundaries = await self._boundaries(namespace)
            counts[str(namespace)] = 0 if boundaries is None else len(boundaries) - 1
        for bundle in decide_splits(reports, self._rounds, policy, count_bundles=counts):
            _log.info("bundle is split", bundle=bundle)
            await self._ownership.requests.put(
                parse_bundle(bundle), BundleRequest(action=BundleAction.SPLIT)
            )


def plan_shedding(config: Configuration) -> ShedPolicy:
    return ShedPolicy(
        above_average=config.loadBalancerBrokerThresholdShedderPercentage / 100,
        grace_ms=config.loadBalancerSheddingGracePeriodMinutes * 60_000,
        rounds=config.loadBalancerSheddingConditionHitCountThreshold,
    )


def plan_split(config: Configuration) -> SplitPolicy:
    return SplitPolicy(
        topics_max=config.loadBalancerNamespaceBundleMaxTopics,
        sessions_max=config.loadBalancerNamespaceBundleMaxSessions,
        msg_rate_max=config.loadBalancerNamespaceBundleMaxMsgRate,
        bytes_rate_max=config.loadBalancerNamespaceBundleMaxBandwidthMbytes * _MIB,
        bundles_max=config.loadBalancerNamespaceMaximumBundles,
        rounds=config.loadBalancerNamespaceBundleSplitConditionHitCountThreshold,
        splits_max=config.loadBalancerMaxNumberOfBundlesToSplitPerCycle,
    )

"""What this broker tells the others of its load: rates by bundle, processor and memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from magnetar.broker.bundle_ownership import BundleOwnership
from magnetar.broker.catalog import AnyTopic
from magnetar.errors import LockBusy
from magnetar.metadata.lock import Lock
from magnetar.model.document import decode_json
from magnetar.model.load import BrokerReport, BundleStats, ResourceUsage
from magnetar.rules.load import is_worth_reporting
from magnetar.runtime.clock import Clock
from magnetar.runtime.configuration import Configuration
from magnetar.runtime.usage import ProcessUsage

_PROCESSOR_LIMIT: Final = 100.0
"""Percent: messages are handled on one core, however many the machine has."""


class BrokerLoadReporter:
    """Keeps the registration of the broker up to date."""

    def __init__(
        self,
        registration: Lock,
        ownership: BundleOwnership,
        topics: Mapping[str, AnyTopic],
        read_usage: Callable[[], ProcessUsage],
        *,
        config: Configuration,
        clock: Clock,
    ) -> None:
        self._registration = registration
        self._ownership = ownership
        self._topics = topics
        self._read_usage = read_usage
        self._config = config
        self._clock = clock
        self._reported = decode_json(registration.value, BrokerReport)
        self._processor_s = read_usage().processor_s
        self._measured_at = clock.monotonic()
        self._processor = 0.0

    async def report(self) -> None:
        """Write what changed, if it is worth it."""
        report = self.measure()
        if is_worth_reporting(
            self._reported,
            report,
            threshold=self._config.loadBalancerReportUpdateThresholdPercentage / 100,
            age_ms_max=self._config.loadBalancerReportUpdateMaxIntervalMinutes * 60_000,
        ):
            try:
                await self._registration.update(msgspec.json.encode(report))
            except LockBusy:
                return  # released, or lost to a broker at the same address
            self._reported = report

    def measure(self) -> BrokerReport:
        usage = self._read_usage()
        processor = self._measure_processor(usage)
        bundles = tuple(sorted(map(str, self._ownership.bundles)))
        stats = self._measure_bundles()
        report = replace(
            self._reported,
            cpu=ResourceUsage(usage=processor, limit=_PROCESSOR_LIMIT),
            memory=ResourceUsage(usage=usage.memory_mib, limit=usage.memory_limit_mib),
            msgRateIn=sum(each.msgRateIn for each in stats.values()),
            msgRateOut=sum(each.msgRateOut for each in stats.values()),
            msgThroughputIn=sum(each.msgThroughputIn for each in stats.values()),
            msgThroughputOut=sum(each.msgThroughputOut for each in stats.values()),
            numTopics=len(self._topics),
            numBundles=len(bundles),
            numConsumers=sum(each.consumerCount for each in stats.values()),
            numProducers=sum(each.producerCount for each in stats.values()),
            bundles=bundles,
            lastStats=stats,
            lastBundleGains=tuple(sorted({*bundles} - {*self._reported.bundles})),
            lastBundleLosses=tuple(sorted({*self._reported.bundles} - {*bundles})),
            lastUpdate=self._clock.now_ms(),
        )
        return replace(report, maxResourceUsage=report.usage)

    def _measure_processor(self, usage: ProcessUsage) -> float:
        """Percent of one core since the last time."""
        now = self._clock.monotonic()
        seconds = now - self._measured_at
        if seconds > 0:
            self._processor = 100 * (usage.processor_s - self._processor_s) / seconds
            self._processor_s, self._measured_at = usage.processor_s, now
        return self._processor

    def _measure_bundles(self) -> dict[str, BundleStats]:
        bundles = self._ownership.bundles
        found: dict[str, BundleStats] = {}
        for topic in list(self._topics.values()):
            bundle = next((each for each in bundles if each.holds(topic.name)), None)
            if bundle is None or topic.closed:
                continue
            known = found.get(str(bundle), BundleStats())
            rates = [each.rate for each in topic.subscriptions.values()]
            consumers = sum(each.consumer_count for each in topic.subscriptions.values())
            found[str(bundle)] = BundleStats(
                msgRateIn=known.msgRateIn + topic.rate_in.count_per_s,
                msgThroughputIn=known.msgThroughputIn + topic.rate_in.bytes_per_s,
                msgRateOut=known.msgRateOut + sum(each.count_per_s for each in rates),
                msgThroughputOut=known.msgThroughputOut + sum(each.bytes_per_s for each in rates),
                consumerCount=known.consumerCount + consumers,
                producerCount=known.producerCount + len(topic.producers),
                topics=known.topics + 1,
            )
        return found

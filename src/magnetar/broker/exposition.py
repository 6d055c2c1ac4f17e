"""The broker's numbers as Prometheus text, under the names Pulsar's dashboards ask for."""

from __future__ import annotations

import os
import resource
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, Protocol

from magnetar import __version__
from magnetar.broker import port
from magnetar.broker.catalog import AnyTopic
from magnetar.broker.metric_meaning import MEANINGS
from magnetar.broker.persistent import PersistentTopic
from magnetar.broker.scalable.migration import Outcome
from magnetar.broker.scalable.service import ScalableService
from magnetar.broker.stats import topic_stats
from magnetar.broker.transaction.service import TransactionService
from magnetar.ledger.store import LedgerStore
from magnetar.rules.transaction.coordinator import LATENCIES_MS
from magnetar.rules.transaction.pending_ack import AckCounts
from magnetar.runtime.configuration import Configuration
from magnetar.runtime.metric import MetricKind, MetricText, format_labels
from magnetar.runtime.task import yield_to_loop

_GAUGES: Final[Mapping[str, str]] = {
    "pulsar_rate_in": "msgRateIn",
    "pulsar_rate_out": "msgRateOut",
    "pulsar_throughput_in": "msgThroughputIn",
    "pulsar_throughput_out": "msgThroughputOut",
    "pulsar_average_msg_size": "averageMsgSize",
    "pulsar_storage_size": "storageSize",
    "pulsar_storage_logical_size": "storageSize",
    "pulsar_storage_backlog_size": "backlogSize",
    "pulsar_storage_offloaded_size": "offloadedStorageSize",
    "pulsar_storage_backlog_quota_limit": "backlogQuotaLimitSize",
    "pulsar_storage_backlog_quota_limit_time": "backlogQuotaLimitTime",
}
_COUNTERS: Final[Mapping[str, str]] = {
    "pulsar_in_messages_total": "msgInCounter",
    "pulsar_in_bytes_total": "bytesInCounter",
    "pulsar_out_messages_total": "msgOutCounter",
    "pulsar_out_bytes_total": "bytesOutCounter",
    "pulsar_publish_rate_limit_times": "publishRateLimitedTimes",
}
_SUBSCRIPTION_GAUGES: Final[Mapping[str, str]] = {
    "pulsar_subscription_back_log": "msgBacklog",
    "pulsar_subscription_back_log_no_delayed": "msgBacklogNoDelayed",
    "pulsar_subscription_delayed": "msgDelayed",
    "pulsar_subscription_unacked_messages": "unackedMessages",
    "pulsar_subscription_blocked_on_unacked_messages": "blockedSubscriptionOnUnackedMsgs",
    "pulsar_subscription_msg_rate_out": "msgRateOut",
    "pulsar_subscription_msg_throughput_out": "msgThroughputOut",
    "pulsar_subscription_msg_rate_redeliver": "msgRateRedeliver",
    "pulsar_subscription_msg_rate_expired": "msgRateExpired",
    "pulsar_subscription_msg_ack_rate": "messageAckRate",
    "pulsar_subscription_last_acked_timestamp": "lastAckedTimestamp",
    "pulsar_subscription_last_consumed_timestamp": "lastConsumedTimestamp",
    "pulsar_subscription_last_expire_timestamp": "lastExpireTimestamp",
    "pulsar_subscription_last_mark_delete_advanced_timestamp": "lastMarkDeleteAdvancedTimestamp",
}
_CONSUMER_GAUGES: Final[Mapping[str, str]] = {
    "pulsar_consumer_msg_rate_out": "msgRateOut",
    "pulsar_consumer_msg_throughput_out": "msgThroughputOut",
    "pulsar_consumer_msg_rate_redeliver": "msgRateRedeliver",
    "pulsar_consumer_msg_ack_rate": "messageAckRate",
    "pulsar_consumer_unacked_messages": "unackedMessages",
    "pulsar_consumer_blocked_on_unacked_messages": "blockedConsumerOnUnackedMsgs",
    "pulsar_consumer_available_permits": "availablePermits",
}
_PRODUCER_GAUGES: Final[Mapping[str, str]] = {
    "pulsar_producer_msg_rate_in": "msgRateIn",
    "pulsar_producer_msg_throughput_in": "msgThroughputIn",
    "pulsar_producer_msg_average_Size": "averageMsgSize",
}
_ACTIVE_SEGMENTS: Final = "pulsar_scalable_topic_active_segments"
_SCALER_COUNTERS: Final[Mapping[str, str]] = {
    "splits": "pulsar_scalable_topic_auto_splits_total",
    "merges": "pulsar_scalable_topic_auto_merges_total",
    "splits_capped": "pulsar_scalable_topic_split_suppressed_max_segments_total",
    "merges_capped": "pulsar_scalable_topic_merge_suppressed_max_depth_total",
}
# What the broker sums over all its topics.
_BROKER_GAUGES: Final = (
    "pulsar_rate_in",
    "pulsar_rate_out",
    "pulsar_throughput_in",
    "pulsar_throughput_out",
    "pulsar_storage_size",
    "pulsar_storage_logical_size",
    "pulsar_msg_backlog",
    "pulsar_topics_count",
    "pulsar_subscriptions_count",
    "pulsar_producers_count",
    "pulsar_consumers_count",
)
_TOPICS_A_TURN: Final = 16
_NOT_SUMMED: Final = frozenset(
    (
        "pulsar_average_msg_size",
        "pulsar_storage_backlog_quota_limit",
        "pulsar_storage_backlog_quota_limit_time",
    )
)


class MetricOwners(
    port.HasBrokerId,
    port.HasCatalog,
    port.HasCluster,
    port.HasConfiguration,
    port.HasLedgers,
    port.HasScalable,
    port.HasStart,
    port.HasTransactions,
    port.HasWatchdog,
    Protocol,
):
    """Port of what is measured of a broker."""


async def render_metrics(owners: MetricOwners) -> str:
    """All of it. Clients are served in between: thousands of topics take a while."""
    text = MetricText(MEANINGS)
    at = {"cluster": owners.cluster}
    of_broker = {**at, "broker": owners.broker_id}
    topics = owners.catalog.topics.values()
    by_topic = owners.config.exposeTopicLevelMetricsInPrometheus
    sums: dict[str, dict[str, float]] = {}
    for number, topic in enumerate(list(topics)):
        if number % _TOPICS_A_TURN == 0:
            await yield_to_loop()
        stats = topic_stats(topic)
        samples = dict(topic_samples(stats))
        namespace = str(topic.name.namespace)
        total = sums.setdefault(namespace, defaultdict(float))
        for name, value in samples.items():
            if name not in _NOT_SUMMED:
                total[name] += value
        total["pulsar_topics_count"] += 1
        if by_topic:
            labels = {**at, "namespace": namespace, "topic": topic.name.full}
            _write(text, format_labels(labels), samples)
            _write_clients(text, owners.config, labels, stats)
    for namespace, total in sums.items():
        labels = {**at, "namespace": namespace}
        shown = {"pulsar_topics_count": total["pulsar_topics_count"]} if by_topic else total
        _write(text, format_labels(labels), shown)
    _write_auto_scale(text, owners.scalable, at, by_topic=by_topic)
    _write_scalable(text, owners.scalable, of_broker)
    _write_broker(text, sums, of_broker)
    _write_ledgers(text, owners.ledgers, topics, of_broker)
    text.add("pulsar_version_info", format_labels({**at, "version": __version__}), 1)
    _write_transactions(text, owners.transactions, topics, at)
    _write_acknowledgements(text, topics, at, by_topic=by_topic)
    owners.watchdog.write(text, of_broker)
    _write_process(text, owners.started_ms, at)
    return text.render()


def topic_samples(stats: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """What is measured of a topic, by the names that Prometheus has for it."""
    subscriptions = stats["subscriptions"].values()
    yield "pulsar_subscriptions_count", len(subscriptions)
    yield "pulsar_producers_count", len(stats["publishers"])
    yield "pulsar_consumers_count", sum(len(each["consumers"]) for each in subscriptions)
    yield "pulsar_msg_backlog", sum(each.get("msgBacklog", 0) for each in subscriptions)
    yield "pulsar_storage_write_rate", stats.get("msgRateIn", 0.0)
    yield "pulsar_storage_read_rate", stats.get("msgRateOut", 0.0)
    for name, key in (*_GAUGES.items(), *_COUNTERS.items()):
        yield name, stats.get(key, 0)


def _write(text: MetricText, labels: str, samples: Mapping[str, float]) -> None:
    for name, value in samples.items():
        kind = MetricKind.COUNTER if name in _COUNTERS else MetricKind.GAUGE
        text.add(name, labels, value, kind=kind)


def _write_clients(
    text: MetricText, config: Configuration, labels: Mapping[str, str], stats: Mapping[str, Any]
) -> None:
    for name, subscription in stats["subscriptions"].items():
        own = {**labels, "subscription": name}
        line = format_labels(own)
        for metric, key in _SUBSCRIPTION_GAUGES.items():
            text.add(metric, line, float(subscription.get(key, 0)))
        text.add("pulsar_subscription_consumers_count", line, len(subscription["consumers"]))
        for metric, key in (
            ("pulsar_out_messages_total", "msgOutCounter"),
            ("pulsar_out_bytes_total", "bytesOutCounter"),
            ("pulsar_subscription_total_msg_expired", "totalMsgExpired"),
        ):
            text.add(metric, line, subscription.get(key, 0), kind=MetricKind.COUNTER)
        if config.exposeConsumerLevelMetricsInPrometheus:
            for consumer in subscription["consumers"]:
                client = format_labels({**own, "consumer_name": consumer["consumerName"]})
                for metric, key in _CONSUMER_GAUGES.items():
                    text.add(metric, client, float(consumer.get(key, 0)))
    if config.exposeProducerLevelMetricsInPrometheus:
        for publisher in stats["publishers"]:
            client = format_labels({**labels, "producer_name": publisher["producerName"]})
            for metric, key in _PRODUCER_GAUGES.items():
                text.add(metric, client, float(publisher.get(key, 0)))


def _write_auto_scale(
    text: MetricText, scalable: ScalableService, at: Mapping[str, str], *, by_topic: bool
) -> None:
    """Of the scalable topics that are controlled here, each or summed by namespace."""
    sums: dict[str, dict[str, float]] = {}
    for topic, (active, tally) in scalable.controllers.tallies().items():
        own = {**at, "namespace": str(topic.namespace)}
        if by_topic:
            own["topic"] = topic.full
        total = sums.setdefault(format_labels(own), defaultdict(float))
        total[_ACTIVE_SEGMENTS] += active
        for key, name in _SCALER_COUNTERS.items():
            total[name] += getattr(tally, key)
    for labels, total in sums.items():
        for name, value in total.items():
            kind = MetricKind.GAUGE if name == _ACTIVE_SEGMENTS else MetricKind.COUNTER
            text.add(name, labels, value, kind=kind)


def _write_scalable(text: MetricText, scalable: ScalableService, at: Mapping[str, str]) -> None:
    labels = format_labels(at)
    for outcome in Outcome:
        own = {**at, "outcome": outcome.value}
        count = scalable.migrations.outcomes[outcome]
        name = "magnetar_migrations_total"
        text.add(name, format_labels(own), count, kind=MetricKind.COUNTER)
    writes = scalable.reporter.writes
    text.add("magnetar_segment_load_writes_total", labels, writes, kind=MetricKind.COUNTER)
    for entry, count in scalable.refusals.counts.items():
        own = {**at, "door": entry}
        name = "magnetar_legacy_client_refusals_total"
        text.add(name, format_labels(own), count, kind=MetricKind.COUNTER)
    recalls = scalable.redeliveries
    text.add("magnetar_segment_recalls_total", labels, recalls, kind=MetricKind.COUNTER)


def _write_broker(
    text: MetricText, sums: Mapping[str, Mapping[str, float]], at: Mapping[str, str]
) -> None:
    labels = format_labels(at)
    for name in _BROKER_GAUGES:
        total = sum(each.get(name, 0) for each in sums.values())
        text.add(name.replace("pulsar_", "pulsar_broker_"), labels, total)


def _write_ledgers(
    text: MetricText, ledgers: LedgerStore, topics: Collection[AnyTopic], at: Mapping[str, str]
) -> None:
    labels = format_labels(at)
    logs = (topic.log for topic in topics if topic.log is not None)
    queued = ledgers.queued_bytes + sum(log.flights.waiting_bytes for log in logs)
    text.add("magnetar_ledger_queued_bytes", labels, queued)
    for node, counts in ledgers.counters().items():
        own = format_labels({**at, "bookie": node}) if node else labels
        for name, count in counts.items():
            text.add(f"magnetar_{name}_total", own, count, kind=MetricKind.COUNTER)


def _write_transactions(
    text: MetricText,
    transactions: TransactionService,
    topics: Collection[AnyTopic],
    at: Mapping[str, str],
) -> None:
    open_bytes = sum(each.buffer.open_bytes for each in topics if isinstance(each, PersistentTopic))
    text.add("magnetar_transaction_open_bytes", format_labels(at), open_bytes)
    for batches in transactions.batches:
        batches.write(text, at)
    for number, live in sorted(transactions.coordinators.items()):
        labels = format_labels({**at, "coordinator_id": str(number)})
        counters, counter = live.counters, MetricKind.COUNTER
        text.add("pulsar_txn_active_count", labels, len(live.state.transactions))
        text.add("pulsar_txn_created_total", labels, counters.created, kind=counter)
        text.add("pulsar_txn_committed_total", labels, counters.committed, kind=counter)
        text.add("pulsar_txn_aborted_total", labels, counters.aborted, kind=counter)
        text.add("pulsar_txn_timeout_total", labels, counters.timed_out, kind=counter)
        appended = live.journal.entries_appended
        text.add("pulsar_txn_append_log_total", labels, appended, kind=counter)
        text.add("pulsar_txn_tb_client_pending_requests", labels, len(live.endings))
        for name, applied in (("commit", counters.commits), ("abort", counters.aborts)):
            client = f"pulsar_txn_tb_client_{name}"
            text.add(f"{client}_failed_total", labels, applied.failed, kind=counter)
            text.add_summary(f"{client}_latency", labels, applied.total_ns, applied.count)
        for limit, count in zip((*LATENCIES_MS, "overflow"), counters.latencies, strict=True):
            text.add(f"pulsar_txn_execution_latency_le_{limit}", labels, count, kind=counter)


def _write_acknowledgements(
    text: MetricText, topics: Collection[AnyTopic], at: Mapping[str, str], *, by_topic: bool
) -> None:
    """Transactions that ended, by the subscriptions on which they acknowledged; an outcome that
    cannot be applied is tried again, so that none is counted as failed.
    """
    sums: dict[str, AckCounts] = defaultdict(AckCounts)
    latencies: dict[str, AckCounts] = defaultdict(AckCounts)
    for topic in topics:
        if not isinstance(topic, PersistentTopic):
            continue
        for subscription, pending in topic.buffer.pending.items():
            own = {**at, "namespace": str(topic.name.namespace)}
            if by_topic:
                own |= {"topic": topic.name.full, "subscription": subscription}
            found = sums[format_labels({**own, "status": "succeed"})]
            found.committed += pending.counts.committed
            found.aborted += pending.counts.aborted
            taken = latencies[format_labels(own)]
            taken.durable += pending.counts.durable
            taken.durable_us += pending.counts.durable_us
    for labels, counts in sums.items():
        counter = MetricKind.COUNTER
        text.add("pulsar_txn_tp_committed_count_total", labels, counts.committed, kind=counter)
        text.add("pulsar_txn_tp_aborted_count_total", labels, counts.aborted, kind=counter)
    for labels, taken in latencies.items():
        name = "pulsar_txn_tp_commit_latency"
        text.add_summary(name, labels, taken.durable_us, taken.durable)


def _write_process(text: MetricText, started_ms: int, at: Mapping[str, str]) -> None:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    labels = format_labels(at)
    seconds = usage.ru_utime + usage.ru_stime
    text.add("process_cpu_seconds_total", labels, seconds, kind=MetricKind.COUNTER)
    text.add("process_start_time_seconds", labels, started_ms / 1000)
    resident = resident_bytes(usage)
    text.add("process_resident_memory_bytes", labels, resident)
    heap = format_labels({**at, "area": "heap"})
    text.add("jvm_memory_bytes_used", heap, resident)


def resident_bytes(usage: resource.struct_rusage) -> int:
    """Memory in use now where the system tells it, else the most there ever was."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return usage.ru_maxrss * 1024

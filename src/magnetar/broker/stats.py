"""The numbers of a topic as JSON, in the spelling that Pulsar's tools read.

Nothing here waits: what could only be known by reading the log is what the upkeep noted last.
"""

from __future__ import annotations

from magnetar.broker.compaction import Compactor
from magnetar.broker.internal_stats import persistent_internal_stats, transient_internal_stats
from magnetar.broker.lag import count_lag, measure_lag
from magnetar.broker.nonpersistent import NonPersistentTopic
from magnetar.broker.persistent import PersistentTopic
from magnetar.broker.producer import Producer
from magnetar.broker.subscription import Subscription
from magnetar.broker.subscription_stats import (
    backlog_bytes,
    earliest_publish_ms,
    format_instant,
    subscription_stats,
    transient_subscription_stats,
)
from magnetar.broker.topic import Topic
from magnetar.model.answer.log import LogStats
from magnetar.model.answer.topic import (
    CompactionStats,
    PublisherStats,
    SubscriptionStats,
    TopicStats,
)


def topic_stats(
    topic: PersistentTopic | NonPersistentTopic,
    *,
    precise_backlog: bool = False,
    backlog_size: bool = True,
    earliest_time: bool = False,
    exclude_publishers: bool = False,
    exclude_consumers: bool = False,
    lag: bool = False,
) -> TopicStats:
    """`lag` adds how many messages are not acknowledged. `precise_backlog` makes no difference: a
    cursor always knows how many entries are left. A topic that keeps nothing has no backlog, so the
    options about it change nothing there.
    """
    if isinstance(topic, NonPersistentTopic):
        return _transient_stats(
            topic, exclude_publishers=exclude_publishers, exclude_consumers=exclude_consumers
        )
    return _persistent_stats(
        topic,
        backlog_size=backlog_size,
        earliest_time=earliest_time,
        exclude_publishers=exclude_publishers,
        exclude_consumers=exclude_consumers,
        lag=lag,
    )


async def count_stats(topic: PersistentTopic | NonPersistentTopic, **options: bool) -> TopicStats:
    """The same with the lag of each subscription, which may take a read."""
    if isinstance(topic, PersistentTopic):
        for each in list(topic.subscriptions.values()):
            await count_lag(each)
    return topic_stats(topic, lag=True, **options)


def topic_internal_stats(topic: PersistentTopic | NonPersistentTopic) -> LogStats:
    if isinstance(topic, NonPersistentTopic):
        return transient_internal_stats(topic)
    return persistent_internal_stats(topic)


def _persistent_stats(
    topic: PersistentTopic,
    *,
    backlog_size: bool,
    earliest_time: bool,
    exclude_publishers: bool,
    exclude_consumers: bool,
    lag: bool,
) -> TopicStats:
    live, entries = list(topic.subscriptions.values()), topic.log.entries_added
    messages_per_entry = round(topic.rate_in.count / entries) if entries else 1
    subscriptions = {
        each.name: subscription_stats(
            each,
            messages_per_entry=messages_per_entry,
            backlog_size=backlog_size,
            earliest_time=earliest_time,
            exclude_consumers=exclude_consumers,
            lag=measure_lag(each) if lag else None,
        )
        for each in live
    }
    removed = topic.subscriptions.removed_rate_out
    stats = _common_stats(topic, subscriptions, exclude_publishers=exclude_publishers)
    stats["bytesOutCounter"] += removed.bytes
    stats["msgOutCounter"] += removed.count
    stats |= {
        "storageSize": topic.log.sequence.total_bytes,
        "backlogSize": largest_backlog_bytes(topic),
        "backlogQuotaLimitSize": topic.policy.backlog_size.limit,
        "backlogQuotaLimitTime": topic.policy.backlog_age.limit,
        "deduplicationStatus": "Disabled" if topic.dedup is None else "Enabled",
        "compaction": _compaction_stats(topic.compactor),
        "ongoingTxnCount": len(topic.buffer.open),
        "abortedTxnCount": topic.buffer.counts.aborted,
        "committedTxnCount": topic.buffer.counts.committed,
    }
    if earliest_time:
        times = [earliest_publish_ms(each) for each in live]
        stats["earliestMsgPublishTimeInBacklogs"] = min((t for t in times if t > 0), default=0)
    _add_oldest(stats, topic, live)
    if topic.producers.epoch is not None:
        stats["topicEpoch"] = topic.producers.epoch
    return stats


def _transient_stats(
    topic: NonPersistentTopic, *, exclude_publishers: bool, exclude_consumers: bool
) -> TopicStats:
    subscriptions = {
        each.name: transient_subscription_stats(each, exclude_consumers=exclude_consumers)
        for each in topic.subscriptions.values()
    }
    removed = topic.subscriptions.removed_rate_out
    stats = _common_stats(topic, subscriptions, exclude_publishers=exclude_publishers)
    stats["bytesOutCounter"] += removed.bytes
    stats["msgOutCounter"] += removed.count
    for publisher in stats["publishers"]:
        publisher["msgDropRate"] = 0.0
    return stats | {"msgDropRate": topic.dropped.count_per_s}


def largest_backlog_bytes(topic: PersistentTopic) -> int:
    """The backlog of the slowest durable subscription: what the topic cannot let go."""
    durable = (each for each in topic.subscriptions.values() if each.durable)
    return max((backlog_bytes(each) for each in durable), default=0)


def _common_stats(
    topic: Topic, subscriptions: dict[str, SubscriptionStats], *, exclude_publishers: bool
) -> TopicStats:
    subscription_stats = subscriptions.values()
    return {
        "msgRateIn": topic.rate_in.count_per_s,
        "msgThroughputIn": topic.rate_in.bytes_per_s,
        "msgRateOut": sum((each["msgRateOut"] for each in subscription_stats), 0.0),
        "msgThroughputOut": sum((each["msgThroughputOut"] for each in subscription_stats), 0.0),
        "bytesInCounter": topic.rate_in.bytes,
        "msgInCounter": topic.rate_in.count,
        "systemTopicBytesInCounter": 0,
        "bytesOutCounter": sum(each["bytesOutCounter"] for each in subscription_stats),
        "msgOutCounter": sum(each["msgOutCounter"] for each in subscription_stats),
        "bytesOutInternalCounter": 0,
        "averageMsgSize": topic.rate_in.average_size,
        "msgChunkPublished": topic.chunks_in.count > 0,
        "storageSize": 0,
        "backlogSize": 0,
        "backlogQuotaLimitSize": 0,
        "backlogQuotaLimitTime": 0,
        "oldestBacklogMessageAgeSeconds": 0,
        "publishRateLimitedTimes": topic.throttle.limited_times,
        "earliestMsgPublishTimeInBacklogs": 0,
        "offloadedStorageSize": 0,
        "lastOffloadLedgerId": 0,
        "lastOffloadSuccessTimeStamp": 0,
        "lastOffloadFailureTimeStamp": 0,
        "ongoingTxnCount": 0,
        "abortedTxnCount": 0,
        "committedTxnCount": 0,
        "publishers": [] if exclude_publishers else [_publisher(p) for p in topic.producers],
        "waitingPublishers": topic.producers.waiting_count,
        "subscriptions": subscriptions,
        "replication": {},
        "nonContiguousDeletedMessagesRanges": sum(
            each["nonContiguousDeletedMessagesRanges"] for each in subscription_stats
        ),
        "nonContiguousDeletedMessagesRangesSerializedSize": 0,
        "delayedMessageIndexSizeInBytes": 0,
        "compaction": _compaction_stats(None),
        "ownerBroker": topic.host.broker_id,
        "topicCreationTimeStamp": topic.created_ms,
        "lastPublishTimeStamp": topic.last_publish_ms,
    }


def _publisher(producer: Producer) -> PublisherStats:
    return {
        "accessMode": producer.access_mode.label,
        "msgRateIn": producer.rate.count_per_s,
        "msgThroughputIn": producer.rate.bytes_per_s,
        "averageMsgSize": producer.rate.average_size,
        "chunkedMessageRate": producer.chunk_rate.count_per_s,
        "producerId": producer.id,
        "supportsPartialProducer": False,
        "producerName": producer.name,
        "address": producer.connection.address,
        "connectedSince": format_instant(producer.connected_since_ms),
        "clientVersion": producer.connection.client_version,
        "metadata": dict(producer.metadata),
    }


def _compaction_stats(compactor: Compactor | None) -> CompactionStats:
    return {
        "lastCompactionRemovedEventCount": 0 if compactor is None else compactor.removed_count,
        "lastCompactionSucceedTimestamp": 0 if compactor is None else compactor.succeeded_ms,
        "lastCompactionFailedTimestamp": 0 if compactor is None else compactor.failed_ms,
        "lastCompactionDurationTimeInMills": 0 if compactor is None else compactor.duration_ms,
    }


def _add_oldest(stats: TopicStats, topic: PersistentTopic, live: list[Subscription]) -> None:
    """The age of the oldest message a durable subscription has left, as noted last."""
    noted = [
        (each.oldest[1], each.name)
        for each in live
        if each.durable and each.backlog and each.oldest is not None
    ]
    stats["oldestBacklogMessageAgeSeconds"] = -1
    if noted:
        published_ms, name = min(noted)
        age_ms = max(0, topic.host.clock.now_ms() - published_ms)
        stats["oldestBacklogMessageAgeSeconds"] = age_ms // 1000
        stats["oldestBacklogMessageSubscriptionName"] = name

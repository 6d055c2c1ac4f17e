"""The numbers of a subscription and its consumers as JSON, as Pulsar's tools read them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from magnetar.broker.consumer import Consumer
from magnetar.broker.lag import Lag
from magnetar.broker.nonpersistent import TransientSubscription
from magnetar.broker.subscription import Subscription
from magnetar.errors import ProtocolViolation
from magnetar.model.answer.topic import SubscriptionStats, TopicConsumerStats
from magnetar.model.position import LATEST
from magnetar.rules.dispatch.keyshared import KeyShared
from magnetar.rules.dispatch.shared import Shared
from magnetar.runtime.rate import Rate
from magnetar.wire.entry import publish_time_of

_NO_TYPE: Final = "None"
_UNKNOWN_TIME: Final = -1


def format_instant(time_ms: int) -> str:
    """A moment as ISO 8601 in UTC, with a fraction only where there is one."""
    moment = datetime.fromtimestamp(time_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    fraction = time_ms % 1000
    return f"{moment}.{fraction:03d}Z" if fraction else f"{moment}Z"


def subscription_stats(
    subscription: Subscription,
    *,
    messages_per_entry: int,
    backlog_size: bool,
    earliest_time: bool,
    exclude_consumers: bool,
    lag: Lag | None,
) -> SubscriptionStats:
    """A subscription of a persistent topic; `messages_per_entry` counts what was published to it
    since it was loaded. The lag is a number of our own, beside the backlog in entries.
    """
    subscription.note_mark()
    machine = None if subscription.dispatcher is None else subscription.dispatcher.machine
    stats = _common_stats(subscription.rate, subscription.consumers)
    stats |= {
        "type": _NO_TYPE if subscription.kind is None else subscription.kind.label,
        "msgBacklog": subscription.backlog,
        "msgBacklogNoDelayed": subscription.backlog,
        "backlogSize": backlog_bytes(subscription) if backlog_size else -1,
        "earliestMsgPublishTimeInBacklog": (
            earliest_publish_ms(subscription) if earliest_time else 0
        ),
        "msgRateExpired": subscription.expiry.rate.count_per_s,
        "msgExpired": subscription.expiry.rate.count,
        "totalMsgExpired": subscription.expiry.rate.count,
        "lastExpireTimestamp": subscription.expiry.last_ms,
        "lastConsumedFlowTimestamp": subscription.last_flow_ms,
        "lastConsumedTimestamp": subscription.last_consumed_ms,
        "lastAckedTimestamp": subscription.last_acked_ms,
        "lastMarkDeleteAdvancedTimestamp": subscription.last_mark_delete_ms,
        "nonContiguousDeletedMessagesRanges": subscription.cursor.range_count,
        "subscriptionProperties": dict(subscription.properties),
        "isDurable": subscription.durable,
        "isReplicated": subscription.replicated,
        "durable": subscription.durable,
        "replicated": subscription.replicated,
    }
    consumers = [_consumer_stats(each, messages_per_entry) for each in subscription.consumers]
    if machine is not None and machine.active is not None:
        stats["activeConsumerName"] = machine.active.name
    if isinstance(machine, Shared):
        stats |= {
            "unackedMessages": machine.unacked,
            "blockedSubscriptionOnUnackedMsgs": machine.blocked,
            "msgDelayed": len(machine.delayed),
            # Without consumers nothing is replayed: the next one reads from the mark again.
            "msgInReplay": len(machine.replay) if consumers else 0,
            "msgBacklogNoDelayed": max(0, subscription.backlog - len(machine.delayed)),
        }
    if isinstance(machine, KeyShared):
        _add_slots(stats, consumers, machine)
    if lag is not None:
        stats |= {"lagMessages": lag.messages, "isLagEstimated": not lag.is_exact}
    stats["consumers"] = [] if exclude_consumers else consumers
    return stats


def transient_subscription_stats(
    subscription: TransientSubscription, *, exclude_consumers: bool
) -> SubscriptionStats:
    """A subscription of a topic that keeps nothing: no backlog, no cursor."""
    stats = _common_stats(subscription.rate, subscription.consumers)
    consumers = [_consumer_stats(each, 1) for each in subscription.consumers]
    return stats | {
        "type": _NO_TYPE if subscription.kind is None else subscription.kind.label,
        "lastConsumedTimestamp": subscription.last_consumed_ms,
        "msgDropRate": subscription.drop_rate.count_per_s,
        "consumers": [] if exclude_consumers else consumers,
    }


def backlog_bytes(subscription: Subscription) -> int:
    """The size of what the subscription's mark has not passed, estimated."""
    if not subscription.backlog:
        return 0
    cursor = subscription.cursor
    return subscription.topic.log.sequence.bytes_between(cursor.first_unacked(), LATEST)


def earliest_publish_ms(subscription: Subscription) -> int:
    """When the first unacknowledged entry was published, -1 when there is none.

    Exact while the entry is in memory, else as noted last.
    """
    if not subscription.backlog:
        return _UNKNOWN_TIME
    run = subscription.topic.log.reader.read_cached(subscription.cursor.first_unacked(), 1, 1)
    if run is not None:
        try:
            return publish_time_of(run.data[0])
        except ProtocolViolation:
            return _UNKNOWN_TIME
    return _UNKNOWN_TIME if subscription.oldest is None else subscription.oldest[1]


def _common_stats(rate: Rate, consumers: Iterable[Consumer]) -> SubscriptionStats:
    """What every subscription has; a persistent one sets some of it to more than nothing."""
    attached = list(consumers)
    return {
        "msgRateOut": rate.count_per_s,
        "msgThroughputOut": rate.bytes_per_s,
        "bytesOutCounter": rate.bytes,
        "msgOutCounter": rate.count,
        "msgRateRedeliver": sum((each.stats.redeliver_rate.count_per_s for each in attached), 0.0),
        "messageAckRate": sum((each.stats.ack_rate.count_per_s for each in attached), 0.0),
        "chunkedMessageRate": 0.0,
        "msgBacklog": 0,
        "backlogSize": 0,
        "earliestMsgPublishTimeInBacklog": 0,
        "msgBacklogNoDelayed": 0,
        "blockedSubscriptionOnUnackedMsgs": False,
        "msgDelayed": 0,
        "msgInReplay": 0,
        "unackedMessages": 0,
        "type": _NO_TYPE,
        "msgRateExpired": 0.0,
        "msgExpired": 0,
        "totalMsgExpired": 0,
        "lastExpireTimestamp": 0,
        "lastConsumedFlowTimestamp": max((each.stats.last_flow_ms for each in attached), default=0),
        "lastConsumedTimestamp": 0,
        "lastAckedTimestamp": 0,
        "lastMarkDeleteAdvancedTimestamp": 0,
        "consumers": [],
        "isDurable": False,
        "isReplicated": False,
        "allowOutOfOrderDelivery": False,
        "consumersAfterMarkDeletePosition": {},
        "drainingHashesCount": 0,
        "drainingHashesClearedTotal": 0,
        "drainingHashesUnackedMessages": 0,
        "nonContiguousDeletedMessagesRanges": 0,
        "nonContiguousDeletedMessagesRangesSerializedSize": 0,
        "delayedMessageIndexSizeInBytes": 0,
        "subscriptionProperties": {},
        # What this broker has no number for: entry filters, limits counted by kind.
        "filterProcessedMsgCount": 0,
        "filterAcceptedMsgCount": 0,
        "filterRejectedMsgCount": 0,
        "filterRescheduledMsgCount": 0,
        "dispatchThrottledMsgEventsBySubscriptionLimit": 0,
        "dispatchThrottledBytesEventsBySubscriptionLimit": 0,
        "dispatchThrottledMsgEventsByTopicLimit": 0,
        "dispatchThrottledBytesEventsByTopicLimit": 0,
        "dispatchThrottledMsgEventsByBrokerLimit": 0,
        "dispatchThrottledBytesEventsByBrokerLimit": 0,
        "durable": False,
        "replicated": False,
    }


def _consumer_stats(consumer: Consumer, messages_per_entry: int) -> TopicConsumerStats:
    member = consumer.member
    held = len(member.pending)
    held_per_entry = round(member.unacked / held if held else messages_per_entry)
    if not consumer.stats.rate.count:
        held_per_entry = 0
    return {
        "msgRateOut": consumer.stats.rate.count_per_s,
        "msgThroughputOut": consumer.stats.rate.bytes_per_s,
        "bytesOutCounter": consumer.stats.rate.bytes,
        "msgOutCounter": consumer.stats.rate.count,
        "msgRateRedeliver": consumer.stats.redeliver_rate.count_per_s,
        "messageAckRate": consumer.stats.ack_rate.count_per_s,
        "chunkedMessageRate": 0.0,
        "consumerName": consumer.name,
        "availablePermits": member.permits,
        "unackedMessages": member.unacked,
        "avgMessagesPerEntry": held_per_entry,
        "blockedConsumerOnUnackedMsgs": member.blocked,
        "drainingHashesCount": 0,
        "drainingHashesClearedTotal": 0,
        "drainingHashesUnackedMessages": 0,
        "address": consumer.connection.address,
        "connectedSince": format_instant(consumer.connected_since_ms),
        "clientVersion": consumer.connection.client_version,
        "lastAckedTimestamp": consumer.stats.last_acked_ms,
        "lastConsumedTimestamp": consumer.stats.last_consumed_ms,
        "firstMessagesSentTimestamp": consumer.stats.first_consumed_ms,
        "lastConsumedFlowTimestamp": consumer.stats.last_flow_ms,
        "firstConsumedFlowTimestamp": consumer.stats.first_flow_ms,
        "metadata": dict(consumer.metadata),
        "lastAckedTime": format_instant(consumer.stats.last_acked_ms),
        "lastConsumedTime": format_instant(consumer.stats.last_consumed_ms),
    }


def _add_slots(
    stats: SubscriptionStats, consumers: Sequence[TopicConsumerStats], machine: KeyShared[Consumer]
) -> None:
    """Who owns which hash ranges, and which hashes drain before they change hands."""
    stats["keySharedMode"] = "STICKY" if machine.is_sticky else "AUTO_SPLIT"
    stats["allowOutOfOrderDelivery"] = not machine.keeps_order
    ranges, draining = machine.ranges(), machine.draining()
    for member, consumer_stats in zip(machine.members, consumers, strict=True):
        slots = draining.get(member.consumer, [])
        consumer_stats["keyHashRangeArrays"] = [
            list(each) for each in ranges.get(member.consumer, [])
        ]
        consumer_stats["drainingHashes"] = [
            {"hash": slot, "unackMsgs": unacked, "blockedAttempts": 0} for slot, unacked in slots
        ]
        consumer_stats["drainingHashesCount"] = len(slots)
        consumer_stats["drainingHashesUnackedMessages"] = sum(unacked for _, unacked in slots)
    for name in ("drainingHashesCount", "drainingHashesUnackedMessages"):
        stats[name] = sum(consumer_stats[name] for consumer_stats in consumers)

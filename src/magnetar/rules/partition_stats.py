"""The stats of a partitioned topic, put together from those of its partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

Stats: TypeAlias = Mapping[str, Any]

# Every other number is a count or a rate and adds up.
_AVERAGES: Final = frozenset(("averageMsgSize", "avgMessagesPerEntry"))
_EARLIEST: Final = frozenset(
    (
        "topicCreationTimeStamp",
        "earliestMsgPublishTimeInBacklogs",
        "earliestMsgPublishTimeInBacklog",
    )
)
_LARGEST: Final = frozenset(
    (
        "lastPublishTimeStamp",
        "lastConsumedTimestamp",
        "lastConsumedFlowTimestamp",
        "lastAckedTimestamp",
        "lastExpireTimestamp",
        "lastMarkDeleteAdvancedTimestamp",
        "lastOffloadLedgerId",
        "lastOffloadSuccessTimeStamp",
        "lastOffloadFailureTimeStamp",
        "lastCompactionSucceedTimestamp",
        "lastCompactionFailedTimestamp",
        "lastCompactionDurationTimeInMills",
        "oldestBacklogMessageAgeSeconds",
        "backlogQuotaLimitSize",
        "backlogQuotaLimitTime",
        "ongoingTxnCount",
        "abortedTxnCount",
        "committedTxnCount",
        "topicEpoch",
        "producerId",
    )
)
# What only one partition has means nothing for all of them.
_OF_ONE_PARTITION: Final = frozenset(
    (
        "deduplicationStatus",
        "ownerBroker",
        "readPositionWhenJoining",
        "keyHashRanges",
        "keyHashRangeArrays",
        "drainingHashes",
        "oldestBacklogMessageSubscriptionName",
    )
)
_NAMED_LISTS: Final = {"publishers": "producerName", "consumers": "consumerName"}


def merge_topic_stats(partitions: Sequence[Stats]) -> dict[str, Any]:
    """Numbers add up; publishers and consumers of one name are one client of all partitions."""
    merged = _merge(partitions)
    oldest = max(
        partitions, key=lambda each: each.get("oldestBacklogMessageAgeSeconds", -1), default={}
    )
    subscription = oldest.get("oldestBacklogMessageSubscriptionName")
    if subscription is not None:
        merged["oldestBacklogMessageSubscriptionName"] = subscription
    return merged


def _merge(parts: Sequence[Stats]) -> dict[str, Any]:
    names = dict.fromkeys(name for part in parts for name in part)
    return {
        name: _merge_field(name, [part[name] for part in parts if name in part])
        for name in names
        if name not in _OF_ONE_PARTITION
    }


def _merge_field(name: str, values: Sequence[Any]) -> Any:
    if name in _NAMED_LISTS:
        key = _NAMED_LISTS[name]
        return [*_merge_groups((each[key], each) for value in values for each in value).values()]
    if name in ("subscriptions", "replication"):
        return _merge_groups(pair for value in values for pair in value.items())
    first = values[0]
    if isinstance(first, bool):
        return any(values)
    if isinstance(first, int | float):
        return _merge_numbers(name, values)
    if isinstance(first, Mapping):
        is_nested = all(isinstance(each, int | float) for each in first.values())
        if first and is_nested:
            return _merge(values)
        return {key: each for value in values for key, each in value.items()}
    return next((value for value in values if value), first)


def _merge_numbers(name: str, values: Sequence[float]) -> float:
    if name in _LARGEST:
        return max(values)
    if name in _EARLIEST:
        return min((value for value in values if value), default=0)
    if name in _AVERAGES:
        known = [value for value in values if value]
        mean = sum(known) / len(known) if known else 0.0
        return mean if name == "averageMsgSize" else round(mean)  # clients read a whole number
    return sum(values)


def _merge_groups(items: Iterable[tuple[str, Stats]]) -> dict[str, dict[str, Any]]:
    groups: dict[str, list[Stats]] = {}
    for name, item in items:
        groups.setdefault(name, []).append(item)
    return {name: _merge(group) for name, group in groups.items()}

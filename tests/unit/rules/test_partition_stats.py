from __future__ import annotations

from typing import Any

from magnetar.rules.partition_stats import merge_topic_stats


def stats(**fields: Any) -> dict[str, Any]:
    return {"publishers": [], "subscriptions": {}, **fields}


def test_counts_and_rates_add_up() -> None:
    merged = merge_topic_stats([stats(msgRateIn=1.5, msgInCounter=2), stats(msgRateIn=2.0)])
    assert merged["msgRateIn"] == 3.5 and merged["msgInCounter"] == 2


def test_times_are_the_first_or_the_last() -> None:
    merged = merge_topic_stats(
        [
            stats(topicCreationTimeStamp=20, lastPublishTimeStamp=0),
            stats(topicCreationTimeStamp=10, lastPublishTimeStamp=30),
            stats(topicCreationTimeStamp=0, lastPublishTimeStamp=5),
        ]
    )
    assert merged["topicCreationTimeStamp"] == 10 and merged["lastPublishTimeStamp"] == 30


def test_an_average_leaves_out_partitions_without_messages() -> None:
    merged = merge_topic_stats([stats(averageMsgSize=10.0), stats(averageMsgSize=0.0)])
    assert merged["averageMsgSize"] == 10.0


def test_clients_of_one_name_are_one() -> None:
    def partition(rate: float) -> dict[str, Any]:
        consumer = {"consumerName": "c", "unackedMessages": 1, "metadata": {"k": "v"}}
        subscription = {"type": "Shared", "msgBacklog": 2, "consumers": [consumer], "durable": True}
        return stats(
            publishers=[{"producerName": "p", "msgRateIn": rate, "clientVersion": "x"}],
            subscriptions={"s": subscription},
        )

    merged = merge_topic_stats([partition(1.0), partition(2.0)])
    assert merged["publishers"] == [{"producerName": "p", "msgRateIn": 3.0, "clientVersion": "x"}]
    subscription = merged["subscriptions"]["s"]
    assert subscription["type"] == "Shared" and subscription["msgBacklog"] == 4
    assert subscription["durable"] is True
    assert subscription["consumers"] == [
        {"consumerName": "c", "unackedMessages": 2, "metadata": {"k": "v"}}
    ]


def test_what_belongs_to_one_partition_is_left_out() -> None:
    merged = merge_topic_stats([stats(ownerBroker="b", deduplicationStatus="Disabled")])
    assert "ownerBroker" not in merged and "deduplicationStatus" not in merged


def test_the_oldest_message_brings_its_subscription_along() -> None:
    merged = merge_topic_stats(
        [
            stats(oldestBacklogMessageAgeSeconds=-1),
            stats(oldestBacklogMessageAgeSeconds=9, oldestBacklogMessageSubscriptionName="s"),
        ]
    )
    assert merged["oldestBacklogMessageAgeSeconds"] == 9
    assert merged["oldestBacklogMessageSubscriptionName"] == "s"


def test_no_partitions_make_empty_stats() -> None:
    assert merge_topic_stats([]) == {}


def test_messages_per_entry_of_partitions_are_a_whole_number() -> None:
    for values in ((0, 0), (1, 2), (3, 0)):
        merged = merge_topic_stats([stats(avgMessagesPerEntry=each) for each in values])
        assert type(merged["avgMessagesPerEntry"]) is int

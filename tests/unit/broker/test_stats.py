from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from magnetar.broker.nonpersistent import NonPersistentTopic
from magnetar.broker.stats import topic_internal_stats, topic_stats
from magnetar.broker.subscription_stats import format_instant
from magnetar.model.name import parse_topic
from magnetar.model.position import EARLIEST, Position
from magnetar.wire.command import CommandSubscribe
from tests.unit.broker.broker_place import Peer, Place, run, until

TOPIC = "persistent://shop/eu/orders"
TRANSIENT = "non-persistent://shop/eu/ticks"
EXCLUSIVE, SHARED, FAILOVER, KEY_SHARED = range(4)

# What Pulsar 5 answers, by the JSON kind of the value.
TOPIC_FIELDS = {
    float: "msgRateIn msgThroughputIn msgRateOut msgThroughputOut averageMsgSize",
    int: """bytesInCounter msgInCounter systemTopicBytesInCounter bytesOutCounter msgOutCounter
        bytesOutInternalCounter storageSize backlogSize backlogQuotaLimitSize backlogQuotaLimitTime
        oldestBacklogMessageAgeSeconds publishRateLimitedTimes earliestMsgPublishTimeInBacklogs
        offloadedStorageSize lastOffloadLedgerId lastOffloadSuccessTimeStamp
        lastOffloadFailureTimeStamp ongoingTxnCount abortedTxnCount committedTxnCount
        waitingPublishers nonContiguousDeletedMessagesRanges
        nonContiguousDeletedMessagesRangesSerializedSize delayedMessageIndexSizeInBytes
        topicCreationTimeStamp lastPublishTimeStamp""",
    bool: "msgChunkPublished",
    list: "publishers",
    dict: "subscriptions replication compaction",
    str: "ownerBroker",
}
PUBLISHER_FIELDS = {
    str: "accessMode producerName address connectedSince clientVersion",
    float: "msgRateIn msgThroughputIn averageMsgSize chunkedMessageRate",
    int: "producerId",
    bool: "supportsPartialProducer",
    dict: "metadata",
}
SUBSCRIPTION_FIELDS = {
    float: """msgRateOut msgThroughputOut msgRateRedeliver messageAckRate chunkedMessageRate
        msgRateExpired""",
    int: """bytesOutCounter msgOutCounter msgBacklog backlogSize earliestMsgPublishTimeInBacklog
        msgBacklogNoDelayed msgDelayed msgInReplay unackedMessages msgExpired totalMsgExpired
        lastExpireTimestamp lastConsumedFlowTimestamp lastConsumedTimestamp lastAckedTimestamp
        lastMarkDeleteAdvancedTimestamp drainingHashesCount drainingHashesClearedTotal
        drainingHashesUnackedMessages nonContiguousDeletedMessagesRanges
        nonContiguousDeletedMessagesRangesSerializedSize delayedMessageIndexSizeInBytes
        filterProcessedMsgCount filterAcceptedMsgCount filterRejectedMsgCount
        filterRescheduledMsgCount dispatchThrottledMsgEventsBySubscriptionLimit
        dispatchThrottledBytesEventsBySubscriptionLimit dispatchThrottledMsgEventsByTopicLimit
        dispatchThrottledBytesEventsByTopicLimit dispatchThrottledMsgEventsByBrokerLimit
        dispatchThrottledBytesEventsByBrokerLimit""",
    bool: """blockedSubscriptionOnUnackedMsgs isDurable isReplicated allowOutOfOrderDelivery durable
        replicated""",
    str: "type",
    list: "consumers",
    dict: "consumersAfterMarkDeletePosition subscriptionProperties",
}
CONSUMER_FIELDS = {
    float: "msgRateOut msgThroughputOut msgRateRedeliver messageAckRate chunkedMessageRate",
    int: """bytesOutCounter msgOutCounter availablePermits unackedMessages avgMessagesPerEntry
        drainingHashesCount drainingHashesClearedTotal drainingHashesUnackedMessages
        lastAckedTimestamp lastConsumedTimestamp firstMessagesSentTimestamp
        lastConsumedFlowTimestamp firstConsumedFlowTimestamp""",
    str: "consumerName address connectedSince clientVersion lastAckedTime lastConsumedTime",
    bool: "blockedConsumerOnUnackedMsgs",
    dict: "metadata",
}
COMPACTION_FIELDS = {
    int: """lastCompactionRemovedEventCount lastCompactionSucceedTimestamp
        lastCompactionFailedTimestamp lastCompactionDurationTimeInMills"""
}
INTERNAL_FIELDS = {
    int: """entriesAddedCounter numberOfEntries totalSize currentLedgerEntries currentLedgerSize
        waitingCursorsCount pendingAddEntriesCount""",
    str: "lastLedgerCreatedTimestamp lastConfirmedEntry state",
    list: "ledgers schemaLedgers",
    dict: "cursors compactedLedger",
}
CURSOR_FIELDS = {
    str: """markDeletePosition readPosition individuallyDeletedMessages lastLedgerSwitchTimestamp
        state""",
    bool: "waitingReadOp active subscriptionHavePendingRead subscriptionHavePendingReplayRead",
    int: """pendingReadOps messagesConsumedCounter cursorLedger cursorLedgerLastEntry
        numberOfEntriesSinceFirstNotAckedMessage totalNonContiguousDeletedMessagesRange""",
    dict: "properties",
}


def kinds(fields: Mapping[type, str], **more: type) -> dict[str, type]:
    return {name: kind for kind, names in fields.items() for name in names.split()} | more


def kinds_of(stats: Mapping[str, Any]) -> dict[str, type]:
    return {name: type(value) for name, value in json.loads(json.dumps(stats)).items()}


async def fill(place: Place) -> Peer:
    """One producer, a consumer of each kind (two share keys), ten messages delivered to each."""
    peer = place.connect()
    await peer.produce(TOPIC)
    for consumer_id, (name, kind) in enumerate(
        (("ex", EXCLUSIVE), ("sh", SHARED), ("fo", FAILOVER), ("ks", KEY_SHARED))
    ):
        await peer.subscribe(TOPIC, name, kind, consumer_id=consumer_id)
    await peer.subscribe(TOPIC, "ks", KEY_SHARED, consumer_id=4)
    await peer.send(10, keys=lambda index: f"key-{index}", publish_time=123)
    await until(lambda: all(len(peer.messages(each)) == 10 for each in (0, 1, 2)))
    await until(lambda: len(peer.messages(3)) + len(peer.messages(4)) == 10)
    return peer


def test_a_persistent_topic_tells_every_field_in_its_kind() -> None:
    async def body(place: Place) -> None:
        await fill(place)
        stats = topic_stats(await place.topic(TOPIC))
        assert kinds_of(stats) == kinds(TOPIC_FIELDS, deduplicationStatus=str)
        assert kinds_of(stats["compaction"]) == kinds(COMPACTION_FIELDS)
        [publisher] = stats["publishers"]
        assert kinds_of(publisher) == kinds(PUBLISHER_FIELDS)
        subscriptions = stats["subscriptions"]
        single = kinds(SUBSCRIPTION_FIELDS, activeConsumerName=str)
        assert kinds_of(subscriptions["ex"]) == single
        assert kinds_of(subscriptions["fo"]) == single
        assert kinds_of(subscriptions["sh"]) == kinds(SUBSCRIPTION_FIELDS)
        assert kinds_of(subscriptions["ks"]) == kinds(SUBSCRIPTION_FIELDS, keySharedMode=str)
        for name in ("ex", "sh", "fo"):
            assert kinds_of(subscriptions[name]["consumers"][0]) == kinds(CONSUMER_FIELDS)
        for consumer in subscriptions["ks"]["consumers"]:
            assert kinds_of(consumer) == kinds(
                CONSUMER_FIELDS, keyHashRangeArrays=list, drainingHashes=list
            )

    run(body)


def test_the_numbers_are_those_of_what_was_published_delivered_and_acknowledged() -> None:
    async def body(place: Place) -> None:
        peer = await fill(place)
        topic = await place.topic(TOPIC)
        ledger_id = topic.log.sequence.last_position.ledger_id
        place.clock.pass_s(3)
        for entry_id in (0, 1, 4):
            peer.ack(1, (ledger_id, entry_id))
        stats = topic_stats(topic)
        size = stats["storageSize"]
        assert (stats["msgInCounter"], stats["bytesInCounter"]) == (10, size)
        assert (stats["msgOutCounter"], stats["bytesOutCounter"]) == (40, 4 * size)
        assert stats["backlogSize"] == size
        assert stats["lastPublishTimeStamp"] == place.clock.now_ms() - 3_000
        assert stats["ownerBroker"] == "localhost:8080"
        assert stats["deduplicationStatus"] == "Disabled"
        shared = stats["subscriptions"]["sh"]
        assert (shared["msgBacklog"], shared["backlogSize"]) == (7, size * 8 // 10)
        assert shared["unackedMessages"] == shared["consumers"][0]["unackedMessages"] == 7
        assert shared["nonContiguousDeletedMessagesRanges"] == 1
        assert stats["nonContiguousDeletedMessagesRanges"] == 1
        assert shared["lastAckedTimestamp"] == place.clock.now_ms()
        assert shared["lastMarkDeleteAdvancedTimestamp"] == place.clock.now_ms()
        assert stats["subscriptions"]["ex"]["lastMarkDeleteAdvancedTimestamp"] == 0
        assert shared["consumers"][0]["availablePermits"] == 90

    run(body)


def test_publishers_and_consumers_say_who_they_are() -> None:
    async def body(place: Place) -> None:
        await fill(place)
        stats = topic_stats(await place.topic(TOPIC))
        since = format_instant(place.clock.now_ms())
        [publisher] = stats["publishers"]
        consumer = stats["subscriptions"]["ex"]["consumers"][0]
        for client in (publisher, consumer):
            assert client["address"] == "/127.0.0.1:5555"
            assert client["clientVersion"] == "Test-1.0"
            assert client["connectedSince"] == since
        assert (publisher["accessMode"], publisher["metadata"]) == ("Shared", {"team": "a"})
        assert (consumer["consumerName"], consumer["metadata"]) == ("ex-0", {"zone": "b"})
        assert consumer["lastAckedTime"] == "1970-01-01T00:00:00Z"
        assert stats["subscriptions"]["fo"]["activeConsumerName"] == "fo-2"
        types = {name: each["type"] for name, each in stats["subscriptions"].items()}
        assert types == {"ex": "Exclusive", "sh": "Shared", "fo": "Failover", "ks": "Key_Shared"}

    run(body)


def test_rates_are_those_of_the_last_window() -> None:
    async def body(place: Place) -> None:
        await fill(place)
        topic = await place.topic(TOPIC)
        place.clock.pass_s(5)
        topic.tick(place.clock.monotonic())
        stats = topic_stats(topic)
        assert stats["msgRateIn"] == stats["publishers"][0]["msgRateIn"] == 2.0
        assert stats["averageMsgSize"] == pytest.approx(stats["storageSize"] / 10)
        assert stats["msgRateOut"] == 8.0
        assert stats["subscriptions"]["ex"]["consumers"][0]["msgRateOut"] == 2.0

    run(body)


def test_key_shared_consumers_tell_their_ranges_and_what_drains() -> None:
    async def body(place: Place) -> None:
        peer = place.connect()
        await peer.produce(TOPIC)
        await peer.subscribe(TOPIC, "ks", KEY_SHARED, consumer_id=1)
        await peer.send(20, keys=lambda index: f"key-{index}")
        await until(lambda: len(peer.messages(1)) == 20)
        topic = await place.topic(TOPIC)
        alone = topic_stats(topic)["subscriptions"]["ks"]
        assert alone["drainingHashesCount"] == 0
        [only] = alone["consumers"]
        assert only["keyHashRangeArrays"] == [[1, 65535]]

        await peer.subscribe(TOPIC, "ks", KEY_SHARED, consumer_id=2)
        shared = topic_stats(topic)["subscriptions"]["ks"]
        assert shared["keySharedMode"] == "AUTO_SPLIT"
        first, second = shared["consumers"]
        owned = sorted(first["keyHashRangeArrays"] + second["keyHashRangeArrays"])
        assert (owned[0][0], owned[-1][1]) == (1, 65535)
        draining = first["drainingHashes"]
        assert draining and second["drainingHashes"] == []
        assert shared["drainingHashesCount"] == first["drainingHashesCount"] == len(draining)
        assert shared["drainingHashesUnackedMessages"] == sum(e["unackMsgs"] for e in draining)
        for each in draining:
            assert any(low <= each["hash"] <= high for low, high in second["keyHashRangeArrays"])

    run(body)


def test_ranges_that_consumers_ask_for_are_told_as_sticky() -> None:
    async def body(place: Place) -> None:
        peer = place.connect()
        request = CommandSubscribe()
        request.keySharedMeta.keySharedMode = 1  # type: ignore[assignment]
        request.keySharedMeta.hashRanges.add(start=0, end=99)
        meta = request.keySharedMeta
        await peer.subscribe(TOPIC, "ks", KEY_SHARED, consumer_id=1, keySharedMeta=meta)
        stats = topic_stats(await place.topic(TOPIC))["subscriptions"]["ks"]
        assert stats["keySharedMode"] == "STICKY"
        assert stats["consumers"][0]["keyHashRangeArrays"] == [[0, 99]]

    run(body)


def test_counters_never_go_back_when_a_subscription_goes() -> None:
    async def body(place: Place) -> None:
        peer = await fill(place)
        topic = await place.topic(TOPIC)
        before = topic_stats(topic)
        await peer.close_consumer(0)
        await topic.subscriptions.delete("ex")
        after = topic_stats(topic)
        assert "ex" not in after["subscriptions"]
        for name in ("msgOutCounter", "bytesOutCounter"):
            assert after[name] == before[name]

    run(body)


def test_what_a_consumer_gives_back_waits_in_replay_while_there_is_a_consumer() -> None:
    async def body(place: Place) -> None:
        peer = place.connect()
        await peer.produce(TOPIC)
        await peer.subscribe(TOPIC, "sh", SHARED, consumer_id=1)
        await peer.send(5)
        await until(lambda: len(peer.messages(1)) == 5)
        await peer.subscribe(TOPIC, "sh", SHARED, consumer_id=2, permits=0)
        await peer.close_consumer(1)
        topic = await place.topic(TOPIC)
        assert topic_stats(topic)["subscriptions"]["sh"]["msgInReplay"] == 5
        assert topic_stats(topic)["subscriptions"]["sh"]["unackedMessages"] == 0
        await peer.close_consumer(2)
        assert topic_stats(topic)["subscriptions"]["sh"]["msgInReplay"] == 0

    run(body)


def test_a_subscription_nobody_ever_used_has_no_type() -> None:
    async def body(place: Place) -> None:
        topic = await place.topic(TOPIC)
        await topic.subscriptions.create("idle", position=EARLIEST, properties={"owner": "me"})
        stats = topic_stats(topic, earliest_time=True)["subscriptions"]["idle"]
        assert stats["type"] == "None"
        assert stats["consumers"] == []
        assert stats["earliestMsgPublishTimeInBacklog"] == -1
        assert stats["subscriptionProperties"] == {"owner": "me"}
        assert (stats["durable"], stats["isDurable"]) == (True, True)

    run(body)


def test_options_leave_out_or_add_what_they_name() -> None:
    async def body(place: Place) -> None:
        await fill(place)
        topic = await place.topic(TOPIC)
        plain = topic_stats(topic)
        assert plain["earliestMsgPublishTimeInBacklogs"] == 0
        assert plain["subscriptions"]["ex"]["earliestMsgPublishTimeInBacklog"] == 0
        asked = topic_stats(topic, earliest_time=True, backlog_size=False)
        assert asked["earliestMsgPublishTimeInBacklogs"] == 123
        assert asked["subscriptions"]["ex"]["earliestMsgPublishTimeInBacklog"] == 123
        assert asked["subscriptions"]["ex"]["backlogSize"] == -1
        bare = topic_stats(topic, exclude_publishers=True, exclude_consumers=True)
        assert bare["publishers"] == []
        assert [each["consumers"] for each in bare["subscriptions"].values()] == [[], [], [], []]
        assert bare["subscriptions"]["sh"]["unackedMessages"] == 10

    run(body)


def test_the_epoch_is_told_once_a_producer_was_alone() -> None:
    async def body(place: Place) -> None:
        peer = place.connect()
        await peer.produce(TOPIC, producer_access_mode=1)
        waiting = place.connect()
        await waiting.produce(TOPIC, producer_access_mode=2)
        stats = topic_stats(await place.topic(TOPIC))
        assert stats["topicEpoch"] == 0
        assert stats["publishers"][0]["accessMode"] == "Exclusive"
        assert stats["waitingPublishers"] == 1

    run(body)


def test_compaction_is_told_when_it_ran() -> None:
    async def body(place: Place) -> None:
        peer = place.connect()
        await peer.produce(TOPIC)
        await peer.send(10, keys=lambda index: f"key-{index % 2}")
        topic = await place.topic(TOPIC)
        await topic.compactor.start()
        await until(lambda: topic.compactor.status()["status"] == "SUCCESS")
        compaction = topic_stats(topic)["compaction"]
        assert compaction["lastCompactionRemovedEventCount"] == 8
        assert compaction["lastCompactionSucceedTimestamp"] == place.clock.now_ms()
        compacted = topic_internal_stats(topic)["compactedLedger"]
        assert compacted["ledgerId"] >= 0
        assert compacted["entries"] == 2
        assert compacted["size"] > 0

    run(body)


def test_internal_stats_tell_every_field_in_its_kind() -> None:
    async def body(place: Place) -> None:
        await fill(place)
        topic = await place.topic(TOPIC)
        stats = topic_internal_stats(topic)
        assert kinds_of(stats) == kinds(INTERNAL_FIELDS)
        for cursor in stats["cursors"].values():
            assert kinds_of(cursor) == kinds(CURSOR_FIELDS)
        ledger = {"entries": 10, "offloaded": False, "underReplicated": False}
        assert stats["ledgers"][0].items() >= ledger.items()
        await topic.set_properties({"team": "a"})
        assert topic_internal_stats(topic)["properties"] == {"team": "a"}

    run(body)


def test_internal_stats_tell_positions_as_the_cursor_has_them() -> None:
    async def body(place: Place) -> None:
        peer = await fill(place)
        topic = await place.topic(TOPIC)
        ledger_id = topic.log.sequence.last_position.ledger_id
        for entry_id in (0, 1, 4, 6, 7):
            peer.ack(1, (ledger_id, entry_id))
        stats = topic_internal_stats(topic)
        assert stats["lastConfirmedEntry"] == f"{ledger_id}:9"
        assert (stats["state"], stats["waitingCursorsCount"]) == ("LedgerOpened", 4)
        cursor = stats["cursors"]["sh"]
        assert cursor["markDeletePosition"] == f"{ledger_id}:1"
        assert cursor["readPosition"] == f"{ledger_id}:10"
        assert cursor["individuallyDeletedMessages"] == (
            f"[({ledger_id}:3..{ledger_id}:4],({ledger_id}:5..{ledger_id}:7]]"
        )
        assert cursor["messagesConsumedCounter"] == 5
        assert cursor["numberOfEntriesSinceFirstNotAckedMessage"] == 9
        assert cursor["active"] and cursor["waitingReadOp"]

    run(body)


def test_a_transient_topic_tells_every_field_in_its_kind() -> None:
    async def body(place: Place) -> None:
        peer = place.connect()
        await peer.produce(TRANSIENT)
        await peer.subscribe(TRANSIENT, "ex", EXCLUSIVE, consumer_id=1, permits=3)
        await peer.send(5)
        topic = await place.service.catalog.load_topic(parse_topic(TRANSIENT))
        assert isinstance(topic, NonPersistentTopic)
        place.clock.pass_s(1)
        topic.tick(place.clock.monotonic())
        stats = topic_stats(topic, earliest_time=True)
        assert kinds_of(stats) == kinds(TOPIC_FIELDS, msgDropRate=float)
        assert kinds_of(stats["publishers"][0]) == kinds(PUBLISHER_FIELDS, msgDropRate=float)
        subscription = stats["subscriptions"]["ex"]
        assert kinds_of(subscription) == kinds(SUBSCRIPTION_FIELDS, msgDropRate=float)
        assert kinds_of(subscription["consumers"][0]) == kinds(CONSUMER_FIELDS)
        assert (stats["msgInCounter"], stats["msgOutCounter"]) == (5, 3)
        assert stats["msgDropRate"] == subscription["msgDropRate"] == 2.0
        internal = topic_internal_stats(topic)
        assert internal["entriesAddedCounter"] == 5
        assert list(internal["cursors"]) == ["ex"]

        await peer.close_consumer(1)
        gone = topic_stats(topic)
        assert gone["subscriptions"] == {}
        assert (gone["msgOutCounter"], gone["bytesOutCounter"]) == (
            stats["msgOutCounter"],
            stats["bytesOutCounter"],
        )

    run(body)


def test_a_backlog_over_several_ledgers_is_sized_ledger_by_ledger() -> None:
    async def body(place: Place) -> None:
        peer = place.connect()
        await peer.produce(TOPIC)
        topic = await place.topic(TOPIC)
        await topic.subscriptions.create("slow", position=EARLIEST)
        await peer.send(4, size=10)
        await topic.log.roll()
        await peer.send(4, size=1_000)
        small, large = topic.log.sequence.describe()
        slow = topic.subscriptions["slow"]
        assert topic_stats(topic)["subscriptions"]["slow"]["backlogSize"] == small.size + large.size
        slow.cursor.acknowledge_through(Position(small.ledger_id, 1))
        assert topic_stats(topic)["backlogSize"] == small.size // 2 + large.size
        slow.cursor.acknowledge_through(Position(large.ledger_id, 0))
        assert topic_stats(topic)["backlogSize"] == large.size * 3 // 4

    run(body)


@pytest.mark.parametrize(
    ("time_ms", "expected"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1_700_000_000_000, "2023-11-14T22:13:20Z"),
        (1_700_000_000_050, "2023-11-14T22:13:20.050Z"),
    ],
)
def test_moments_have_a_fraction_only_where_there_is_one(time_ms: int, expected: str) -> None:
    assert format_instant(time_ms) == expected

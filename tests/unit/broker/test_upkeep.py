from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from magnetar.broker.persistent import PersistentTopic
from magnetar.broker.stats import topic_stats
from magnetar.errors import StorageFailed
from magnetar.model.choice import BacklogAction, BacklogQuotaType, InactiveTopicDeleteMode
from magnetar.model.name import parse_topic
from magnetar.model.policy import BacklogQuota, InactiveTopicPolicies, Policies
from magnetar.model.position import EARLIEST
from magnetar.wire.command import BaseCommand, ServerError
from tests.unit.broker.broker_place import NAMESPACE, Peer, Place, run, until

TOPIC = "persistent://shop/eu/orders"
OTHER = "persistent://shop/eu/others"
TRANSIENT = "non-persistent://shop/eu/ticks"
SHARED = 1


async def set_policies(place: Place, **changes: object) -> None:
    def change(before: Policies) -> Policies:
        return replace(before, **changes)

    await place.service.resources.namespaces.update(NAMESPACE, change)


def quota(kind: BacklogQuotaType, action: BacklogAction, limit: int) -> dict[str, object]:
    limits = BacklogQuota(limitSize=limit, limitTime=limit, policy=action)
    return {"backlog_quota_map": {kind: limits}}


async def fill(place: Place, entries: int = 10) -> tuple[PersistentTopic, Peer]:
    """A topic with a subscription that has read nothing of what was just published."""
    topic = await place.topic(TOPIC)
    await topic.subscriptions.create("slow", position=EARLIEST)
    peer = place.connect()
    await peer.produce(TOPIC)
    await peer.send(entries, size=100, publish_time=place.clock.now_ms())
    return topic, peer


# ---------------------------------------------------------------------- rates


def test_rates_are_measured_between_two_ticks() -> None:
    async def body(place: Place) -> None:
        topic, _ = await fill(place)
        place.clock.pass_s(5)
        await place.service.upkeep.tick()
        assert topic_stats(topic)["msgRateIn"] == 2.0

    run(body)


# ---------------------------------------------------------------------- backlog quotas


@pytest.mark.parametrize(
    ("action", "code"),
    [
        (BacklogAction.PRODUCER_REQUEST_HOLD, ServerError.ProducerBlockedQuotaExceededError),
        (BacklogAction.PRODUCER_EXCEPTION, ServerError.ProducerBlockedQuotaExceededException),
    ],
)
@pytest.mark.parametrize("kind", list(BacklogQuotaType))
def test_producers_are_sent_away_and_kept_out_until_the_backlog_is_gone(
    kind: BacklogQuotaType, action: BacklogAction, code: int
) -> None:
    async def body(place: Place) -> None:
        topic, peer = await fill(place)
        await set_policies(place, **quota(kind, action, 500))
        upkeep = place.service.upkeep
        place.clock.pass_s(501)
        await upkeep.check_backlog_quotas()
        await until(lambda: peer.count(BaseCommand.CLOSE_PRODUCER) == 1)
        refused = await peer.produce(TOPIC, producer_id=2)
        assert refused.error.error == code

        await topic.subscriptions["slow"].skip_all()
        await upkeep.tick()
        welcome = await peer.produce(TOPIC, producer_id=3)
        assert welcome.type == BaseCommand.PRODUCER_SUCCESS

    run(body)


def test_a_backlog_below_its_quota_bothers_nobody() -> None:
    async def body(place: Place) -> None:
        topic, peer = await fill(place)
        size = topic.log.sequence.total_bytes
        await set_policies(
            place,
            **quota(
                BacklogQuotaType.DESTINATION_STORAGE, BacklogAction.PRODUCER_EXCEPTION, size + 1
            ),
        )
        await place.service.upkeep.check_backlog_quotas()
        assert peer.count(BaseCommand.CLOSE_PRODUCER) == 0
        assert len(topic.producers) == 1

    run(body)


def test_eviction_by_size_moves_slow_subscriptions_to_nine_tenths_of_the_limit() -> None:
    async def body(place: Place) -> None:
        topic, peer = await fill(place)
        fast = await topic.subscriptions.create("fast", position=EARLIEST)
        await fast.skip(8)
        size = topic.log.sequence.total_bytes
        action = BacklogAction.CONSUMER_BACKLOG_EVICTION
        await set_policies(place, **quota(BacklogQuotaType.DESTINATION_STORAGE, action, size // 2))
        await place.service.upkeep.check_backlog_quotas()
        assert topic.subscriptions["slow"].backlog == 4
        assert fast.backlog == 2
        assert topic_stats(topic)["backlogSize"] <= size * 45 // 100
        assert peer.count(BaseCommand.CLOSE_PRODUCER) == 0

    run(body)


def test_eviction_by_age_moves_past_messages_that_are_too_old() -> None:
    async def body(place: Place) -> None:
        topic, peer = await fill(place)
        place.clock.pass_s(50)
        await peer.send(3, publish_time=place.clock.now_ms())
        action = BacklogAction.CONSUMER_BACKLOG_EVICTION
        await set_policies(place, **quota(BacklogQuotaType.MESSAGE_AGE, action, 60))
        upkeep = place.service.upkeep
        await upkeep.check_backlog_quotas()
        assert topic.subscriptions["slow"].backlog == 13
        place.clock.pass_s(11)
        await upkeep.check_backlog_quotas()
        assert topic.subscriptions["slow"].backlog == 3

    run(body)


def test_the_age_of_the_oldest_message_is_noted_for_the_stats() -> None:
    async def body(place: Place) -> None:
        topic, _ = await fill(place)
        assert topic_stats(topic)["oldestBacklogMessageAgeSeconds"] == -1
        place.clock.pass_s(7)
        upkeep = place.service.upkeep
        await upkeep.check_backlog_quotas()
        place.clock.pass_s(2)
        stats = topic_stats(topic)
        assert stats["oldestBacklogMessageAgeSeconds"] == 9
        assert stats["oldestBacklogMessageSubscriptionName"] == "slow"
        await topic.subscriptions["slow"].skip_all()
        await upkeep.check_backlog_quotas()
        assert topic_stats(topic)["oldestBacklogMessageAgeSeconds"] == -1

    run(body)


# ---------------------------------------------------------------------- expiry and retention


def test_messages_past_their_time_to_live_expire() -> None:
    async def body(place: Place) -> None:
        topic, peer = await fill(place)
        upkeep = place.service.upkeep
        place.clock.pass_s(30)
        await peer.send(2, publish_time=place.clock.now_ms())
        await upkeep.expire_messages()
        assert topic.subscriptions["slow"].backlog == 12

        await set_policies(place, message_ttl_in_seconds=60)
        place.clock.pass_s(30)
        await upkeep.expire_messages()
        assert topic.subscriptions["slow"].backlog == 12
        place.clock.pass_s(1)
        await upkeep.expire_messages()
        assert topic.subscriptions["slow"].backlog == 2
        stats = topic_stats(topic)["subscriptions"]["slow"]
        assert stats["totalMsgExpired"] == 10
        assert stats["lastExpireTimestamp"] == place.clock.now_ms()

    run(body)


def test_ledgers_that_every_subscription_has_passed_go_soon() -> None:
    async def body(place: Place) -> None:
        topic, peer = await fill(place)
        first = topic.log.sequence.describe()[0].ledger_id
        await topic.log.roll()
        await peer.send(1)
        upkeep = place.service.upkeep
        await upkeep.tick()
        await upkeep.trim()
        assert topic.log.sequence.describe()[0].ledger_id == first
        await topic.subscriptions["slow"].skip(10)
        place.clock.pass_s(1)
        await upkeep.tick()
        assert topic.log.sequence.describe()[0].ledger_id > first

    run(body)


def test_a_ledger_that_is_too_old_is_sealed_and_then_let_go() -> None:
    async def body(place: Place) -> None:
        topic, _ = await fill(place)
        await topic.subscriptions["slow"].skip_all()
        place.clock.pass_s(241 * 60)
        upkeep = place.service.upkeep
        await upkeep.trim()
        place.clock.pass_s(1)
        await upkeep.trim()
        assert topic.log.sequence.total_entries == 0

    run(body)


def test_retention_keeps_what_was_acknowledged() -> None:
    async def body(place: Place) -> None:
        topic, _ = await fill(place)
        await topic.subscriptions["slow"].skip_all()
        await topic.log.roll()
        await place.service.upkeep.trim()
        assert topic.log.sequence.total_entries == 10

    run(body, defaultRetentionTimeInMinutes=10, defaultRetentionSizeInMB=10)


# ---------------------------------------------------------------------- compaction


def test_a_topic_is_compacted_once_it_has_grown_past_its_threshold() -> None:
    async def body(place: Place) -> None:
        topic = await place.topic(TOPIC)
        peer = place.connect()
        await peer.produce(TOPIC)
        upkeep = place.service.upkeep
        await peer.send(5, keys=lambda index: "key", size=100)
        await upkeep.compact()
        assert topic.compactor.status()["status"] == "NOT_RUN"
        await peer.send(5, keys=lambda index: "key", size=100)
        await upkeep.compact()
        await until(lambda: topic.compactor.status()["status"] == "SUCCESS")
        succeeded_ms = place.clock.now_ms()
        place.clock.pass_s(60)
        await upkeep.compact()
        await asyncio.sleep(0)
        assert topic_stats(topic)["compaction"]["lastCompactionSucceedTimestamp"] == succeeded_ms

    run(body, brokerServiceCompactionThresholdInBytes=900)


def test_what_is_not_compacted_yet_is_not_trimmed() -> None:
    async def body(place: Place) -> None:
        topic = await place.topic(TOPIC)
        peer = place.connect()
        await peer.produce(TOPIC)
        upkeep = place.service.upkeep
        await upkeep.compact()
        await peer.send(3, keys=lambda index: "key")
        await topic.log.roll()
        place.clock.pass_s(1)
        await upkeep.trim()
        assert topic.log.sequence.total_entries == 3

    run(body, brokerServiceCompactionThresholdInBytes=1_000_000)


# ---------------------------------------------------------------------- what nobody uses


def test_a_topic_nobody_uses_is_deleted_after_its_time() -> None:
    async def body(place: Place) -> None:
        await place.topic(TOPIC)
        peer = place.connect()
        await peer.produce(OTHER)
        await peer.produce(TRANSIENT, producer_id=2)
        upkeep = place.service.upkeep
        place.clock.pass_s(59)
        await upkeep.delete_inactive_topics()
        assert await place.service.catalog.topic_exists(parse_topic(TOPIC))
        place.clock.pass_s(1)
        await upkeep.delete_inactive_topics()
        assert not await place.service.catalog.topic_exists(parse_topic(TOPIC))
        assert await place.service.catalog.topic_exists(parse_topic(OTHER))

        peer.leave()
        place.clock.pass_s(60)
        await upkeep.delete_inactive_topics()
        assert place.service.catalog.topics == {}

    run(body)


def test_a_topic_with_a_subscription_stays() -> None:
    async def body(place: Place) -> None:
        topic = await place.topic(TOPIC)
        await topic.subscriptions.create("s")
        place.clock.pass_s(10_000)
        await place.service.upkeep.delete_inactive_topics()
        assert not topic.closed

    run(body)


def test_a_topic_whose_subscriptions_are_caught_up_can_go_with_them() -> None:
    async def body(place: Place) -> None:
        await set_policies(
            place,
            inactive_topic_policies=InactiveTopicPolicies(
                inactiveTopicDeleteMode=InactiveTopicDeleteMode.SUBSCRIPTIONS_CAUGHT_UP,
                maxInactiveDurationSeconds=10,
                deleteWhileInactive=True,
            ),
        )
        topic, peer = await fill(place)
        peer.leave()
        upkeep = place.service.upkeep
        place.clock.pass_s(100)
        await upkeep.delete_inactive_topics()
        assert not topic.closed
        await topic.subscriptions["slow"].skip_all()
        await upkeep.delete_inactive_topics()
        assert not topic.closed, "it is idle only since it was seen to be"
        place.clock.pass_s(10)
        await upkeep.delete_inactive_topics()
        assert not await place.service.catalog.topic_exists(topic.name)

    run(body)


def test_nothing_is_deleted_where_the_policy_says_so() -> None:
    async def body(place: Place) -> None:
        topic = await place.topic(TOPIC)
        place.clock.pass_s(10_000)
        await place.service.upkeep.delete_inactive_topics()
        assert not topic.closed

    run(body, brokerDeleteInactiveTopicsEnabled=False)


@pytest.mark.parametrize("enabled", [False, True])
def test_a_partitioned_topic_goes_with_its_last_partition_if_that_is_wanted(enabled: bool) -> None:
    async def body(place: Place) -> None:
        name = parse_topic(TOPIC)
        partitioned = place.service.resources.partitioned
        await partitioned.create(name, 2)
        first = await place.topic(f"{TOPIC}-partition-0")
        second = await place.topic(f"{TOPIC}-partition-1")
        peer = place.connect()
        await peer.produce(second.name.full)
        upkeep = place.service.upkeep
        place.clock.pass_s(60)
        await upkeep.delete_inactive_topics()
        assert first.closed
        assert await partitioned.get(name) is not None
        peer.leave()
        place.clock.pass_s(60)
        await upkeep.delete_inactive_topics()
        assert second.closed
        assert (await partitioned.get(name) is None) is enabled

    run(body, brokerDeleteInactivePartitionedTopicMetadataEnabled=enabled)


def test_a_subscription_nobody_uses_is_deleted_after_its_time() -> None:
    async def body(place: Place) -> None:
        topic = await place.topic(TOPIC)
        await topic.subscriptions.create("idle")
        peer = place.connect()
        await peer.subscribe(TOPIC, "used", SHARED, consumer_id=1)
        upkeep = place.service.upkeep
        place.clock.pass_s(60)
        await upkeep.delete_unused_subscriptions()
        assert set(topic.subscriptions) == {"idle", "used"}
        place.clock.pass_s(1)
        await upkeep.delete_unused_subscriptions()
        assert set(topic.subscriptions) == {"used"}

    run(body, subscriptionExpirationTimeMinutes=1)


# ---------------------------------------------------------------------- rounds


@pytest.mark.parametrize("failure", [StorageFailed("the disk is gone"), ValueError("a bug")])
def test_one_topic_that_fails_does_not_stop_the_round(failure: Exception) -> None:
    async def body(place: Place) -> None:
        class Broken(PersistentTopic):
            def tick(self, now: float) -> None:
                raise failure

        sound = await place.topic(OTHER)
        topic, _ = await fill(place)
        broken = Broken(place.service, sound.name, sound.policy, sound.log)
        place.service.catalog.topics[OTHER] = broken
        assert next(iter(place.service.catalog.topics.values())) is broken
        place.clock.pass_s(5)
        await place.service.upkeep.tick()
        assert topic_stats(topic)["msgRateIn"] == 2.0

    run(body)


def test_a_long_round_gives_the_loop_its_turns() -> None:
    async def body(place: Place) -> None:
        for index in range(100):
            await place.topic(f"{TOPIC}-{index}")
        turns = 0

        async def count_turns() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        async with asyncio.TaskGroup() as tasks:
            counting = tasks.create_task(count_turns())
            await place.service.upkeep.tick()
            counting.cancel()
        assert turns >= 3

    run(body)


def test_rounds_run_at_their_intervals_once_started() -> None:
    async def body(place: Place) -> None:
        topic, _ = await fill(place)
        place.service.upkeep.start(place.service.tasks)
        place.clock.pass_s(5)
        async with asyncio.timeout(20):
            while not topic_stats(topic)["msgRateIn"]:
                await asyncio.sleep(0.02)

    run(body, statsUpdateFrequencyInSecs=1)


def test_a_new_interval_for_unused_topics_counts_at_once() -> None:
    async def body(place: Place) -> None:
        topic = await place.topic(TOPIC)
        place.service.upkeep.start(place.service.tasks)
        place.service.config.update_dynamic("brokerDeleteInactiveTopicsFrequencySeconds", "1")
        place.clock.pass_s(2)
        async with asyncio.timeout(20):
            while not topic.closed:
                await asyncio.sleep(0.02)

    run(body, brokerDeleteInactiveTopicsFrequencySeconds=100_000)

from __future__ import annotations

import pytest

from magnetar.wire.command import (
    BaseCommand,
    CommandScalableTopicSubscribe,
    CommandSubscribe,
    ScalableConsumerType,
)
from tests.unit.admin.assembly import V2, Admin, run
from tests.unit.broker.broker_place import Peer

ROOT = f"{V2}/scalable/public/default"
SEGMENT = "segment://public/default"


def test_stats_name_segments_and_subscriptions_with_their_backlog() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{ROOT}/a?numInitialSegments=2")
        await admin.put(f"{ROOT}/a/subscriptions/s")
        await admin.publish(f"{SEGMENT}/a/0000-7fff-0", b"x")
        await admin.post(f"{ROOT}/a/split/0")
        stats = (await admin.get(f"{ROOT}/a/stats")).json
        counts = [stats[key] for key in ("totalSegments", "activeSegments", "sealedSegments")]
        assert (stats["epoch"], counts) == (1, [4, 3, 1])
        segment = stats["segments"]["0"]
        assert (segment["name"], segment["state"]) == (f"{SEGMENT}/a/0000-7fff-0", "SEALED")
        assert segment["childIds"] == [2, 3] and segment["storageSize"] > 0
        subscription = stats["subscriptions"]["s"]
        assert (subscription["type"], subscription["consumerCount"]) == ("STREAM", 0)
        assert subscription["backlog"] == {"0": 1, "1": 0, "2": 0, "3": 0}

    run(body)


def test_every_segment_tells_its_rates_and_the_backlog_of_each_subscription() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{ROOT}/a?numInitialSegments=2")
        await admin.put(f"{ROOT}/a/subscriptions/s")
        await admin.publish(f"{SEGMENT}/a/8000-ffff-1", b"x")
        found = (await admin.get(f"{ROOT}/a/segments")).json
        assert {
            number: each["subscriptions"]["s"]["msgBacklog"] for number, each in found.items()
        } == {
            "0": 0,
            "1": 1,
        }
        assert found["1"]["hashRange"] == "8000-ffff"
        rates = {"msgRateIn", "bytesRateIn", "msgRateOut", "bytesRateOut"}
        assert rates <= found["0"].keys()
        load = (await admin.get(f"{ROOT}/a/load")).json
        assert {number: set(each) for number, each in load.items()} == {"0": rates, "1": rates}

    run(body)


def test_one_segment_tells_all_that_a_topic_does() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{ROOT}/a")
        await admin.put(f"{ROOT}/a/subscriptions/s")
        await admin.publish(f"{SEGMENT}/a/0000-ffff-0", b"x")
        found = (await admin.get(f"{ROOT}/a/segments/0")).json
        assert (found["name"], found["state"]) == (f"{SEGMENT}/a/0000-ffff-0", "ACTIVE")
        assert found["subscriptions"]["s"]["msgBacklog"] == 1
        assert (await admin.get(f"{ROOT}/a/segments/9")).status == 404
        assert (await admin.get(f"{ROOT}/a/segments/x")).status == 400

    run(body)


def test_a_segment_is_peeked_without_acknowledging() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{ROOT}/a?numInitialSegments=2")
        await admin.put(f"{ROOT}/a/subscriptions/s")
        position = await admin.publish(f"{SEGMENT}/a/8000-ffff-1", b"hello")
        path = f"{ROOT}/a/segments/1/subscriptions/s/position"
        found = await admin.get(f"{path}/1")
        assert (found.status, found.body) == (200, b"hello")
        assert found.headers["X-Pulsar-Message-ID"] == str(position)
        assert (await admin.get(f"{path}/2")).status == 404
        assert (await admin.get(f"{path}/0")).status == 412
        assert (await admin.get(f"{ROOT}/a/subscriptions/s")).json["msgBacklog"] == 1

    run(body)


def test_nothing_waits_in_a_topic_without_consumers() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{ROOT}/a")
        await admin.put(f"{ROOT}/a/subscriptions/s")
        found = (await admin.get(f"{ROOT}/a/explain")).json
        assert found["subscriptions"] == {}
        assert found["scaling"][-1] == "No load of an active segment is reported yet."

    run(body)


async def register(peer: Peer, topic: str, subscription: str, kind: int) -> None:
    """Become the consumer `c` of the whole topic."""
    request = CommandScalableTopicSubscribe(
        topic=topic,
        subscription=subscription,
        consumer_name="c",
        consumer_id=1,
        consumer_type=kind,  # type: ignore[arg-type]
    )
    answer = await peer.ask(request, BaseCommand.SCALABLE_TOPIC_SUBSCRIBE_RESPONSE)
    assert not answer.scalableTopicSubscribeResponse.HasField("error")


def test_a_consumer_is_shown_with_its_segments_and_with_what_it_waits_for() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{ROOT}/a?numInitialSegments=2")
        await admin.put(f"{ROOT}/a/subscriptions/s")
        for _ in range(3):
            await admin.publish(f"{SEGMENT}/a/0000-7fff-0", b"x")
        peer = Peer(admin.service)
        await register(peer, "topic://public/default/a", "s", ScalableConsumerType.STREAM)
        await admin.post(f"{ROOT}/a/split/0")
        shown = (await admin.get(f"{ROOT}/a/stats")).json["subscriptions"]["s"]
        assert (shown["consumerCount"], shown["msgBacklog"]) == (1, 3)
        assert shown["consumers"]["c"] == {"connected": True, "segments": [0, 1]}
        assert (await admin.get(f"{ROOT}/a/explain")).json["subscriptions"] == {
            "s": [
                f"segment {number} waits for 3 unacked messages of consumer c on segment 0"
                for number in (2, 3)
            ]
        }
        busy = await admin.delete(f"{ROOT}/a/subscriptions/s")
        assert busy.status == 412 and "connected consumers" in busy.reason
        assert (await admin.delete(f"{ROOT}/a/subscriptions/s?force=true")).status == 204
        peer.leave()

    run(body)


def test_a_group_without_a_subscription_is_shown_while_it_lasts() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{ROOT}/a")
        peer = Peer(admin.service)
        await register(peer, "topic://public/default/a", "g", ScalableConsumerType.CHECKPOINT)
        shown = (await admin.get(f"{ROOT}/a/stats")).json["subscriptions"]["g"]
        assert (shown["type"], shown["consumerCount"]) == ("CHECKPOINT", 1)
        assert "msgBacklog" not in shown
        assert (await admin.get(f"{ROOT}/a/subscriptions")).json == {}
        peer.leave()

    run(body)


@pytest.mark.parametrize("start", [CommandSubscribe.Earliest, CommandSubscribe.Latest])
def test_consumers_that_attach_to_segments_are_counted_once(start: int) -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{ROOT}/a?numInitialSegments=2")
        peer = Peer(admin.service)
        for number, descriptor in enumerate(("0000-7fff-0", "8000-ffff-1")):
            request = CommandSubscribe(
                topic=f"{SEGMENT}/a/{descriptor}",
                subscription="q",
                subType=CommandSubscribe.Shared,
                consumer_id=number,
                consumer_name=f"one-seg-{number}",
                initialPosition=start,  # type: ignore[arg-type]
            )
            await peer.ask(request, BaseCommand.SUCCESS)
        shown = (await admin.get(f"{ROOT}/a/stats")).json
        assert shown["subscriptions"]["q"]["type"] == "QUEUE"
        assert shown["subscriptions"]["q"]["consumerCount"] == 1
        assert [each["consumerCount"] for each in shown["segments"].values()] == [1, 1]
        refused = await admin.delete(f"{ROOT}/a")
        assert refused.status == 412 and "consumer one-seg-0 of q" in refused.reason
        peer.leave()

    run(body)

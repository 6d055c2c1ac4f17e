from __future__ import annotations

import json

import pytest

from tests.unit.admin.assembly import V2, Admin, run

TOPICS = f"{V2}/persistent/public/default"
FULL = "persistent://public/default"
EARLIEST = {"ledgerId": -1, "entryId": -1, "partitionIndex": -1}


async def backlog(admin: Admin, topic: str, name: str = "s") -> int:
    stats = (await admin.get(f"{TOPICS}/{topic}/stats")).json
    return int(stats["subscriptions"][name]["msgBacklog"])


def test_a_subscription_is_made_listed_and_deleted() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{TOPICS}/a")
        path = f"{TOPICS}/a/subscription/s"
        assert (await admin.put(path)).status == 204
        again = await admin.put(path, EARLIEST)
        assert (again.status, again.reason) == (409, "Subscription already exists for topic")
        assert (await admin.get(f"{TOPICS}/a/subscriptions")).json == ["s"]
        assert (await admin.delete(path)).status == 204
        gone = await admin.delete(path)
        assert (gone.status, gone.reason) == (404, f"Subscription s not found for topic {FULL}/a")
        assert (await admin.get(f"{TOPICS}/nope/subscriptions")).status == 404

    run(body)


@pytest.mark.parametrize(
    ("spelled", "name"),
    [("a%2Fb", "a/b"), ("a%252Fb", "a/b"), ("a+b", "a b"), ("a%20b", "a b"), ("a%2Bb", "a+b")],
)
def test_a_subscription_is_found_however_tools_spell_it(spelled: str, name: str) -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{TOPICS}/a")
        path = f"{TOPICS}/a/subscription/{spelled}"
        assert (await admin.put(path)).status == 204
        assert (await admin.get(f"{TOPICS}/a/subscriptions")).json == [name]
        assert (await admin.post(f"{path}/skip_all")).status == 204
        assert (await admin.delete(path)).status == 204

    run(body)


@pytest.mark.parametrize(
    ("start", "expected"),
    [(..., 0), ("latest", 0), ("earliest", 3), (EARLIEST, 3), ({"ledgerId": 2**63 - 1}, 0)],
)
def test_a_subscription_starts_where_it_is_told(start: object, expected: int) -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{TOPICS}/a")
        for number in range(3):
            await admin.publish(f"{FULL}/a", b"%d" % number)
        assert (await admin.put(f"{TOPICS}/a/subscription/s", start)).status == 204
        assert await backlog(admin, "a") == expected

    run(body)


def test_a_subscription_starts_at_or_after_a_message() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{TOPICS}/a")
        ids = [await admin.publish(f"{FULL}/a", b"%d" % number) for number in range(3)]
        position = {"ledgerId": ids[1].ledger_id, "entryId": ids[1].entry_id}
        await admin.put(f"{TOPICS}/a/subscription/at", {**position, "properties": {"k": "v"}})
        await admin.put(f"{TOPICS}/a/subscription/after", {**position, "excluded": True})
        assert await backlog(admin, "a", "at") == 2
        assert await backlog(admin, "a", "after") == 1
        found = await admin.get(f"{TOPICS}/a/subscription/at/properties")
        assert found.json == {"k": "v"}

    run(body)


def test_subscribing_makes_a_topic_only_where_attaching_would() -> None:
    async def body(admin: Admin) -> None:
        assert (await admin.put(f"{TOPICS}/auto/subscription/s")).status == 204
        await admin.post(
            f"{V2}/namespaces/public/default/autoTopicCreation", {"allowAutoTopicCreation": False}
        )
        assert (await admin.put(f"{TOPICS}/other/subscription/s")).status == 412
        assert (await admin.put(f"{TOPICS}/other-partition-0/subscription/s")).status == 412

    run(body)


def test_a_subscription_of_a_partitioned_topic_is_one_of_each_partition() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{TOPICS}/p/partitions", 2)
        path = f"{TOPICS}/p/subscription/s"
        await admin.put(f"{TOPICS}/p-partition-0/subscription/s", EARLIEST)
        assert (await admin.put(path, EARLIEST)).status == 204
        assert (await admin.put(path, EARLIEST)).status == 409
        assert (await admin.get(f"{TOPICS}/p/subscriptions")).json == ["s"]
        for index in range(2):
            await admin.publish(f"{FULL}/p-partition-{index}", b"x")
        assert (await admin.post(f"{path}/skip_all")).status == 204
        assert await backlog(admin, "p-partition-0") == 0
        assert (await admin.post(f"{path}/resetcursor/0")).status == 204
        assert await backlog(admin, "p-partition-1") == 1
        assert (await admin.post(f"{path}/expireMessages/1")).status == 204
        assert await backlog(admin, "p-partition-1") == 0
        for call in ("skip/1", "resetcursor", "expireMessages"):
            assert (await admin.post(f"{path}/{call}", EARLIEST)).status == 405, call
        assert (await admin.get(f"{path}/position/1")).status == 405
        assert (await admin.post(f"{TOPICS}/p/subscription/zz/skip_all")).status == 404
        assert (await admin.delete(path)).status == 204
        assert (await admin.delete(path)).status == 404

    run(body)


def test_a_cursor_is_moved_skipped_and_expired() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{TOPICS}/a")
        path = f"{TOPICS}/a/subscription/s"
        await admin.put(path)
        ids = [
            await admin.publish(f"{FULL}/a", b"x", publish_time=1_700_000_000_000 + number)
            for number in range(4)
        ]
        position = {"ledgerId": ids[2].ledger_id, "entryId": ids[2].entry_id}
        assert (await admin.post(f"{path}/skip/1")).status == 204
        assert await backlog(admin, "a") == 3
        assert (await admin.post(f"{path}/resetcursor/1700000000001")).status == 204
        assert await backlog(admin, "a") == 3
        assert (await admin.post(f"{path}/resetcursor", position)).status == 204
        assert await backlog(admin, "a") == 2
        assert (await admin.post(f"{path}/resetcursor", EARLIEST)).status == 204
        assert (await admin.post(f"{path}/expireMessages", position)).status == 204
        assert await backlog(admin, "a") == 1
        assert (await admin.post(f"{TOPICS}/a/all_subscription/expireMessages/1")).status == 204
        assert await backlog(admin, "a") == 0
        assert (await admin.post(f"{path}/resetcursor")).status == 400
        assert (await admin.post(f"{path}/skip/abc")).status == 400
        assert (await admin.post(f"{path}/skip/-1")).status == 412
        assert (await admin.post(f"{TOPICS}/a/subscription/zz/skip/1")).status == 404

    run(body)


def test_an_entry_is_peeked_with_the_headers_tools_parse() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{TOPICS}/a/subscription/s", EARLIEST)
        properties = [{"key": "k", "value": "v"}]
        position = await admin.publish(
            f"{FULL}/a", b"hello", properties=properties, partition_key="key"
        )
        peeked = await admin.get(f"{TOPICS}/a/subscription/s/position/1")
        assert (peeked.status, peeked.body) == (200, b"hello")
        assert peeked.headers["content-type"] == "application/octet-stream"
        assert peeked.headers["X-Pulsar-Message-ID"] == str(position)
        assert json.loads(peeked.headers["X-Pulsar-PROPERTY"]) == {"k": "v"}
        assert peeked.headers["X-Pulsar-publish-time"] == "2023-11-14T22:13:20.000Z"
        assert peeked.headers["X-Pulsar-partition-key"] == "key"
        assert "X-Pulsar-num-batch-message" not in peeked.headers
        missing = await admin.get(f"{TOPICS}/a/subscription/s/position/2")
        assert (missing.status, missing.reason) == (404, "Message not found")
        assert (await admin.get(f"{TOPICS}/a/subscription/s/position/0")).status == 412
        path = f"{TOPICS}/a/ledger/{position.ledger_id}/entry/{position.entry_id}"
        assert (await admin.get(path)).body == b"hello"
        gone = await admin.get(f"{TOPICS}/a/ledger/1024/entry/2048")
        assert (gone.status, gone.reason) == (404, "Message id not found")

    run(body)


def test_peeking_without_a_subscription_shows_the_topic_and_makes_none() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{TOPICS}/a")
        await admin.publish(f"{FULL}/a", b"first")
        await admin.publish(f"{FULL}/a", b"second")
        path = f"{TOPICS}/a/subscription/nobody/position"
        assert (await admin.get(f"{path}/2")).body == b"second"
        assert (await admin.get(f"{path}/3")).status == 404
        assert (await admin.get(f"{TOPICS}/a/subscriptions")).json == []

    run(body)


def test_a_batch_is_told_whole() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{TOPICS}/a")
        await admin.publish(f"{FULL}/a", b"\0\0\0\2\x18\0" * 2, num_messages_in_batch=2)
        told = await admin.get(f"{TOPICS}/a/examinemessage")
        assert told.headers["X-Pulsar-num-batch-message"] == "2"
        assert told.body == b"\0\0\0\2\x18\0" * 2
        last = (await admin.get(f"{TOPICS}/a/lastMessageId")).json
        assert last["batchIndex"] == 1

    run(body)


def test_messages_are_found_by_place_and_by_time() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{TOPICS}/p/partitions", 1)
        base = f"{TOPICS}/p-partition-0"
        empty = await admin.get(f"{base}/examinemessage")
        assert empty.status == 412
        assert (await admin.get(f"{base}/messageid/0")).json["ledgerId"] == -1
        ids = [
            await admin.publish(f"{FULL}/p-partition-0", b"%d" % n, publish_time=1000 + n)
            for n in range(3)
        ]
        for query, expected in (
            ("", b"2"),
            ("?initialPosition=latest&messagePosition=2", b"1"),
            ("?initialPosition=earliest&messagePosition=1", b"0"),
            ("?initialPosition=earliest&messagePosition=99", b"2"),
        ):
            assert (await admin.get(f"{base}/examinemessage{query}")).body == expected
        found = (await admin.get(f"{base}/messageid/1001")).json
        assert (found["ledgerId"], found["entryId"]) == tuple(ids[1])
        assert found["partitionIndex"] == 0
        last = (await admin.get(f"{base}/lastMessageId")).json
        assert (last["ledgerId"], last["entryId"], last["partitionIndex"]) == (*ids[2], 0)
        assert (await admin.get(f"{TOPICS}/p/messageid/0")).status == 405
        assert (await admin.get(f"{TOPICS}/p/examinemessage")).status == 405
        assert (await admin.get(f"{TOPICS}/p/ledger/1/entry/1")).status == 405
        size = await admin.put(f"{base}/backlogSize", EARLIEST)
        assert size.status == 200 and size.json > 0
        end = {"ledgerId": ids[2].ledger_id, "entryId": ids[2].entry_id}
        assert (await admin.put(f"{base}/backlogSize", end)).json == 0

    run(body)


def test_a_backlog_is_analysed() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{TOPICS}/a/subscription/s", EARLIEST)
        await admin.publish(f"{FULL}/a", b"x")
        await admin.publish(f"{FULL}/a", b"\0\0\0\2\x18\0" * 3, num_messages_in_batch=3)
        told = (await admin.post(f"{TOPICS}/a/subscription/s/analyzeBacklog")).json
        assert (told["entries"], told["messages"]) == (2, 4)

    run(body)


def test_properties_of_a_subscription_are_replaced() -> None:
    async def body(admin: Admin) -> None:
        path = f"{TOPICS}/a/subscription/s"
        await admin.put(path)
        assert (await admin.get(f"{path}/properties")).json == {}
        assert (await admin.put(f"{path}/properties", {"a": "b"})).status == 204
        assert (await admin.get(f"{path}/properties")).json == {"a": "b"}
        assert (await admin.get(f"{TOPICS}/a/subscription/zz/properties")).status == 404
        told = (await admin.get(f"{path}/replicatedSubscriptionStatus")).json
        assert told == {f"{FULL}/a": False}

    run(body)

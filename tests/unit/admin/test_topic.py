from __future__ import annotations

import pytest

from magnetar.model.name import parse_topic
from tests.unit.admin.assembly import V2, Admin, run
from tests.unit.broker.broker_place import Peer
from tests.unit.broker.traffic import SHARED

TOPICS = f"{V2}/persistent/public/default"
PASSING = f"{V2}/non-persistent/public/default"
FULL = "persistent://public/default"


@pytest.mark.parametrize("raw", [b"", b"null", b"{}"])
def test_a_topic_is_made_listed_and_deleted(raw: bytes) -> None:
    async def body(admin: Admin) -> None:
        assert (await admin.call("PUT", f"{TOPICS}/a", raw=raw)).status == 204
        assert (await admin.get(TOPICS)).json == [f"{FULL}/a"]
        again = await admin.put(f"{TOPICS}/a")
        assert (again.status, again.reason) == (409, "This topic already exists")
        assert (await admin.get(f"{TOPICS}/a/partitions")).json == {
            "partitions": 0,
            "deleted": False,
        }
        assert (await admin.delete(f"{TOPICS}/a?force=false&deleteSchema=true")).status == 204
        assert (await admin.get(TOPICS)).json == []

    run(body)


def test_a_name_with_slashes_blanks_and_signs_survives() -> None:
    async def body(admin: Admin) -> None:
        assert (await admin.put(f"{TOPICS}/caf%C3%A9+1%2B1")).status == 204
        assert (await admin.get(TOPICS)).json == [f"{FULL}/café 1+1"]
        assert (await admin.get(f"{TOPICS}/caf%C3%A9%201%2B1/stats")).status == 200
        for wrong in ("a%2Fb", "%20", "%FF", "+a"):
            reply = await admin.put(f"{TOPICS}/{wrong}")
            assert (reply.status, reply.reason) == (412, "Topic name is not valid"), wrong

    run(body)


def test_a_partition_needs_its_partitioned_topic() -> None:
    async def body(admin: Admin) -> None:
        assert (await admin.put(f"{TOPICS}/x-partition-0")).status == 412
        await admin.put(f"{TOPICS}/p/partitions", 2)
        assert (await admin.put(f"{TOPICS}/p-partition-2")).status == 412
        assert (await admin.put(f"{TOPICS}/p-partition-1")).status == 409

    run(body)


def test_a_partitioned_topic_is_made_in_both_forms() -> None:
    async def body(admin: Admin) -> None:
        assert (await admin.put(f"{TOPICS}/p/partitions", 2)).status == 204
        told = await admin.call(
            "PUT",
            f"{TOPICS}/q/partitions",
            {"properties": None, "partitions": 1},
            content_type="application/vnd.partitioned-topic-metadata+json",
        )
        assert told.status == 204
        assert (await admin.get(f"{TOPICS}/partitioned")).json == [f"{FULL}/p", f"{FULL}/q"]
        assert (await admin.get(TOPICS)).json == [
            f"{FULL}/p-partition-0",
            f"{FULL}/p-partition-1",
            f"{FULL}/q-partition-0",
        ]
        for path in ("p/partitions", "q/partitions"):
            reply = await admin.put(f"{TOPICS}/{path}", 2)
            assert (reply.status, reply.reason) == (409, "This topic already exists")
        assert (await admin.put(f"{TOPICS}/p")).status == 409

    run(body)


@pytest.mark.parametrize(
    ("name", "count", "status"),
    [
        ("p", 0, 406),
        ("p", -1, 406),
        ("p", 9, 406),
        ("p", "x", 400),
        ("p", ..., 400),
        ("p", 2**31, 406),
        ("x-partition-0", 2, 412),
        ("__change_events", 2, 400),
    ],
)
def test_a_partitioned_topic_is_refused(name: str, count: object, status: int) -> None:
    async def body(admin: Admin) -> None:
        assert (await admin.put(f"{TOPICS}/{name}/partitions", count)).status == status
        assert (await admin.get(f"{TOPICS}/partitioned")).json == []

    run(body, maxNumPartitionsPerPartitionedTopic=8)


def test_new_partitions_have_the_subscriptions_of_the_first() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{TOPICS}/p/partitions", 1)
        await admin.put(f"{TOPICS}/p/subscription/s")
        assert (await admin.post(f"{TOPICS}/p/partitions", 1)).status == 204
        assert (await admin.post(f"{TOPICS}/p/partitions", 3)).status == 204
        assert (await admin.get(f"{TOPICS}/p/partitions")).json["partitions"] == 3
        for index in range(3):
            found = await admin.get(f"{TOPICS}/p-partition-{index}/subscriptions")
            assert found.json == ["s"]
        fewer = await admin.post(f"{TOPICS}/p/partitions", 2)
        assert fewer.status == 422
        assert (await admin.post(f"{TOPICS}/none/partitions", 2)).status == 409

    run(body)


def test_a_stray_partition_stops_growth_unless_forced() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{TOPICS}/p/partitions", 1)
        await admin.service.catalog.load_topic(parse_topic(f"{FULL}/p-partition-1"), create=True)
        assert (await admin.post(f"{TOPICS}/p/partitions", 2)).status == 409
        assert (await admin.post(f"{TOPICS}/p/partitions?force=true", 2)).status == 204

    run(body)


def test_partitions_of_an_unknown_topic_are_none_while_it_may_be_made() -> None:
    async def body(admin: Admin) -> None:
        path = f"{TOPICS}/nope/partitions"
        missing = await admin.get(path)
        assert (missing.status, missing.reason) == (404, f"Topic {FULL}/nope not found")
        told = await admin.get(f"{path}?checkAllowAutoCreation=true")
        assert (told.status, told.json["partitions"]) == (200, 0)
        await admin.post(
            f"{V2}/namespaces/public/default/autoTopicCreation", {"allowAutoTopicCreation": False}
        )
        assert (await admin.get(f"{path}?checkAllowAutoCreation=true")).status == 404

    run(body)


def test_a_partition_of_a_missing_topic_is_missing_unless_it_may_be_made() -> None:
    async def body(admin: Admin) -> None:
        path = f"{TOPICS}/nope-partition-10/partitions"
        for query in ("", "?checkAllowAutoCreation=false"):
            missing = await admin.get(f"{path}{query}")
            told = f"Topic {FULL}/nope-partition-10 not found"
            assert (missing.status, missing.reason) == (404, told)
        assert (await admin.get(f"{path}?checkAllowAutoCreation=true")).json["partitions"] == 0
        await admin.put(f"{TOPICS}/p/partitions", 2)
        assert (await admin.get(f"{TOPICS}/p/partitions")).json["partitions"] == 2
        for query in ("", "?checkAllowAutoCreation=true"):
            found = await admin.get(f"{TOPICS}/p-partition-1/partitions{query}")
            assert found.json["partitions"] == 0
            beyond = await admin.get(f"{TOPICS}/p-partition-2/partitions{query}")
            assert beyond.status == 404

    run(body)


def test_a_question_for_a_partition_makes_no_partitioned_topic() -> None:
    async def body(admin: Admin) -> None:
        creation = {
            "allowAutoTopicCreation": True,
            "topicType": "partitioned",
            "defaultNumPartitions": 3,
        }
        await admin.post(f"{V2}/namespaces/public/default/autoTopicCreation", creation)
        path = f"{TOPICS}/nope-partition-10/partitions?checkAllowAutoCreation=true"
        assert (await admin.get(path)).json["partitions"] == 0
        assert (await admin.get(f"{TOPICS}/partitioned")).json == []

    run(body)


def test_deleting_asks_for_the_right_kind_and_a_topic_without_clients() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{TOPICS}/a")
        await admin.put(f"{TOPICS}/p/partitions", 2)
        assert (await admin.delete(f"{TOPICS}/p")).status == 409
        assert (await admin.delete(f"{TOPICS}/a/partitions")).status == 409
        assert (await admin.delete(f"{TOPICS}/nope")).status == 404
        gone = await admin.delete(f"{TOPICS}/nope/partitions")
        assert (gone.status, gone.reason) == (404, f"Topic {FULL}/nope not found.")
        peer = Peer(admin.service)
        await peer.subscribe(f"{FULL}/p-partition-1", "s", SHARED, consumer_id=1)
        assert (await admin.delete(f"{TOPICS}/p/partitions")).status == 412
        await peer.subscribe(f"{FULL}/a", "s", SHARED, consumer_id=2)
        assert (await admin.delete(f"{TOPICS}/a")).status == 412
        assert len((await admin.get(TOPICS)).json) == 3
        peer.leave()
        await admin.put(f"{TOPICS}/b")
        peer = Peer(admin.service)
        await peer.produce(f"{FULL}/b")
        assert (await admin.delete(f"{TOPICS}/b")).status == 412
        assert (await admin.delete(f"{TOPICS}/b?force=true")).status == 204
        # Subscriptions are there, and nobody uses them.
        assert (await admin.delete(f"{TOPICS}/p/partitions")).status == 204
        assert (await admin.delete(f"{TOPICS}/a")).status == 204
        assert (await admin.get(TOPICS)).json == []

    run(body)


def test_deleting_a_topic_takes_its_policies_and_schemas_along() -> None:
    async def body(admin: Admin) -> None:
        for path in ("a", "p/partitions"):
            name = path[0]
            await admin.put(f"{TOPICS}/{path}", {"partitions": 2} if "/" in path else ...)
            assert (await admin.post(f"{TOPICS}/{name}/maxProducers", 3)).status == 204
            schema = f"{V2}/schemas/public/default/{name}/schema"
            assert (await admin.post(schema, {"type": "STRING", "schema": ""})).status == 200
            assert (await admin.delete(f"{TOPICS}/{path}")).status == 204
            assert (await admin.get(schema)).status == 404
            await admin.put(f"{TOPICS}/{path}", {"partitions": 2} if "/" in path else ...)
            assert (await admin.get(f"{TOPICS}/{name}/maxProducers")).status == 204

    run(body)


def test_stats_are_of_single_topics_and_partitioned_stats_of_all_partitions() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{TOPICS}/p/partitions", 2)
        await admin.put(f"{TOPICS}/p/subscription/s", {"ledgerId": -1, "entryId": -1})
        await admin.publish(f"{FULL}/p-partition-0", b"x")
        await admin.publish(f"{FULL}/p-partition-1", b"y")
        base = await admin.get(f"{TOPICS}/p/stats")
        assert (base.status, base.reason) == (404, f"Topic {FULL}/p not found")
        one = (await admin.get(f"{TOPICS}/p-partition-0/stats")).json
        assert one["subscriptions"]["s"]["msgBacklog"] == 1
        all_of_it = (await admin.get(f"{TOPICS}/p/partitioned-stats")).json
        assert all_of_it["subscriptions"]["s"]["msgBacklog"] == 2
        assert all_of_it["metadata"]["partitions"] == 2
        assert set(all_of_it["partitions"]) == {f"{FULL}/p-partition-0", f"{FULL}/p-partition-1"}
        assert "ownerBroker" not in all_of_it
        brief = (await admin.get(f"{TOPICS}/p/partitioned-stats?perPartition=false")).json
        assert brief["partitions"] == {}
        await admin.put(f"{TOPICS}/a")
        wrong = await admin.get(f"{TOPICS}/a/partitioned-stats")
        assert (wrong.status, wrong.reason) == (404, f"Partitioned Topic {FULL}/a not found")
        internal = (await admin.get(f"{TOPICS}/p/partitioned-internalStats")).json
        assert internal["metadata"]["partitions"] == 2 and len(internal["partitions"]) == 2

    run(body)


def test_internal_info_tells_ledgers_and_cursors() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{TOPICS}/a")
        await admin.put(f"{TOPICS}/a/subscription/s%2Ft")
        info = (await admin.get(f"{TOPICS}/a/internal-info")).json
        assert "s/t" in info["cursors"] and "ledgers" in info and info["creationDate"]
        await admin.put(f"{TOPICS}/p/partitions", 2)
        info = (await admin.get(f"{TOPICS}/p/internal-info")).json
        assert set(info["partitions"]) == {f"{FULL}/p-partition-0", f"{FULL}/p-partition-1"}
        assert (await admin.get(f"{TOPICS}/nope/internal-info")).status == 404

    run(body)


def test_a_topic_is_terminated_once_and_for_all() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{TOPICS}/a")
        last = await admin.publish(f"{FULL}/a", b"x")
        told = await admin.post(f"{TOPICS}/a/terminate")
        assert told.status == 200
        assert (told.json["ledgerId"], told.json["entryId"]) == tuple(last)
        assert told.json["partitionIndex"] == -1
        await admin.put(f"{TOPICS}/p/partitions", 2)
        assert (await admin.post(f"{TOPICS}/p/terminate")).status == 405
        assert (await admin.post(f"{TOPICS}/a/terminate/partitions")).status == 405
        assert set((await admin.post(f"{TOPICS}/p/terminate/partitions")).json) == {"0", "1"}
        assert (await admin.post(f"{TOPICS}/nope/terminate")).status == 404

    run(body)


def test_properties_of_topics_are_merged_and_removed() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{TOPICS}/a", {"key1": "value1"})
        await admin.put(
            f"{TOPICS}/p/partitions", {"partitions": 2, "properties": {"key1": "value1"}}
        )
        for name in ("a", "p"):
            path = f"{TOPICS}/{name}/properties"
            assert (await admin.get(path)).json == {"key1": "value1"}
            assert (await admin.put(path, {"key1": "x", "key2": "y"})).status == 204
            assert (await admin.get(path)).json == {"key1": "x", "key2": "y"}
            assert (await admin.delete(f"{path}?key=key1")).status == 204
            assert (await admin.get(path)).json == {"key2": "y"}
            await admin.put(path, {"": "a blank name is one too"})
            await admin.delete(path)
            assert (await admin.get(path)).json.keys() == {"key2", ""}
            await admin.delete(f"{path}?key=")
            assert (await admin.get(path)).json == {"key2": "y"}
        assert (await admin.get(f"{TOPICS}/nope/properties")).status == 404

    run(body)


def test_permissions_on_a_topic_reach_its_partitions() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{TOPICS}/p/partitions", 1)
        await admin.post(f"{V2}/namespaces/public/default/permissions/r", ["consume"])
        assert (await admin.post(f"{TOPICS}/p/permissions/r", ["produce"])).status == 204
        both = {"r": ["consume", "produce"]}
        assert (await admin.get(f"{TOPICS}/p/permissions")).json == both
        assert (await admin.get(f"{TOPICS}/p-partition-0/permissions")).json == both
        assert (await admin.delete(f"{TOPICS}/p/permissions/r")).status == 204
        assert (await admin.delete(f"{TOPICS}/p/permissions/r")).status == 204
        assert (await admin.get(f"{TOPICS}/p/permissions")).json == {"r": ["consume"]}
        assert (await admin.post(f"{TOPICS}/nope/permissions/r", ["produce"])).status == 404

    run(body)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("PUT", "q/subscription/s", 400),
        ("POST", "q/terminate", 406),
        ("GET", "q/properties", 406),
        ("DELETE", "q/truncate", 412),
        ("GET", "q/subscription/s/position/1", 405),
        ("GET", "q/messageid/1", 405),
        ("GET", "q/examinemessage", 405),
        ("GET", "q/lastMessageId", 405),
        ("POST", "q/subscription/s/expireMessages/3", 405),
        ("POST", "q/all_subscription/expireMessages/3", 405),
        ("POST", "q/trim", 405),
        ("POST", "q/subscription/s/skip/1", 405),
        ("POST", "q/subscription/s/skip_all", 405),
        ("PUT", "q/compaction", 405),
        ("GET", "q/compaction", 405),
        ("GET", "q/ledger/1/entry/1", 405),
        ("GET", "q/stats", 200),
        ("GET", "q/internalStats", 200),
        ("GET", "q/subscriptions", 200),
        ("GET", "q/retention", 204),
        ("PUT", "q/unload", 204),
        ("DELETE", "q", 204),
        ("GET", "zz/stats", 404),
    ],
)
def test_a_topic_that_keeps_nothing_does_less(method: str, path: str, status: int) -> None:
    async def body(admin: Admin) -> None:
        assert (await admin.put(f"{PASSING}/q")).status == 204
        assert (await admin.call(method, f"{PASSING}/{path}")).status == status

    run(body)


def test_a_partitioned_topic_that_keeps_nothing_is_metadata() -> None:
    async def body(admin: Admin) -> None:
        assert (await admin.put(f"{PASSING}/qp/partitions", 2)).status == 204
        assert (await admin.get(f"{PASSING}/qp/partitions")).json["partitions"] == 2
        assert (await admin.get(f"{PASSING}/qp/partitioned-stats")).json["partitions"] == {}
        assert (await admin.post(f"{PASSING}/qp/partitions", 3)).status == 204
        assert (await admin.delete(f"{PASSING}/qp/partitions")).status == 204
        assert (await admin.get(f"{PASSING}/qp/partitions")).status == 404

    run(body)


def test_compaction_runs_and_tells_how_it_went() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{TOPICS}/a")
        assert (await admin.get(f"{TOPICS}/a/compaction")).json["status"] == "NOT_RUN"
        assert (await admin.put(f"{TOPICS}/a/compaction")).status == 204
        status = (await admin.get(f"{TOPICS}/a/compaction")).json["status"]
        assert status in ("RUNNING", "SUCCESS")
        await admin.put(f"{TOPICS}/p/partitions", 2)
        assert (await admin.put(f"{TOPICS}/p/compaction")).status == 204
        assert (await admin.get(f"{TOPICS}/p/compaction")).status == 404

    run(body)


def test_offloading_is_not_there() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{TOPICS}/a")
        assert (await admin.put(f"{TOPICS}/a/offload")).reason == "messageId is null"
        assert (await admin.put(f"{TOPICS}/a/offload", {"ledgerId": 1})).status == 501
        assert (await admin.get(f"{TOPICS}/a/offload")).json["status"] == "NOT_RUN"

    run(body)


def test_topics_are_trimmed_truncated_and_unloaded() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{TOPICS}/a")
        await admin.put(f"{TOPICS}/p/partitions", 2)
        await admin.publish(f"{FULL}/a", b"x")
        for name in ("a", "p"):
            assert (await admin.post(f"{TOPICS}/{name}/trim")).status == 204
            assert (await admin.delete(f"{TOPICS}/{name}/truncate")).status == 204
            assert (await admin.put(f"{TOPICS}/{name}/unload")).status == 204
            assert (await admin.post(f"{TOPICS}/p/createMissedPartitions")).status == 204
        assert (await admin.put(f"{TOPICS}/nope/unload")).status == 404
        assert (await admin.post(f"{TOPICS}/nope/trim")).status == 404
        assert (await admin.post(f"{TOPICS}/a/createMissedPartitions")).status == 404
        stats = (await admin.get(f"{TOPICS}/a/internalStats")).json
        assert stats["numberOfEntries"] == 0

    run(body)

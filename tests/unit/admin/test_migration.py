from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.admin.assembly import V2, Admin, run

SCALABLE, SPELLED_OUT = (f"{V2}/{each}/public/default" for each in ("scalable", "scalable-topics"))
REGULAR = f"{V2}/persistent/public/default"
FULL = "topic://public/default"


@pytest.mark.parametrize("root", [SCALABLE, SPELLED_OUT])
@pytest.mark.parametrize("verb", ["migrate", "migrate-to-scalable", "migrate?force=true"])
def test_a_topic_is_migrated_under_every_spelling(root: str, verb: str) -> None:
    async def body(admin: Admin) -> None:
        assert (await admin.put(f"{REGULAR}/a/partitions", 2)).status == 204
        assert (await admin.post(f"{root}/a/{verb}")).status == 204
        record = (await admin.get(f"{root}/a")).json
        assert record["migratedFrom"] == {
            "topicName": "persistent://public/default/a",
            "partitions": 2,
        }
        assert [each["state"] for each in record["segments"].values()] == [
            "SEALED",
            "SEALED",
            "ACTIVE",
            "ACTIVE",
        ]

    run(body)


def test_each_refusal_has_its_status_and_a_sentence() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{SCALABLE}/native")
        await admin.put(f"{REGULAR}/a/partitions", 2)
        for path, status, words in (
            ("missing", 404, "Topic does not exist: persistent://public/default/missing"),
            ("native", 409, f"Topic is already scalable: {FULL}/native"),
            ("a-partition-0", 412, "called like a partition; name persistent://"),
            ("a%2Fb", 412, "No regular topic is called 'a/b'"),
            ("__change_events", 412, "belongs to the system"),
        ):
            reply = await admin.post(f"{SCALABLE}/{path}/migrate")
            assert (path, reply.status) == (path, status)
            assert words in reply.reason
        assert (await admin.post(f"{SCALABLE}/a/migrate?force=maybe")).status == 400

    run(body)


def test_the_switch_can_be_turned_while_the_broker_runs() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{REGULAR}/a")
        switch = f"{V2}/brokers/configuration/enableScalableTopicMigration"
        assert (await admin.post(f"{switch}/false")).status == 200
        refused = await admin.post(f"{SCALABLE}/a/migrate")
        assert refused.status == 405 and "switched off" in refused.reason
        assert (await admin.post(f"{switch}/true")).status == 200
        assert (await admin.post(f"{SCALABLE}/a/migrate")).status == 204

    run(body)


def test_exactly_one_of_many_operators_succeeds() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{REGULAR}/a/partitions", 8)
        replies = await asyncio.gather(
            *(admin.post(f"{SCALABLE}/a/migrate") for _ in range(5)),
        )
        assert sorted(each.status for each in replies) == [204, 409, 409, 409, 409]

    run(body)


def test_what_became_scalable_is_not_listed_as_what_it_was() -> None:
    async def body(admin: Admin) -> None:
        for name in ("kept", "moved"):
            assert (await admin.put(f"{REGULAR}/{name}/partitions", 2)).status == 204
            assert (await admin.put(f"{REGULAR}/{name}-plain")).status == 204
        for name in ("moved", "moved-plain"):
            assert (await admin.post(f"{SCALABLE}/{name}/migrate")).status == 204
        partitioned = (await admin.get(f"{REGULAR}/partitioned")).json
        assert partitioned == ["persistent://public/default/kept"]
        endings = ("partition-0", "partition-1", "plain")
        kept = [f"persistent://public/default/kept-{each}" for each in endings]
        for path in (REGULAR, f"{V2}/namespaces/public/default/topics"):
            assert (await admin.get(path)).json == kept
        assert (await admin.get(f"{REGULAR}?limit=2")).json == kept[:2]
        assert (await admin.get(SCALABLE)).json == [f"{FULL}/moved", f"{FULL}/moved-plain"]

    run(body)


def test_old_names_are_gone_for_good() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{REGULAR}/a/partitions", 2)
        await admin.post(f"{SCALABLE}/a/migrate")
        for method, path, payload in (
            ("PUT", f"{REGULAR}/a", ...),
            ("PUT", f"{REGULAR}/a/partitions", 2),
            ("POST", f"{REGULAR}/a/partitions", 4),
            ("DELETE", f"{REGULAR}/a/partitions", ...),
            ("DELETE", f"{REGULAR}/a-partition-1", ...),
            ("GET", "/lookup/v2/topic/persistent/public/default/a", ...),
            ("GET", "/lookup/v2/topic/persistent/public/default/a-partition-0", ...),
            ("GET", f"{REGULAR}/a/partitions?checkAllowAutoCreation=true", ...),
            ("GET", f"{REGULAR}/a/stats", ...),
        ):
            reply = await admin.call(method, path, payload)
            assert (method, path, reply.status) == (method, path, 410)
            assert f"{FULL}/a" in reply.reason
        assert (await admin.get("/lookup/v2/topic/topic/public/default/a")).status == 200
        await admin.delete(f"{SCALABLE}/a?force=true")
        assert (await admin.put(f"{REGULAR}/a/partitions", 3)).status == 204

    run(body)


def test_calls_by_old_names_are_counted_and_the_caller_is_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{REGULAR}/a")
        await admin.post(f"{SCALABLE}/a/migrate")
        path = "/lookup/v2/topic/persistent/public/default/a"
        old = replace(admin, headers={"user-agent": "Pulsar-Java-v2.8.0"})
        for _ in range(3):
            assert (await old.get(path)).status == 410
        metrics = (await admin.get("/metrics")).body.decode()
        assert re.search(r'magnetar_legacy_client_refusals_total{.*door="rest"} 3\n', metrics)

    run(body)
    (line,) = [each for each in caplog.records if each.name.endswith("scalable.refusal")]
    told: Any = line
    assert told.fields["version"] == "Pulsar-Java-v2.8.0" and f"{FULL}/a" in told.fields["reason"]


def test_a_rehearsal_changes_nothing() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{REGULAR}/a/partitions", 2)
        found = (await admin.get(f"{SPELLED_OUT}/a/migration-check")).json
        assert found["ready"] is True and found["partitions"] == 2
        assert list(found["segments"].values()) == ["SEALED", "SEALED", "ACTIVE", "ACTIVE"]
        assert (await admin.get(f"{SCALABLE}/a")).status == 404
        missing = (await admin.get(f"{SCALABLE}/b/migration-check")).json
        assert missing["ready"] is False
        assert missing["refusals"] == ["Topic does not exist: persistent://public/default/b"]

    run(body)


def test_stats_of_the_scalable_topic_show_what_is_left_of_the_regular_one() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{REGULAR}/a")
        await admin.put(f"{REGULAR}/a/subscription/s")
        for _ in range(3):
            await admin.publish("persistent://public/default/a", b"x")
        await admin.post(f"{SCALABLE}/a/migrate")
        stats = (await admin.get(f"{SCALABLE}/a/segments")).json
        assert stats["0"]["name"] == "persistent://public/default/a"
        lag = {"msgBacklog": 3, "lagMessages": 3, "isLagEstimated": False}
        assert stats["0"]["subscriptions"] == {"s": lag}
        assert stats["1"]["subscriptions"]["s"]["lagMessages"] == 0
        peeked = await admin.get(f"{SCALABLE}/a/segments/0/subscriptions/s/position/1")
        assert (peeked.status, peeked.body) == (200, b"x")
        assert (await admin.post(f"{SCALABLE}/a/subscriptions/s/skip-all")).status == 204
        stats = (await admin.get(f"{SCALABLE}/a/segments")).json
        assert stats["0"]["subscriptions"]["s"]["msgBacklog"] == 0

    run(body)


def test_the_number_of_segments_is_a_parameter() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{REGULAR}/a/partitions", 2)
        for count, status in (("0", 412), ("1001", 412), ("many", 400)):
            assert (await admin.post(f"{SCALABLE}/a/migrate?segments={count}")).status == status
        check = (await admin.get(f"{SCALABLE}/a/migration-check?segments=2000")).json
        assert not check["ready"] and "1 to 1000 segments" in check["refusals"][0]
        check = (await admin.get(f"{SCALABLE}/a/migration-check?segments=5")).json
        assert check["ready"] and check["newSegments"] == 5 and check["notes"] == []
        assert list(check["segments"].values()).count("ACTIVE") == 5
        assert (await admin.post(f"{SCALABLE}/a/migrate?segments=5")).status == 204
        states = [
            each["state"] for each in (await admin.get(f"{SCALABLE}/a")).json["segments"].values()
        ]
        assert states == ["SEALED"] * 2 + ["ACTIVE"] * 5

    run(body)


def test_policies_of_a_migrated_topic_hold_for_what_it_was_migrated_from() -> None:
    """Else the exactly-once writers of a topic that is deduplicated since could not ask its sealed
    segments what they have.
    """

    async def body(admin: Admin) -> None:
        policy = "deduplicationEnabled"
        await admin.put(f"{REGULAR}/a")
        assert (await admin.post(f"{SCALABLE}/a/migrate")).status == 204
        assert (await admin.get(f"{SCALABLE}/a/lastSequenceIds?producer=p")).status == 412
        assert (await admin.post(f"{V2}/topic/public/default/a/{policy}", True)).status == 204
        assert (await admin.get(f"{REGULAR}/a/{policy}")).json is True
        known = await admin.get(f"{SCALABLE}/a/lastSequenceIds?producer=p")
        assert known.json == {"0": -1, "1": -1}
        assert (await admin.delete(f"{V2}/topic/public/default/a/{policy}")).status == 204
        assert (await admin.get(f"{REGULAR}/a/{policy}")).body == b""

    run(body)

from __future__ import annotations

import pytest

from tests.unit.admin.assembly import V2, Admin, run

TOPICS = f"{V2}/scalable/public/default"
ROOT = f"{V2}/segments/public/default"
SEGMENT = "segment://public/default"


def test_a_segment_of_the_layout_is_made_again_without_harm() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{TOPICS}/a?numInitialSegments=2")
        await admin.publish(f"{SEGMENT}/a/0000-7fff-0", b"x")
        assert (await admin.put(f"{ROOT}/a/0000-7fff-0", ["s1", "s2"])).status == 204
        assert (await admin.put(f"{ROOT}/a/0000-7fff-0")).status == 204
        for name in ("s1", "s2"):
            path = f"{ROOT}/a/0000-7fff-0/subscription/{name}/backlog"
            assert (await admin.get(path)).json == 1

    run(body)


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("a/0000-ffff-77", 404, "has no segment 0000-ffff-77"),
        ("a/0000-ffff-0", 404, "has no segment 0000-ffff-0"),
        ("nosuch/0000-ffff-0", 404, "Scalable topic not found"),
        ("a/garbage", 412, "Invalid segment descriptor"),
        ("a/0000-7fff", 412, "Invalid segment descriptor"),
        ("a/0000-1ffff-0", 412, "Invalid segment descriptor"),
        ("a/7fff-0000-0", 412, "Invalid segment descriptor"),
        ("a/0000-7fff--1", 412, "Invalid segment descriptor"),
    ],
)
def test_what_no_layout_names_is_not_made(path: str, status: int, words: str) -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{TOPICS}/a?numInitialSegments=2")
        refused = await admin.put(f"{ROOT}/{path}", ["s"])
        assert refused.status == status and words in refused.reason
        stored = await admin.service.store.children("/managed-ledgers/public/default/segment")
        assert stored == ("a",)

    run(body)


def test_a_subscription_of_a_segment_is_made_moved_and_deleted() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{TOPICS}/a")
        await admin.publish(f"{SEGMENT}/a/0000-ffff-0", b"x")
        path = f"{ROOT}/a/0000-ffff-0/subscription/s9"
        assert (await admin.put(path)).status == 204
        assert (await admin.put(path)).status == 204
        assert (await admin.get(f"{path}/backlog")).json == 1
        assert (await admin.post(f"{path}/skip-all")).status == 204
        assert (await admin.get(f"{path}/backlog")).json == 0
        assert (await admin.post(f"{path}/seek?timestamp=0")).status == 204
        assert (await admin.get(f"{path}/backlog")).json == 1
        assert (await admin.post(f"{path}/seek")).status == 400
        assert (await admin.delete(path)).status == 204
        assert (await admin.delete(path)).status == 204
        for call in (admin.get(f"{path}/backlog"), admin.post(f"{path}/skip-all")):
            assert (await call).status == 404

    run(body)


def test_a_segment_that_is_not_there_has_no_backlog_and_cannot_be_moved_yet() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{TOPICS}/a")
        path = f"{ROOT}/a/0000-ffff-5/subscription/s"
        assert (await admin.get(f"{path}/backlog")).status == 404
        assert (await admin.put(path)).status == 404
        assert (await admin.post(f"{path}/seek?timestamp=0")).status == 503
        assert (await admin.post(f"{path}/skip-all")).status == 503
        assert (await admin.delete(path)).status == 204
        assert (await admin.post(f"{ROOT}/a/0000-ffff-5/terminate")).status == 404
        assert (await admin.delete(f"{ROOT}/a/0000-ffff-5")).status == 204

    run(body)


def test_terminating_an_active_segment_leaves_no_hash_unserved() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{TOPICS}/a")
        assert (await admin.post(f"{ROOT}/a/0000-ffff-0/terminate")).status == 204
        stats = (await admin.get(f"{TOPICS}/a/stats")).json
        states = {number: each["state"] for number, each in stats["segments"].items()}
        assert states == {"0": "SEALED", "1": "ACTIVE", "2": "ACTIVE"}
        assert (await admin.post(f"{ROOT}/a/0000-ffff-0/terminate")).status == 204

    run(body)


def test_a_segment_that_a_layout_names_is_deleted_by_force_only() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{TOPICS}/a")
        await admin.put(f"{TOPICS}/a/subscriptions/s1")
        await admin.publish(f"{SEGMENT}/a/0000-ffff-0", b"x")
        await admin.post(f"{TOPICS}/a/split/0")
        await admin.publish(f"{SEGMENT}/a/0000-7fff-1", b"y")
        for descriptor in ("0000-ffff-0", "0000-7fff-1"):
            refused = await admin.delete(f"{ROOT}/a/{descriptor}")
            assert refused.status == 412 and "part of the layout" in refused.reason
            assert "force=true" in refused.reason
        backlog = (await admin.get(f"{TOPICS}/a/subscriptions/s1")).json["backlog"]
        assert backlog == {"0": 1, "1": 1, "2": 0}
        for descriptor in ("0000-ffff-0", "0000-7fff-1", "0000-7fff-1"):
            assert (await admin.delete(f"{ROOT}/a/{descriptor}?force=true")).status == 204
        stats = (await admin.get(f"{TOPICS}/a/stats")).json
        missing = {number: each["isMissing"] for number, each in stats["segments"].items()}
        assert missing == {"0": True, "1": True, "2": False}
        assert stats["subscriptions"]["s1"]["backlog"] == {"2": 0}
        history = (await admin.get(f"{TOPICS}/a/history")).json
        kinds = [(each["kind"], each["segmentIds"], each["reason"]) for each in history]
        by_force = "forced by a caller without a role"
        assert kinds[-2:] == [("WIPE", [0], by_force), ("WIPE", [1], by_force)]
        assert (await admin.delete(f"{ROOT}/nosuch/0000-ffff-0?force=true")).status == 204

    run(body)


def test_only_an_active_segment_is_made_again_and_with_all_its_subscriptions() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{TOPICS}/a")
        await admin.put(f"{TOPICS}/a/subscriptions/s1")
        await admin.post(f"{TOPICS}/a/split/0")
        for descriptor in ("0000-ffff-0", "0000-7fff-1"):
            assert (await admin.delete(f"{ROOT}/a/{descriptor}?force=true")).status == 204
        refused = await admin.put(f"{ROOT}/a/0000-ffff-0")
        assert refused.status == 412 and "sealed and its data was deleted" in refused.reason
        assert (await admin.put(f"{ROOT}/a/0000-7fff-1", ["s2"])).status == 204
        for name in ("s1", "s2"):
            path = f"{ROOT}/a/0000-7fff-1/subscription/{name}/backlog"
            assert (await admin.get(path)).json == 0

    run(body)

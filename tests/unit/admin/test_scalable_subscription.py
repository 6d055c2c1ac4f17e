from __future__ import annotations

import time

import pytest

from magnetar.model.name import parse_topic
from tests.unit.admin.assembly import V2, Admin, run

ROOT = f"{V2}/scalable/public/default"
SEGMENT = "segment://public/default"
HOUR_MS = 3_600_000


async def prepare(admin: Admin) -> None:
    """A topic with a sealed parent and two children, a message in each; `s` has read nothing."""
    await admin.put(f"{ROOT}/a")
    await admin.put(f"{ROOT}/a/subscriptions/s")
    now_ms = time.time_ns() // 1_000_000
    await admin.publish(f"{SEGMENT}/a/0000-ffff-0", b"old", publish_time=now_ms - HOUR_MS)
    await admin.post(f"{ROOT}/a/split/0")
    for descriptor in ("0000-7fff-1", "8000-ffff-2"):
        await admin.publish(f"{SEGMENT}/a/{descriptor}", b"new", publish_time=now_ms + HOUR_MS)


async def backlog(admin: Admin, name: str = "s") -> dict[str, int]:
    found = (await admin.get(f"{ROOT}/a/subscriptions/{name}")).json
    counts: dict[str, int] = found["backlog"]
    assert found["msgBacklog"] == sum(counts.values())
    return counts


def test_a_subscription_covers_the_whole_topic_and_is_listed() -> None:
    async def body(admin: Admin) -> None:
        await prepare(admin)
        assert (await admin.put(f"{ROOT}/a/subscriptions/q?type=QUEUE")).status == 204
        found = (await admin.get(f"{ROOT}/a/subscriptions")).json
        assert {name: each["type"] for name, each in found.items()} == {"q": "QUEUE", "s": "STREAM"}
        assert await backlog(admin) == {"0": 1, "1": 1, "2": 1}

    run(body)


def test_a_subscription_that_exists_keeps_its_kind() -> None:
    async def body(admin: Admin) -> None:
        await prepare(admin)
        assert (await admin.put(f"{ROOT}/a/subscriptions/s?type=QUEUE")).status == 204
        assert (await admin.get(f"{ROOT}/a/subscriptions/s")).json["type"] == "STREAM"

    run(body)


@pytest.mark.parametrize("kind", ["CHECKPOINT", "bogus"])
def test_a_kind_that_cannot_be_made_is_refused(kind: str) -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{ROOT}/a")
        refused = await admin.put(f"{ROOT}/a/subscriptions/c?type={kind}")
        assert (refused.status, refused.reason) == (400, f"type is STREAM or QUEUE, not {kind!r}")
        assert (await admin.get(f"{ROOT}/a/subscriptions")).json == {}

    run(body)


def test_clearing_the_backlog_reaches_every_segment() -> None:
    async def body(admin: Admin) -> None:
        await prepare(admin)
        assert (await admin.post(f"{ROOT}/a/subscriptions/s/skip-all")).status == 204
        assert await backlog(admin) == {"0": 0, "1": 0, "2": 0}

    run(body)


def test_a_seek_moves_the_subscription_in_every_segment() -> None:
    async def body(admin: Admin) -> None:
        await prepare(admin)
        await admin.post(f"{ROOT}/a/subscriptions/s/skip-all")
        seek = f"{ROOT}/a/subscriptions/s/seek"
        assert (await admin.post(f"{seek}?timestamp=0")).status == 204
        assert await backlog(admin) == {"0": 1, "1": 1, "2": 1}
        later_ms = time.time_ns() // 1_000_000 + HOUR_MS // 2
        assert (await admin.post(f"{seek}?timestamp={later_ms}")).status == 204
        assert await backlog(admin) == {"0": 0, "1": 1, "2": 1}
        refused = await admin.post(seek)
        assert refused.status == 400 and "timestamp is needed" in refused.reason

    run(body)


def test_messages_expire_by_age_in_every_segment() -> None:
    async def body(admin: Admin) -> None:
        await prepare(admin)
        assert (await admin.post(f"{ROOT}/a/subscriptions/s/expireMessages/60")).status == 204
        assert await backlog(admin) == {"0": 0, "1": 1, "2": 1}
        assert (await admin.post(f"{ROOT}/a/subscriptions/s/expireMessages/-1")).status == 412

    run(body)


def test_a_subscription_that_is_not_there_is_a_404() -> None:
    async def body(admin: Admin) -> None:
        await prepare(admin)
        missing = f"{ROOT}/a/subscriptions/nosuch"
        for method, path in (
            ("GET", missing),
            ("DELETE", missing),
            ("POST", f"{missing}/seek?timestamp=0"),
            ("POST", f"{missing}/skip-all"),
            ("POST", f"{missing}/expireMessages/1"),
        ):
            reply = await admin.call(method, path)
            assert (path, reply.status) == (path, 404) and "nosuch" in reply.reason

    run(body)


def test_a_deleted_subscription_leaves_no_cursor_behind() -> None:
    async def body(admin: Admin) -> None:
        await prepare(admin)
        assert (await admin.delete(f"{ROOT}/a/subscriptions/s")).status == 204
        assert (await admin.get(f"{ROOT}/a/subscriptions")).json == {}
        for descriptor in ("0000-ffff-0", "0000-7fff-1", "8000-ffff-2"):
            live = await admin.service.catalog.load_topic(parse_topic(f"{SEGMENT}/a/{descriptor}"))
            assert not live.subscriptions

    run(body)

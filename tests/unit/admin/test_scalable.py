from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.admin.assembly import V2, Admin, Reply, run

ROOT = f"{V2}/scalable/public/default"
FULL = "topic://public/default"
SEGMENT = "segment://public/default"


async def segments(admin: Admin, topic: str) -> dict[str, Any]:
    found: dict[str, Any] = (await admin.get(f"{ROOT}/{topic}")).json["segments"]
    return found


async def active(admin: Admin, topic: str) -> list[str]:
    """Ranges that take writes, by hash."""
    found = [each for each in (await segments(admin, topic)).values() if each["active"]]
    spans = sorted((each["hashRange"]["start"], each["hashRange"]["end"]) for each in found)
    return [f"{start:04x}-{end:04x}" for start, end in spans]


def is_refused(reply: Reply, status: int, *words: str) -> bool:
    return reply.status == status and all(word in reply.reason for word in words)


# The topic
def test_a_scalable_topic_is_made_shown_and_listed() -> None:
    async def body(admin: Admin) -> None:
        made = await admin.put(f"{ROOT}/a?numInitialSegments=2", {"team": "x"})
        assert made.status == 204
        record = (await admin.get(f"{ROOT}/a")).json
        assert (record["epoch"], record["nextSegmentId"]) == (0, 2)
        assert record["properties"] == {"team": "x"}
        assert await active(admin, "a") == ["0000-7fff", "8000-ffff"]
        assert (await admin.put(f"{ROOT}/b")).status == 204
        assert await active(admin, "b") == ["0000-ffff"]
        assert (await admin.get(ROOT)).json == [f"{FULL}/a", f"{FULL}/b"]
        again = await admin.put(f"{ROOT}/a")
        assert is_refused(again, 409, f"Scalable topic already exists: {FULL}/a")

    run(body)


def test_both_spellings_of_the_path_are_one_interface() -> None:
    async def body(admin: Admin) -> None:
        other = f"{V2}/scalable-topics/public/default"
        assert (await admin.put(f"{other}/a?numInitialSegments=2")).status == 204
        assert (await admin.post(f"{other}/a/split/0")).status == 204
        assert (await admin.get(f"{ROOT}/a")).json == (await admin.get(f"{other}/a")).json
        assert (await admin.get(ROOT)).json == (await admin.get(other)).json == [f"{FULL}/a"]

    run(body)


@pytest.mark.parametrize(
    ("query", "status", "sentence"),
    [
        ("numInitialSegments=0", 412, "numInitialSegments must be >= 1"),
        ("numInitialSegments=-3", 412, "numInitialSegments must be >= 1"),
        ("numInitialSegments=70000", 412, "numInitialSegments must be <= 65536"),
        ("numInitialSegments=abc", 400, "numInitialSegments is a whole number, not 'abc'"),
    ],
)
def test_a_number_of_segments_that_cannot_be_is_refused_and_nothing_is_made(
    query: str, status: int, sentence: str
) -> None:
    async def body(admin: Admin) -> None:
        refused = await admin.put(f"{ROOT}/a?{query}")
        assert (refused.status, refused.reason) == (status, sentence)
        assert (await admin.get(ROOT)).json == []

    run(body)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (f"{ROOT}/p-partition-0", 412),
        (f"{ROOT}/%20padded", 412),
        (f"{ROOT}/padded%20", 412),
        (f"{V2}/scalable/public/nosuchns/x", 404),
        (f"{V2}/scalable/nosuchtenant/ns/x", 404),
    ],
)
def test_a_topic_that_cannot_be_is_refused_with_a_sentence(path: str, status: int) -> None:
    async def body(admin: Admin) -> None:
        refused = await admin.put(path)
        assert refused.status == status and refused.reason
        assert (await admin.get(ROOT)).json == []

    run(body)


@pytest.mark.parametrize(
    ("spelled", "name"),
    [("name%2Fslash", "name/slash"), ("has%20space", "has space"), ("has+space", "has space")],
)
def test_a_name_that_needs_escapes_works_everywhere(spelled: str, name: str) -> None:
    async def body(admin: Admin) -> None:
        path = f"{ROOT}/{spelled}"
        assert (await admin.put(path)).status == 204
        assert (await admin.get(ROOT)).json == [f"{FULL}/{name}"]
        assert (await admin.put(f"{path}/subscriptions/s")).status == 204
        assert (await admin.post(f"{path}/split/0")).status == 204
        stats = (await admin.get(f"{path}/stats")).json
        assert stats["segments"]["1"]["name"] == f"{SEGMENT}/{name}/0000-7fff-1"
        segment = f"{V2}/segments/public/default/{spelled}/0000-7fff-1/subscription/s/backlog"
        assert (await admin.get(segment)).json == 0
        assert (await admin.delete(f"{path}?force=true")).status == 204
        assert (await admin.get(path)).status == 404

    run(body)


def test_no_kind_of_topic_hides_another_of_the_same_name() -> None:
    async def body(admin: Admin) -> None:
        regular = f"{V2}/persistent/public/default"
        await admin.put(f"{regular}/reg")
        await admin.put(f"{regular}/parts/partitions", 2)
        for name in ("reg", "parts"):
            assert (await admin.put(f"{ROOT}/{name}")).status == 409
        await admin.put(f"{ROOT}/a")
        assert (await admin.put(f"{regular}/a")).status == 409
        assert (await admin.put(f"{regular}/a/partitions", 2)).status == 409
        assert (await admin.get(ROOT)).json == [f"{FULL}/a"]

    run(body)


def test_topics_are_found_by_their_properties_and_these_can_be_changed() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{ROOT}/a", {"team": "x", "k": "v"})
        await admin.put(f"{ROOT}/b", {"team": "x"})
        for query, expected in (
            ("property=team%3Dx", ["a", "b"]),
            ("property=team=x&property=k=v", ["a"]),
            ("property=team=y", []),
            ("property=k=v&property=k=w", []),
        ):
            found = (await admin.get(f"{ROOT}?{query}")).json
            assert found == [f"{FULL}/{name}" for name in expected]
        for wrong in ("nonsense", "k=", "=v"):
            refused = await admin.get(f"{ROOT}?property={wrong}")
            sentence = f"property filter must be in the form key=value, got: {wrong}"
            assert (refused.status, refused.reason) == (412, sentence)
        assert (await admin.put(f"{ROOT}/b/properties", {"team": "y"})).status == 204
        assert (await admin.get(f"{ROOT}/b/properties")).json == {"team": "y"}
        assert (await admin.get(f"{ROOT}?property=team=y")).json == [f"{FULL}/b"]
        assert (await admin.put(f"{ROOT}/nosuch/properties", {})).status == 404
        # A change by others than the controller is not undone by its next change.
        await admin.post(f"{ROOT}/b/split/0")
        assert (await admin.get(f"{ROOT}/b/properties")).json == {"team": "y"}

    run(body)


def test_a_body_that_is_no_map_of_texts_is_refused() -> None:
    async def body(admin: Admin) -> None:
        assert (await admin.call("PUT", f"{ROOT}/a", raw=b"{oops")).status == 400
        assert (await admin.put(f"{ROOT}/a", ["x"])).status == 400
        assert (await admin.get(ROOT)).json == []

    run(body)


def test_a_topic_in_use_is_deleted_by_force_only_and_is_gone_at_once() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{ROOT}/a?numInitialSegments=2")
        await admin.put(f"{ROOT}/a/subscriptions/s")
        await admin.post(f"{ROOT}/a/split/0")
        assert is_refused(await admin.delete(f"{ROOT}/a"), 412, "subscription s")
        assert (await admin.get(f"{ROOT}/a")).status == 200
        assert (await admin.delete(f"{ROOT}/a?force=true")).status == 204
        assert (await admin.get(ROOT)).json == []
        gone = await admin.delete(f"{ROOT}/a?force=true")
        sentence = f"Scalable topic not found: {FULL}/a"
        assert (gone.status, gone.reason) == (404, sentence)
        assert not [name for name in admin.service.catalog.topics if name.startswith("segment://")]
        assert (await admin.put(f"{ROOT}/a")).status == 204
        assert (await admin.get(f"{ROOT}/a")).json["epoch"] == 0
        assert (await admin.delete(f"{ROOT}/a")).status == 204

    run(body)


def test_every_call_about_a_missing_topic_is_a_404() -> None:
    async def body(admin: Admin) -> None:
        calls = [
            ("GET", ""),
            ("DELETE", ""),
            ("GET", "/stats"),
            ("GET", "/segments"),
            ("GET", "/segments/0"),
            ("GET", "/load"),
            ("GET", "/explain"),
            ("GET", "/history"),
            ("GET", "/policy"),
            ("GET", "/properties"),
            ("POST", "/split/0"),
            ("POST", "/merge/0/1"),
            ("POST", "/scale?segments=2"),
            ("POST", "/prune"),
            ("GET", "/subscriptions"),
            ("GET", "/subscriptions/s"),
            ("PUT", "/subscriptions/s"),
            ("DELETE", "/subscriptions/s"),
            ("POST", "/subscriptions/s/seek?timestamp=0"),
            ("POST", "/subscriptions/s/skip-all"),
            ("POST", "/subscriptions/s/expireMessages/1"),
            ("GET", "/segments/0/subscriptions/s/position/1"),
            ("GET", "/autoScalePolicy"),
            ("DELETE", "/autoScalePolicy"),
        ]
        for method, path in calls:
            reply = await admin.call(method, f"{ROOT}/nosuch{path}")
            sentence = f"Scalable topic not found: {FULL}/nosuch"
            assert (path, reply.status, reply.reason) == (path, 404, sentence)
        assert (await admin.get(ROOT)).json == []

    run(body)


# The layout
def test_segments_split_and_merge_and_the_history_tells() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{ROOT}/a?numInitialSegments=2")
        assert (await admin.post(f"{ROOT}/a/split/0")).status == 204
        assert await active(admin, "a") == ["0000-3fff", "4000-7fff", "8000-ffff"]
        assert (await admin.post(f"{ROOT}/a/merge/3/2")).status == 204
        assert (await admin.post(f"{ROOT}/a/merge/1/4")).status == 204
        assert await active(admin, "a") == ["0000-ffff"]
        record = (await admin.get(f"{ROOT}/a")).json
        assert (record["epoch"], record["nextSegmentId"]) == (3, 6)
        history = (await admin.get(f"{ROOT}/a/history")).json
        assert [(each["kind"], each["segmentIds"], each["childIds"]) for each in history] == [
            ("SPLIT", [0], [2, 3]),
            ("MERGE", [3, 2], [4]),
            ("MERGE", [1, 4], [5]),
        ]
        assert {each["reason"] for each in history} == {"manual"}

    run(body)


@pytest.mark.parametrize(("at", "lower"), [("24576", "0000-5fff"), ("0x6000", "0000-5fff")])
def test_a_segment_splits_at_a_hash(at: str, lower: str) -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{ROOT}/a")
        assert (await admin.post(f"{ROOT}/a/split/0?at={at}")).status == 204
        assert (await active(admin, "a"))[0] == lower

    run(body)


@pytest.mark.parametrize(
    ("call", "status", "words"),
    [
        ("split/0", 412, "segment 0: it is sealed"),
        ("split/99", 404, "Segment not found: 99"),
        ("split/-1", 404, "Segment not found: -1"),
        ("split/abc", 400, "segment is a whole number"),
        ("split/1?at=0", 412, "can be split at 8001 to ffff"),
        ("split/1?at=70000", 412, "can be split at 8001 to ffff"),
        ("split/1?at=middle", 400, "at is a hash"),
        ("merge/1/2", 412, "not adjacent"),
        ("merge/1/1", 412, "not adjacent"),
        ("merge/0/1", 412, "segment 0: it is sealed"),
        ("merge/2/99", 404, "Segment not found: 99"),
        ("scale?segments=0", 412, "from 1 to 65536"),
        ("scale?segments=70000", 412, "from 1 to 65536"),
        ("scale", 400, "segments is needed"),
    ],
)
def test_a_change_that_cannot_be_is_refused_with_a_sentence_and_changes_nothing(
    call: str, status: int, words: str
) -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{ROOT}/a?numInitialSegments=2")
        await admin.post(f"{ROOT}/a/split/0")
        before = (await admin.get(f"{ROOT}/a")).json
        assert is_refused(await admin.post(f"{ROOT}/a/{call}"), status, words)
        assert (await admin.get(f"{ROOT}/a")).json == before

    run(body)


def test_a_range_of_one_hash_is_not_split() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{ROOT}/a")
        await admin.post(f"{ROOT}/a/split/0?at=1")
        assert await active(admin, "a") == ["0000-0000", "0001-ffff"]
        refused = await admin.post(f"{ROOT}/a/split/1")
        assert is_refused(refused, 412, "0000-0000 is a single hash")

    run(body)


@pytest.mark.parametrize("count", [1, 3, 8])
def test_a_topic_scales_to_a_number_of_segments(count: int) -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{ROOT}/a?numInitialSegments=4")
        assert (await admin.post(f"{ROOT}/a/scale?segments={count}")).status == 204
        assert len(await active(admin, "a")) == count

    run(body)


def test_of_two_admins_who_split_the_same_segment_one_is_refused() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{ROOT}/a")
        replies = await asyncio.gather(*(admin.post(f"{ROOT}/a/split/0") for _ in range(2)))
        assert sorted(reply.status for reply in replies) == [204, 412]
        assert await active(admin, "a") == ["0000-7fff", "8000-ffff"]

    run(body)


def test_admins_who_split_and_merge_at_once_leave_a_whole_ring() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{ROOT}/a?numInitialSegments=2")
        calls = ["split/0", "merge/0/1", "split/1", "merge/1/0", "split/0"]
        replies = await asyncio.gather(*(admin.post(f"{ROOT}/a/{call}") for call in calls))
        assert {reply.status for reply in replies} == {204, 412}
        record = (await admin.get(f"{ROOT}/a")).json
        assert record["epoch"] == sum(reply.status == 204 for reply in replies)
        places = [int(edge, 16) for span in await active(admin, "a") for edge in span.split("-")]
        assert (places[0], places[-1]) == (0, 0xFFFF)
        assert all(
            last + 1 == first for last, first in zip(places[1:-1:2], places[2::2], strict=True)
        )

    run(body)


def test_a_topic_deleted_during_a_split_is_gone_with_all_its_segments() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{ROOT}/a?numInitialSegments=2")
        split, deleted, late = await asyncio.gather(
            admin.post(f"{ROOT}/a/split/0"),
            admin.delete(f"{ROOT}/a?force=true"),
            admin.post(f"{ROOT}/a/split/1"),
        )
        assert deleted.status == 204
        assert split.status in (204, 404) and late.status in (204, 404, 409)
        assert (await admin.get(f"{ROOT}/a")).status == 404
        assert (await admin.get(ROOT)).json == []
        assert not await admin.service.store.children("/managed-ledgers/public/default/segment")

    run(body)


def test_pruning_removes_what_nobody_needs() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{ROOT}/a")
        await admin.put(f"{ROOT}/a/subscriptions/s")
        await admin.publish(f"{SEGMENT}/a/0000-ffff-0", b"x")
        await admin.post(f"{ROOT}/a/split/0")
        kept = await admin.post(f"{ROOT}/a/prune")
        assert (kept.status, kept.json) == (200, [])
        await admin.post(f"{ROOT}/a/subscriptions/s/skip-all")
        assert (await admin.post(f"{ROOT}/a/prune")).json == [0]
        assert set(await segments(admin, "a")) == {"1", "2"}

    run(body)

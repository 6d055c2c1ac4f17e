"""What queries ask that read many topics at once."""

from __future__ import annotations

from typing import Any

from magnetar.model.name import parse_topic
from tests.unit.admin.assembly import V2, Admin, run

READS = f"{V2}/reads"
TOPIC = "persistent://public/default/{}"


async def _fill(admin: Admin, name: str, *batches: int) -> list[str]:
    """Entries that hold so many messages each."""
    await admin.service.catalog.load_topic(parse_topic(TOPIC.format(name)), create=True)
    places = []
    for count in batches:
        more = {} if count == 1 else {"num_messages_in_batch": count}
        places.append(await admin.publish(TOPIC.format(name), b"x" * count, **more))
    return [f"{each.ledger_id}:{each.entry_id}" for each in places]


async def _plan(admin: Admin, **query: Any) -> Any:
    reply = await admin.post(f"{READS}/plan", query)
    assert reply.status == 200, reply.body
    return reply.json


def test_one_call_tells_parts_ends_and_lag_of_all_topics() -> None:
    async def body(admin: Admin) -> None:
        places = await _fill(admin, "a", 1, 5, 1)
        await _fill(admin, "b")
        await admin.put(f"{V2}/persistent/public/default/p/partitions", 2)
        await admin.put(f"{V2}/scalable/public/default/s?numInitialSegments=2")
        names = [f"public/default/{each}" for each in ("a", "b", "p", "s", "nosuch")]
        positions = {"public/default/a": {"0": places[0]}}
        plan = await _plan(admin, topics=names, positions=positions)
        topics = {each["name"].rpartition("/")[2]: each for each in plan["topics"]}
        assert plan["missing"] == ["public/default/nosuch"]
        assert [len(topics[each]["parts"]) for each in "abps"] == [1, 1, 2, 2]
        part = topics["a"]["parts"][0]
        assert (part["end"], part["entries"]) == (places[-1], 2)
        assert topics["s"]["parts"][1]["name"].startswith("segment://public/default/s/")
        listed = await _plan(admin, namespace="public/default", pattern="[as]")
        assert [each["name"][-1] for each in listed["topics"]] == ["a", "s"]

    run(body)


def test_topics_come_by_pages() -> None:
    async def body(admin: Admin) -> None:
        for name in "abc":
            await _fill(admin, name, 1)
        first = await _plan(admin, namespace="public/default", limit=2)
        assert [each["name"][-1] for each in first["topics"]] == ["a", "b"]
        last = await _plan(admin, namespace="public/default", limit=2, after=first["more"])
        assert [each["name"][-1] for each in last["topics"]] == ["c"]
        assert "more" not in last

    run(body)


def test_an_idle_topic_is_told_from_its_record() -> None:
    async def body(admin: Admin) -> None:
        places = await _fill(admin, "a", 1, 1)
        name = parse_topic(TOPIC.format("a"))
        seen = (await _plan(admin, topics=["public/default/a"]))["topics"]
        await admin.service.catalog.unload_topic(name)
        again = (await _plan(admin, topics=["public/default/a"]))["topics"]
        assert again == seen
        assert again[0]["parts"][0]["end"] == places[-1]
        assert admin.service.catalog.find(name) is None

    run(body)


def test_a_version_says_that_nothing_is_new() -> None:
    async def body(admin: Admin) -> None:
        await _fill(admin, "a", 1)
        query = {"namespace": "public/default"}
        version = (await _plan(admin, **query))["version"]
        again = await _plan(admin, **query, version=version)
        assert again == {"version": version, "isUnchanged": True}
        await _fill(admin, "a", 1)
        changed = await _plan(admin, **query, version=version)
        assert changed["topics"][0]["parts"][0]["entries"] == 2
        await _fill(admin, "b")
        listed = await _plan(admin, **query, version=changed["version"])
        assert len(listed["topics"]) == 2

    run(body)


async def _cut(admin: Admin, names: list[str], **limit: int) -> Any:
    plan = await _plan(admin, topics=names)
    parts = [
        {"name": part["name"], "after": "-1:-1", "through": part["end"], "weight": part["size"]}
        for topic in plan["topics"]
        for part in topic["parts"]
    ]
    reply = await admin.post(f"{READS}/cut", {"parts": parts, **limit})
    assert reply.status == 200, reply.body
    return reply.json


def test_a_limit_of_messages_is_exact_over_batches_of_any_size() -> None:
    async def body(admin: Admin) -> None:
        places = await _fill(admin, "a", 10, 1, 10, 1, 10, 1)
        reached = (await _cut(admin, ["public/default/a"], messages=21))[0]
        assert (reached["messages"], reached["position"]) == (21, places[2])
        reached = (await _cut(admin, ["public/default/a"], messages=20))[0]
        assert (reached["messages"], reached["position"]) == (11, places[1])
        reached = (await _cut(admin, ["public/default/a"], messages=3))[0]
        assert (reached["messages"], reached["position"]) == (10, places[0])
        everything = (await _cut(admin, ["public/default/a"], messages=1000))[0]
        assert (everything["messages"], everything["isEnd"]) == (33, True)

    run(body)


def test_parts_share_a_limit_and_together_keep_to_it() -> None:
    async def body(admin: Admin) -> None:
        await _fill(admin, "a", *[1] * 600)
        await _fill(admin, "b", *[1] * 100, 50)
        await _fill(admin, "c", 1)
        names = [f"public/default/{each}" for each in "abc"]
        reached = await _cut(admin, names, messages=70)
        counts = [each.get("messages", 0) for each in reached]
        assert sum(counts) == 70
        assert counts[0] > counts[1] > 0
        sized = await _cut(admin, names, size=2000)
        assert 0 < sum(each.get("size", 0) for each in sized) <= 2000
        few = await _cut(admin, names, messages=2)
        assert sum(each.get("messages", 0) for each in few) == 2

    run(body)


def test_a_hold_is_made_moved_listed_and_released() -> None:
    async def body(admin: Admin) -> None:
        places = await _fill(admin, "a", 1, 1, 1)
        await admin.put(f"{V2}/scalable/public/default/s?numInitialSegments=2")
        plan = await _plan(admin, topics=["public/default/s"])
        names = [TOPIC.format("a"), *(each["name"] for each in plan["topics"][0]["parts"])]
        moves = [{"name": name, "position": "-1:-1"} for name in names]
        gone = {"name": TOPIC.format("nosuch"), "position": "-1:-1"}
        made = await admin.post(f"{READS}/holds/q", [*moves, gone])
        assert made.json == [gone["name"]]
        moved = [{"name": names[0], "position": places[1]}]
        assert (await admin.post(f"{READS}/holds/q", moved)).json == []
        back = [{"name": names[0], "position": places[0]}]
        assert (await admin.post(f"{READS}/holds/q", back)).json == []
        held = (await admin.get(f"{READS}/holds/public/default")).json
        topics = [TOPIC.format("a"), "topic://public/default/s"]
        assert held == {"q": {"topics": topics, "entries": 1}}
        plan = await _plan(admin, topics=["public/default/a"], hold="q")
        assert plan["topics"][0]["parts"][0]["isHeld"]
        assert (await admin.delete(f"{READS}/holds/public/default/q")).json == 2
        assert (await admin.get(f"{READS}/holds/public/default")).json == {}

    run(body)


def test_what_cannot_be_asked_is_refused() -> None:
    async def body(admin: Admin) -> None:
        for query in ({}, {"topics": ["a"], "namespace": "public/default"}):
            assert (await admin.post(f"{READS}/plan", query)).status == 400
        bad = {"parts": [{"name": TOPIC.format("a"), "after": "x", "through": "1:1"}]}
        assert (await admin.post(f"{READS}/cut", bad)).status == 400
        reply = await admin.post(f"{READS}/plan", {"topics": ["a"], "version": "nonsense"})
        assert (reply.status, reply.reason) == (400, "version is that of an earlier answer")

    run(body)

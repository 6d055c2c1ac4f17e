"""What the rest of the interface knows of scalable topics."""

from __future__ import annotations

from magnetar.broker.persistent import PersistentTopic
from magnetar.model.name import parse_topic
from tests.unit.admin.assembly import V2, Admin, run

ROOT = f"{V2}/scalable/public/default"
FULL = "topic://public/default"
SEGMENT = "segment://public/default"
NAMESPACE = f"{V2}/namespaces/public/default"


def test_lists_of_regular_topics_show_neither_scalable_ones_nor_segments() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{ROOT}/a?numInitialSegments=2")
        await admin.put(f"{V2}/persistent/public/default/reg")
        regular = ["persistent://public/default/reg"]
        for path in (f"{V2}/persistent/public/default", f"{NAMESPACE}/topics?mode=ALL"):
            assert (await admin.get(path)).json == regular
        for path in (f"{NAMESPACE}/topics?mode=SCALABLE", f"{V2}/topic/public/default"):
            assert (await admin.get(path)).json == [f"{FULL}/a"]

    run(body)


def test_a_namespace_with_a_scalable_topic_is_deleted_by_force_only() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{V2}/namespaces/public/probe")
        topic = f"{V2}/scalable/public/probe/a"
        await admin.put(f"{topic}?numInitialSegments=2")
        await admin.put(f"{topic}/subscriptions/s")
        await admin.post(f"{topic}/split/0")
        refused = await admin.delete(f"{V2}/namespaces/public/probe")
        assert (refused.status, refused.reason) == (409, "Cannot delete non empty namespace")
        assert (await admin.delete(f"{V2}/namespaces/public/probe?force=true")).status == 204
        assert (await admin.get(topic)).status == 404
        assert not await admin.service.store.children("/topics/public/probe")
        assert not await admin.service.store.children("/managed-ledgers/public/probe/segment")
        await admin.put(f"{V2}/namespaces/public/probe")
        assert (await admin.get(f"{V2}/scalable/public/probe")).json == []

    run(body, forceDeleteNamespaceAllowed=True)


def test_a_scalable_topic_counts_as_one_of_the_namespace_s_topics() -> None:
    async def body(admin: Admin) -> None:
        await admin.post(f"{NAMESPACE}/maxTopicsPerNamespace", 2)
        assert (await admin.put(f"{ROOT}/a?numInitialSegments=8")).status == 204
        assert (await admin.put(f"{V2}/persistent/public/default/reg")).status == 204
        assert (await admin.put(f"{V2}/persistent/public/default/more")).status == 412
        assert (await admin.put(f"{ROOT}/more")).status == 412
        assert (await admin.post(f"{ROOT}/a/split/0")).status == 204

    run(body)


def test_what_is_done_to_a_namespace_reaches_its_scalable_topics() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{ROOT}/a")
        for name in ("s", "t"):
            await admin.put(f"{ROOT}/a/subscriptions/{name}")
        await admin.publish(f"{SEGMENT}/a/0000-ffff-0", b"x")
        assert (await admin.post(f"{NAMESPACE}/clearBacklog/s")).status == 204
        found = (await admin.get(f"{ROOT}/a/subscriptions")).json
        assert {name: each["msgBacklog"] for name, each in found.items()} == {"s": 0, "t": 1}
        assert (await admin.post(f"{NAMESPACE}/clearBacklog")).status == 204
        assert (await admin.get(f"{ROOT}/a/subscriptions/t")).json["msgBacklog"] == 0
        assert (await admin.post(f"{NAMESPACE}/unsubscribe/s")).status == 204
        assert list((await admin.get(f"{ROOT}/a/subscriptions")).json) == ["t"]
        assert (await admin.put(f"{NAMESPACE}/unload")).status == 204
        assert f"{SEGMENT}/a/0000-ffff-0" not in admin.service.catalog.topics

    run(body)


def test_policies_of_a_scalable_topic_hold_for_its_segments_also_for_new_ones() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{ROOT}/a")
        policies = f"{V2}/topic/public/default/a"
        assert (await admin.post(f"{policies}/maxProducers", 3)).status == 204
        assert (await admin.get(f"{policies}/maxProducers")).json == 3
        await admin.post(f"{ROOT}/a/split/0")
        for descriptor in ("0000-ffff-0", "0000-7fff-1", "8000-ffff-2"):
            live = await admin.service.catalog.load_topic(parse_topic(f"{SEGMENT}/a/{descriptor}"))
            assert isinstance(live, PersistentTopic)
            assert live.policy.max_producers == 3
        assert (await admin.delete(f"{policies}/maxProducers")).status == 204
        assert live.policy.max_producers == 0
        assert (await admin.get(f"{policies}/maxProducers")).status == 204

    run(body)


def test_policies_of_a_scalable_topic_need_the_topic_and_go_with_it() -> None:
    async def body(admin: Admin) -> None:
        retention = {"retentionTimeInMinutes": 5, "retentionSizeInMB": 20480}
        path = f"{V2}/topic/public/default/name%2Fslash/retention"
        assert (await admin.post(path, retention)).status == 404
        await admin.put(f"{ROOT}/name%2Fslash")
        assert (await admin.post(path, retention)).status == 204
        assert (await admin.get(path)).json == retention
        await admin.delete(f"{ROOT}/name%2Fslash")
        await admin.put(f"{ROOT}/name%2Fslash")
        assert (await admin.get(path)).status == 204

    run(body)


def test_a_broker_is_found_for_a_scalable_topic_and_for_its_segments() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{ROOT}/a")
        for name in ("topic/public/default/a", "segment/public/default/a%2F0000-ffff-0"):
            found = await admin.get(f"/lookup/v2/topic/{name}")
            assert found.json["brokerUrl"] == "pulsar://broker.test:6650"
            assert (await admin.get(f"/lookup/v2/topic/{name}/bundle")).status == 200
        assert (await admin.get("/lookup/v2/topic/topic/public/nosuch/a")).status == 404

    run(body)

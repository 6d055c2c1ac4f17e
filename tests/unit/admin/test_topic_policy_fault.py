"""Topic policies over REST: what cannot be set, and what stands where it should not."""

from __future__ import annotations

from typing import Any

import pytest

from magnetar.metadata.store import ANY_VERSION
from magnetar.model.name import parse_topic
from tests.unit.admin.assembly import V2, Admin, run

TOPICS = f"{V2}/persistent/public/default"
NAMESPACE = f"{V2}/namespaces/public/default"
METADATA = "org.apache.pulsar.broker.service.MetadataStoreTopicPoliciesService"
LOCAL = "/admin/topic-policies/local/public/default/persistent/t"


@pytest.mark.parametrize("backend", [METADATA, ""])
def test_policies_need_a_topic_and_no_partition(backend: str) -> None:
    async def body(admin: Admin) -> None:
        assert (await admin.post(f"{TOPICS}/missing/maxProducers", 1)).status == 404
        assert (await admin.get(f"{TOPICS}/missing/maxProducers")).status == 404
        await admin.put(f"{TOPICS}/p/partitions", 2)
        reply = await admin.post(f"{TOPICS}/p-partition-0/maxProducers", 1)
        assert reply.status == 412
        assert "partition" in reply.json["reason"]
        assert (await admin.post(f"{TOPICS}/p/maxProducers", 1)).status == 204
        assert (await admin.delete(f"{TOPICS}/missing/policies")).status == 204

    run(body, topicPoliciesServiceClassName=backend)


@pytest.mark.parametrize(
    "settings", [{"topicLevelPoliciesEnabled": False}, {"systemTopicEnabled": False}]
)
def test_without_topic_policies_every_call_is_405(settings: dict[str, Any]) -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{TOPICS}/t")
        for reply in (
            await admin.get(f"{TOPICS}/t/maxProducers"),
            await admin.post(f"{TOPICS}/t/maxProducers", 1),
            await admin.delete(f"{TOPICS}/t/maxProducers"),
            await admin.delete(f"{TOPICS}/t/policies"),
        ):
            assert reply.status == 405
            assert "Topic level policies is disabled" in reply.json["reason"]
        reply = await admin.get(f"{NAMESPACE}/topicPoliciesBackend")
        assert reply.json["backend"] == "disabled"
        assert (await admin.delete(f"{TOPICS}/t")).status == 204

    run(body, **settings)


def test_a_corrupt_record_concerns_its_topic_only() -> None:
    async def body(admin: Admin) -> None:
        for name in ("t", "u"):
            await admin.put(f"{TOPICS}/{name}")
            await admin.post(f"{TOPICS}/{name}/maxProducers", 3)
        await admin.service.catalog.unload_topic(parse_topic("persistent://public/default/t"))
        store = admin.service.store
        for broken in (b"{ not json", b'{"maxProducerPerTopic": "many"}', b"\xff\xfe", b""):
            await store.put(LOCAL, broken, expect=ANY_VERSION)
            for reply in (
                await admin.get(f"{TOPICS}/t/maxProducers"),
                await admin.get(f"{TOPICS}/t/maxProducers?applied=true"),
                await admin.post(f"{TOPICS}/t/maxProducers", 4),
                await admin.delete(f"{TOPICS}/t/maxProducers"),
            ):
                assert reply.status == 500
                assert LOCAL in reply.json["reason"]
            # The other scope and the other topic know nothing of it, and the topic loads.
            assert (await admin.get(f"{TOPICS}/t/maxProducers?isGlobal=true")).status == 204
            assert (await admin.get(f"{TOPICS}/u/maxProducers")).json == 3
            assert (await admin.get(f"{TOPICS}/t/stats")).status == 200
            await admin.service.catalog.unload_topic(parse_topic("persistent://public/default/t"))
        assert (await admin.delete(f"{TOPICS}/t/policies")).status == 204
        assert (await admin.post(f"{TOPICS}/t/maxProducers", 5)).status == 204
        assert (await admin.get(f"{TOPICS}/t/maxProducers")).json == 5

    run(body, topicPoliciesServiceClassName=METADATA)


def test_the_backend_of_a_namespace_is_told_with_the_reason() -> None:
    async def body(admin: Admin) -> None:
        path = f"{NAMESPACE}/topicPoliciesBackend"
        told = (await admin.get(path)).json
        assert told == {
            "backend": "metadata-store",
            "reason": "public/default has no __change_events, so the configured metadata-store"
            " serves it",
        }
        await admin.service.store.put(
            "/managed-ledgers/public/default/persistent/__change_events", b"", expect=ANY_VERSION
        )
        assert (await admin.get(path)).json["backend"] == "system-topic"
        assert (await admin.get(f"{V2}/namespaces/public/no/topicPoliciesBackend")).status == 404

    run(body, topicPoliciesServiceClassName=METADATA)


def test_making_the_topic_of_events_does_not_move_a_namespace() -> None:
    async def body(admin: Admin) -> None:
        reply = await admin.put(f"{TOPICS}/__change_events")
        assert reply.status == 409
        assert "metadata-store" in reply.json["reason"]

    run(body, topicPoliciesServiceClassName=METADATA)


def test_a_namespace_with_policies_can_be_deleted_and_made_again() -> None:
    async def body(admin: Admin) -> None:
        space = f"{V2}/namespaces/public/again"
        for number in (1, 2):
            assert (await admin.put(space, {})).status == 204
            topic = f"{V2}/persistent/public/again/t"
            await admin.put(topic)
            assert (await admin.get(f"{topic}/maxProducers")).status == 204
            assert (await admin.post(f"{topic}/maxProducers", number)).status == 204
            listed = await admin.get(f"{V2}/persistent/public/again")
            assert listed.json == ["persistent://public/again/t"]
            assert (await admin.delete(topic)).status == 204
            assert (await admin.delete(space)).status == 204

    run(body)

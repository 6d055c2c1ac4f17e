from __future__ import annotations

from typing import Any

import pytest

from magnetar.broker.stats import topic_stats
from magnetar.model.name import parse_topic
from tests.unit.admin.assembly import V2, Admin, run

NAMESPACES = f"{V2}/namespaces"


@pytest.mark.parametrize("raw", [b"", b"  ", b"null", b"{}"])
def test_a_namespace_needs_no_body(raw: bytes) -> None:
    async def body(admin: Admin) -> None:
        reply = await admin.call("PUT", f"{NAMESPACES}/public/n", raw=raw)
        assert reply.status == 204
        found = (await admin.get(f"{NAMESPACES}/public/n")).json
        assert found["replication_clusters"] == ["standalone"]
        assert found["bundles"]["numBundles"] == 4
        assert found["bundles"]["boundaries"][1] == "0x40000000"
        assert found["deleted"] is False
        assert (await admin.put(f"{NAMESPACES}/public/n")).status == 409

    run(body)


def test_a_namespace_as_the_go_tools_write_it_is_accepted() -> None:
    async def body(admin: Admin) -> None:
        policies = {
            "bundles": {"boundaries": None, "numBundles": 3},
            "persistence": None,
            "schema_compatibility_strategy": "",
            "schema_auto_update_compatibility_strategy": "",
            "subscription_auth_mode": "",
            "replication_clusters": None,
            "auth_policies": {"namespace_auth": None, "destination_auth": None},
            "antiAffinityGroup": "",
        }
        assert (await admin.put(f"{NAMESPACES}/public/n", policies)).status == 204
        bundles = (await admin.get(f"{NAMESPACES}/public/n/bundles")).json
        assert bundles == {
            "boundaries": ["0x00000000", "0x55555555", "0xaaaaaaaa", "0xffffffff"],
            "numBundles": 3,
        }

    run(body)


@pytest.mark.parametrize(
    ("path", "policies", "status", "reason"),
    [
        ("nope/n", {}, 404, "Tenant does not exist"),
        ("public/n%40", {}, 412, "Namespace name is not valid"),
        ("public/n", {"message_ttl_in_seconds": -1}, 412, "Invalid value for message TTL"),
        ("public/n", {"replication_clusters": ["nope"]}, 403, "Cluster [nope] is not in the list"),
        ("public/n", {"numberOfTopicBuckets": 0}, 412, "Invalid value for numberOfTopicBuckets"),
        ("public/n", {"max_producers_per_topic": "abc"}, 412, "Invalid value for the namespace"),
        ("public/n", [1], 412, "Invalid value for the namespace"),
        (
            "public/n",
            {"bundles": {"boundaries": ["0x00000001", "0xffffffff"], "numBundles": 1}},
            400,
            "Input bundles do not cover the whole hash range. first:0x00000001",
        ),
        (
            "public/n",
            {"replication_clusters": ["standalone"], "allowed_clusters": ["c2"]},
            400,
            "Cluster [standalone] is not",
        ),
    ],
)
def test_a_namespace_is_refused_with_its_reason(
    path: str, policies: Any, status: int, reason: str
) -> None:
    async def body(admin: Admin) -> None:
        reply = await admin.put(f"{NAMESPACES}/{path}", policies)
        assert reply.status == status
        assert reply.reason.startswith(reason)
        assert (await admin.get(f"{NAMESPACES}/public/n")).status == 404

    run(body)


def test_missing_things_have_their_reasons() -> None:
    async def body(admin: Admin) -> None:
        for path, reason in (
            ("nope", "Tenant not found: nope"),
            ("public/nope", "Namespace does not exist"),
            ("public/nope/topics", "Namespace does not exist"),
            ("public/nope/retention", "Namespace does not exist"),
        ):
            reply = await admin.get(f"{NAMESPACES}/{path}")
            assert (reply.status, reply.reason) == (404, reason)
        reply = await admin.delete(f"{NAMESPACES}/public/nope")
        assert (reply.status, reply.reason) == (404, "Namespace public/nope does not exist.")

    run(body)


def test_a_namespace_with_topics_is_not_deleted() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{NAMESPACES}/public/n")
        await admin.put(f"{V2}/persistent/public/n/a")
        reply = await admin.delete(f"{NAMESPACES}/public/n")
        assert (reply.status, reply.reason) == (409, "Cannot delete non empty namespace")
        forced = await admin.delete(f"{NAMESPACES}/public/n?force=true")
        assert forced.status == 405
        assert (await admin.delete(f"{V2}/persistent/public/n/a")).status == 204
        assert (await admin.delete(f"{NAMESPACES}/public/n")).status == 204
        assert (await admin.get(f"{NAMESPACES}/public")).json == ["public/default"]

    run(body)


def test_a_forced_delete_leaves_nothing_behind() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{NAMESPACES}/public/n")
        topics = f"{V2}/persistent/public/n"
        await admin.put(f"{topics}/p/partitions", 3)
        await admin.put(f"{topics}/a/subscription/s")
        await admin.post(f"{topics}/a/maxProducers", 3)
        await admin.post(f"{V2}/schemas/public/n/a/schema", {"type": "STRING", "schema": ""})
        assert (await admin.delete(f"{NAMESPACES}/public/n?force=true")).status == 204
        store = admin.service.store
        for path in (
            "/admin/policies/public/n",
            "/admin/local-policies/public/n",
            "/admin/partitioned-topics/public/n",
            "/admin/topic-policies/local/public/n",
            "/managed-ledgers/public/n",
            "/schemas/public/n",
        ):
            assert not await store.exists(path), path
        await admin.put(f"{NAMESPACES}/public/n")
        assert (await admin.get(topics)).json == []

    run(body, forceDeleteNamespaceAllowed=True)


def test_topics_are_listed_by_mode() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{V2}/persistent/public/default/a")
        await admin.put(f"{V2}/non-persistent/public/default/b")
        topics = f"{NAMESPACES}/public/default/topics"
        kept, passing = "persistent://public/default/a", "non-persistent://public/default/b"
        assert (await admin.get(topics)).json == [kept]
        assert (await admin.get(f"{topics}?mode=NON_PERSISTENT")).json == [passing]
        assert (await admin.get(f"{topics}?mode=ALL")).json == [kept, passing]
        assert (await admin.get(f"{topics}?mode=other")).status == 400

    run(body)


def test_permissions_are_granted_told_and_revoked() -> None:
    async def body(admin: Admin) -> None:
        base = f"{NAMESPACES}/public/default/permissions"
        assert (await admin.get(base)).json == {}
        assert (await admin.post(f"{base}/a%2Fb", ["produce", "consume"])).status == 204
        assert (await admin.get(base)).json == {"a/b": ["produce", "consume"]}
        assert (await admin.post(f"{base}/x", ["fly"])).status == 400
        assert (await admin.post(f"{base}/x")).reason == "Actions should not be null"
        assert (await admin.delete(f"{base}/a%2Fb")).status == 204
        assert (await admin.get(base)).json == {}
        assert (await admin.post(f"{base}/subscription/s", ["r1", "r2"])).status == 204
        assert (await admin.delete(f"{base}/s/r1")).status == 204
        assert (await admin.get(f"{base}/subscription")).json == {"s": ["r2"]}

    run(body)


def test_permissions_on_many_topics_are_granted_and_revoked_together() -> None:
    async def body(admin: Admin) -> None:
        for name in ("a", "b"):
            await admin.put(f"{V2}/persistent/public/default/{name}")
        a, b = (f"persistent://public/default/{name}" for name in ("a", "b"))
        grants = [
            {"topic": a, "role": "r1", "actions": ["produce"]},
            {"topic": b, "role": "r1", "actions": ["consume", "consume"]},
            {"topic": b, "role": "r2", "actions": ["produce"]},
        ]
        missing = {"topic": f"{a}-missing", "role": "r1", "actions": ["produce"]}
        many = f"{NAMESPACES}/grantPermissionsOnTopics"
        assert (await admin.post(many, [*grants, missing])).status == 404
        on_b = f"{V2}/persistent/public/default/b/permissions"
        assert (await admin.get(on_b)).json == {}, "all or nothing"
        assert (await admin.post(many, grants)).status == 204
        assert (await admin.get(on_b)).json == {"r1": ["consume"], "r2": ["produce"]}
        gone = [{"topic": a, "role": "r1"}, {"topic": b, "role": "r2"}]
        assert (await admin.post(f"{NAMESPACES}/revokePermissionsOnTopics", gone)).status == 204
        assert (await admin.get(on_b)).json == {"r1": ["consume"]}
        assert (await admin.get(on_b.replace("/b/", "/a/"))).json == {}
        assert (
            await admin.post(many, [{"topic": a, "role": "x", "actions": ["fly"]}])
        ).status == 400
        assert (await admin.post(many)).status == 400

    run(body)


def test_a_bundle_is_split_unloaded_and_named_exactly() -> None:
    async def body(admin: Admin) -> None:
        base = f"{NAMESPACES}/public/default"
        await admin.put(f"{V2}/persistent/public/default/a")
        assert "persistent://public/default/a" in admin.service.catalog.topics
        assert (await admin.put(f"{base}/unload")).status == 204
        assert not admin.service.catalog.topics
        wrong = await admin.put(f"{base}/0x00000000_0x30000000/unload")
        assert wrong.status == 412 and wrong.reason.endswith("0x00000000_0x40000000")
        assert (await admin.put(f"{base}/bogus/unload")).status == 412
        assert (await admin.put(f"{base}/0x00000000_0x40000000/split")).status == 204
        bundles = (await admin.get(f"{base}/bundles")).json
        assert bundles["numBundles"] == 5 and "0x20000000" in bundles["boundaries"]
        unknown = f"{base}/0x00000000_0x20000000/split?splitAlgorithmName=bogus"
        assert (await admin.put(unknown)).status == 412
        lookup = "/lookup/v2/topic/persistent/public/default/a/bundle"
        bundle = (await admin.get(lookup)).body.decode()
        assert (await admin.put(f"{base}/{bundle}/unload")).status == 204
        topics = (await admin.get(f"{V2}/persistent/public/default?bundle={bundle}")).json
        assert topics == ["persistent://public/default/a"]
        assert (await admin.delete(f"{base}/{bundle}")).status == 409

    run(body)


def test_backlogs_are_cleared_and_subscriptions_removed_in_a_whole_namespace() -> None:
    async def body(admin: Admin) -> None:
        base = f"{NAMESPACES}/public/default"
        for name in ("a", "b"):
            await admin.put(f"{V2}/persistent/public/default/{name}/subscription/s", "earliest")
            await admin.publish(f"persistent://public/default/{name}", b"x")

        def backlog(name: str) -> int:
            topic = admin.service.catalog.topics[parse_topic(name).full]
            return int(topic_stats(topic)["subscriptions"]["s"]["msgBacklog"])

        assert (backlog("a"), backlog("b")) == (1, 1)
        assert (await admin.post(f"{base}/clearBacklog/other")).status == 204
        assert (backlog("a"), backlog("b")) == (1, 1)
        assert (await admin.post(f"{base}/clearBacklog")).status == 204
        assert (backlog("a"), backlog("b")) == (0, 0)
        assert (await admin.post(f"{base}/unsubscribe/s")).status == 204
        found = await admin.get(f"{V2}/persistent/public/default/a/subscriptions")
        assert found.json == []

    run(body)

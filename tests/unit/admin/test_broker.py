from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from magnetar import __version__
from magnetar.broker.stored_configuration import PATH as DYNAMIC_PATH
from magnetar.metadata.backends.memory import MemoryStore, MemoryTree
from magnetar.runtime.clock import SystemClock
from tests.unit.admin.assembly import OWNER, V2, Admin, admin_of_new_broker, run

BROKERS = f"{V2}/brokers"


def test_a_broker_tells_who_and_how_it_is() -> None:
    async def body(admin: Admin) -> None:
        assert (await admin.get(BROKERS)).json == [OWNER.broker_id]
        assert (await admin.get(f"{BROKERS}/standalone")).json == [OWNER.broker_id]
        leader = (await admin.get(f"{BROKERS}/leaderBroker")).json
        assert leader == {"serviceUrl": OWNER.web_url, "brokerId": OWNER.broker_id}
        assert (await admin.get(f"{BROKERS}/version")).body.decode() == __version__
        assert (await admin.get(f"{BROKERS}/ready")).body == b"ok"
        health = await admin.get(f"{BROKERS}/health?topicVersion=V2")
        assert (health.status, health.body) == (200, b"ok")
        assert (await admin.get(f"{BROKERS}/health?brokerId=x:1")).status == 404
        assert (await admin.get(f"{BROKERS}/backlog-quota-check")).status == 204
        assert "metadataStoreUrl" in (await admin.get(f"{BROKERS}/internal-configuration")).json

    run(body)


def test_a_closing_broker_is_not_healthy() -> None:
    async def body(admin: Admin) -> None:
        assert (await admin.get("/status.html")).body == b"OK"
        admin.service.catalog.closing = True
        assert (await admin.get(f"{BROKERS}/health")).status == 503
        assert (await admin.get("/status.html")).status == 503

    run(body)


def test_configuration_changes_at_run_time_and_survives() -> None:
    async def body(admin: Admin) -> None:
        base = f"{BROKERS}/configuration"
        assert "maxConcurrentLookupRequest" in (await admin.get(base)).json
        assert (await admin.get(f"{base}/values")).json == {}
        changed = await admin.post(f"{base}/maxConcurrentLookupRequest/7")
        assert (changed.status, changed.body) == (200, b"")
        assert (await admin.get(f"{base}/values")).json == {"maxConcurrentLookupRequest": "7"}
        assert (await admin.get(f"{base}/runtime")).json["maxConcurrentLookupRequest"] == "7"
        admin.service.config.reset_dynamic("maxConcurrentLookupRequest")
        await admin.service.stored_configuration.open()
        assert admin.service.config.maxConcurrentLookupRequest == 7
        assert (await admin.delete(f"{base}/maxConcurrentLookupRequest")).status == 200
        assert admin.service.config.maxConcurrentLookupRequest == 50_000
        assert (await admin.get(f"{base}/values")).json == {}

    run(body)


def test_a_change_reaches_every_broker_of_the_store() -> None:
    async def main() -> None:
        tree = MemoryTree(SystemClock())
        stores = MemoryStore(tree), MemoryStore(tree)
        base = f"{BROKERS}/configuration"
        async with (
            admin_of_new_broker(metadata=stores[0]) as one,
            admin_of_new_broker(metadata=stores[1], superUserRoles="root") as other,
        ):
            config = other.service.config
            assert (await one.post(f"{base}/superUserRoles/keeper")).status == 200
            async with asyncio.timeout(20):
                while set(config.superUserRoles) != {"keeper"}:
                    await asyncio.sleep(0)
                assert (await one.delete(f"{base}/superUserRoles")).status == 200
                while set(config.superUserRoles) != {"root"}:
                    await asyncio.sleep(0)
        for store in stores:
            await store.close()

    asyncio.run(main())


def test_a_value_with_slashes_is_kept_and_one_that_does_not_fit_changes_nothing() -> None:
    async def body(admin: Admin) -> None:
        base = f"{BROKERS}/configuration"
        value = "%7B%22key%2F123%22%3A%22https%3A%2F%2Fexample.com%2F%22%7D"
        path = f"{base}/allowAutoSubscriptionCreation/{value}"
        assert (await admin.post(path)).status == 200
        stored = (await admin.get(f"{base}/values")).json
        assert stored == {"allowAutoSubscriptionCreation": '{"key/123":"https://example.com/"}'}
        assert admin.service.config.allowAutoSubscriptionCreation is True
        for method, key in (("POST", "clusterName/x"), ("POST", "foo/1"), ("DELETE", "foo")):
            assert (await admin.call(method, f"{base}/{key}")).status == 412

    run(body)


def test_setting_a_key_without_effect_is_done_as_ever_and_noted() -> None:
    async def body(admin: Admin) -> None:
        base = f"{BROKERS}/configuration"
        reply = await admin.post(f"{base}/brokerPublisherThrottlingTickTimeMillis/60")
        assert (reply.status, reply.body) == (200, b"")
        note = reply.headers["x-magnetar-note"]
        assert note.startswith("brokerPublisherThrottlingTickTimeMillis has no effect: There")
        assert (await admin.get(f"{base}/values")).json == {
            "brokerPublisherThrottlingTickTimeMillis": "60"
        }
        reply = await admin.post(f"{base}/maxTenants/7")
        assert (reply.status, reply.body) == (200, b"")
        assert "x-magnetar-note" not in reply.headers

    run(body)


def test_a_record_that_is_not_ours_is_told_as_unreadable() -> None:
    async def body(admin: Admin) -> None:
        await admin.service.store.put(DYNAMIC_PATH, b"[", expect=-1)
        reply = await admin.get(f"{BROKERS}/configuration/values")
        assert reply.status == 500 and DYNAMIC_PATH in reply.reason

    run(body)


def test_what_a_broker_carries_is_told_by_namespace_and_bundle() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{V2}/persistent/public/default/a")
        await admin.put(f"{V2}/persistent/public/default/a/subscription/s")
        bundle = (await admin.get("/lookup/v2/topic/persistent/public/default/a/bundle")).body
        stats = (await admin.get(f"{V2}/broker-stats/topics")).json
        topics = stats["public/default"][bundle.decode()]["persistent"]
        assert list(topics) == ["persistent://public/default/a"]
        owned = (await admin.get(f"{BROKERS}/standalone/{OWNER.broker_id}/ownedNamespaces")).json
        assert list(owned) == [f"public/default/{bundle.decode()}"]
        assert (await admin.get(f"{BROKERS}/standalone/x:1/ownedNamespaces")).status == 404
        metrics = (await admin.get(f"{V2}/broker-stats/metrics")).json
        assert metrics[0]["dimensions"] == {"namespace": "public/default"}
        assert metrics[0]["metrics"]["brk_no_of_subscriptions"] == 1
        assert (await admin.get(f"{V2}/broker-stats/load-report")).json["numTopics"] == 1

    run(body)


@pytest.mark.parametrize("by_topic", [True, False])
def test_metrics_are_told_by_topic_or_by_namespace(by_topic: bool) -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{V2}/persistent/public/default/a")
        await admin.put(f"{V2}/persistent/public/default/a/subscription/s")
        reply = await admin.get("/metrics")
        assert reply.headers["content-type"].startswith("text/plain")
        lines = reply.body.decode().splitlines()
        namespace = 'cluster="standalone",namespace="public/default"'
        topic = f'{namespace},topic="persistent://public/default/a"'
        assert f"pulsar_topics_count{{{namespace}}} 1.0" in lines
        shown = topic if by_topic else namespace
        assert any(line.startswith(f"pulsar_rate_in{{{shown}}} ") for line in lines)
        of_subscription = f'pulsar_subscription_back_log{{{topic},subscription="s"}}'
        assert any(line.startswith(of_subscription) for line in lines) is by_topic
        assert any(line.startswith("pulsar_broker_topics_count") for line in lines)
        assert any(line.startswith("pulsar_version_info") for line in lines)
        typed = [line.split()[2] for line in lines if line.startswith("# TYPE ")]
        assert [line.split()[2] for line in lines if line.startswith("# HELP ")] == typed

    run(body, exposeTopicLevelMetricsInPrometheus=by_topic)


def test_lookup_tells_the_broker_and_the_bundle() -> None:
    async def body(admin: Admin) -> None:
        base = "/lookup/v2/topic"
        found = (await admin.get(f"{base}/persistent/public/default/any?authoritative=false")).json
        assert found == {
            "brokerId": OWNER.broker_id,
            "brokerUrl": OWNER.service_url,
            "httpUrl": OWNER.web_url,
            "nativeUrl": OWNER.service_url,
            "brokerUrlSsl": "",
        }
        await admin.post(
            f"{V2}/namespaces/public/default/autoTopicCreation", {"allowAutoTopicCreation": False}
        )
        assert (await admin.get(f"{base}/persistent/public/default/any")).status == 404
        assert (await admin.get(f"{base}/non-persistent/public/default/any")).status == 200
        missing = await admin.get(f"{base}/persistent/public/nope/any")
        assert (missing.status, missing.reason) == (404, "Namespace not found: public/nope")
        assert (await admin.get(f"{base}/bogus/public/default/any")).status == 404

    run(body)


def test_the_listener_of_a_lookup_stands_in_the_query_or_in_a_header() -> None:
    async def body(admin: Admin) -> None:
        path = "/lookup/v2/topic/persistent/public/default/any"
        by_header = replace(admin, headers={"x-pulsar-listenername": "header"})
        asked = {
            "query": await admin.get(f"{path}?listenerName=query"),
            "header": await by_header.get(path),
        }
        for name, reply in asked.items():
            refusal = f"The broker has no advertised listener named {name!r}"
            assert (reply.status, reply.reason) == (409, refusal)
        both = await by_header.get(f"{path}?listenerName=query")
        assert both.reason == asked["query"].reason

    run(body)

from __future__ import annotations

from typing import Any

import pytest

from magnetar.model.name import parse_topic
from magnetar.model.scalable import SegmentLoad
from magnetar.model.segment import SegmentId
from tests.unit.admin.assembly import V2, Admin, run

TOPIC = f"{V2}/scalable/public/default/a"
OWN = f"{TOPIC}/autoScalePolicy"
NAMESPACE = f"{V2}/namespaces/public/default/scalableTopicAutoScalePolicy"


@pytest.mark.parametrize("path", [OWN, NAMESPACE])
def test_a_policy_is_set_shown_replaced_and_removed(path: str) -> None:
    async def body(admin: Admin) -> None:
        await admin.put(TOPIC)
        assert (await admin.get(path)).status == 204
        assert (await admin.post(path, {"enabled": False, "maxSegments": 8})).status == 204
        assert (await admin.get(path)).json == {"enabled": False, "maxSegments": 8}
        assert (await admin.post(path, {"minSegments": 2})).status == 204
        assert (await admin.get(path)).json == {"minSegments": 2}
        assert (await admin.delete(path)).status == 204
        assert (await admin.get(path)).status == 204

    run(body)


@pytest.mark.parametrize("path", [OWN, NAMESPACE])
@pytest.mark.parametrize(
    ("value", "status", "words"),
    [
        ({"minSegments": 9, "maxSegments": 3}, 412, "maxSegments must be >= minSegments"),
        ({"splitMsgRateInThreshold": 1}, 412, "splitMsgRateInThreshold must be > merge"),
        ({"minSegments": 65}, 412, "maxSegments must be >= minSegments"),
        ({"bogus": 1}, 400, "bogus"),
        ({"maxSegments": "many"}, 400, "maxSegments"),
        (..., 400, "An auto-scale policy is needed"),
    ],
)
def test_a_policy_that_cannot_be_is_refused_and_the_old_one_stays(
    path: str, value: Any, status: int, words: str
) -> None:
    async def body(admin: Admin) -> None:
        await admin.put(TOPIC)
        await admin.post(path, {"maxSegments": 32})
        refused = await admin.post(path, value)
        assert refused.status == status and words in refused.reason
        assert (await admin.get(path)).json == {"maxSegments": 32}

    run(body)


def test_what_is_in_force_says_where_it_was_set() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(TOPIC)
        await admin.post(NAMESPACE, {"maxSegments": 16, "minSegments": 2})
        await admin.post(OWN, {"maxSegments": 8})
        retention = {"retentionTimeInMinutes": 5, "retentionSizeInMB": 20480}
        await admin.post(f"{V2}/topic/public/default/a/retention", retention)
        policy = (await admin.get(f"{TOPIC}/policy")).json
        scale = policy["autoScale"]
        assert scale["maxSegments"] == {"value": 8, "source": "topic"}
        assert scale["minSegments"] == {"value": 2, "source": "namespace"}
        assert scale["splitCooldownSeconds"] == {"value": 30, "source": "broker"}
        assert policy["topic"]["retentionPolicies"] == retention

    run(body, scalableTopicSplitCooldownSeconds=30)


def test_a_topic_s_policy_is_checked_against_its_namespace_s() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(TOPIC)
        await admin.post(NAMESPACE, {"mergeMsgRateInThreshold": 5000})
        assert (await admin.post(OWN, {"splitMsgRateInThreshold": 2000})).status == 412
        assert (await admin.post(OWN, {"splitMsgRateInThreshold": 6000})).status == 204

    run(body)


def test_a_split_keeps_the_policy() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(TOPIC)
        await admin.post(f"{TOPIC}/split/0")
        await admin.post(OWN, {"maxSegments": 8})
        await admin.post(f"{TOPIC}/split/1")
        assert (await admin.get(OWN)).json == {"maxSegments": 8}
        assert (await admin.get(TOPIC)).json["epoch"] == 2

    run(body)


def test_a_policy_of_what_is_not_there_is_a_404() -> None:
    async def body(admin: Admin) -> None:
        missing = f"{V2}/scalable/public/default/nosuch/autoScalePolicy"
        assert (await admin.post(missing, {"enabled": False})).status == 404
        other = f"{V2}/namespaces/public/nosuch/scalableTopicAutoScalePolicy"
        for reply in (await admin.get(other), await admin.post(other, {"enabled": False})):
            assert reply.status == 404

    run(body)


def test_a_topic_tells_its_decisions_and_why_it_stays() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{TOPIC}?numInitialSegments=2")
        name = parse_topic("topic://public/default/a")
        controller = await admin.service.scalable.controller(name)
        load = SegmentLoad(rate_in_per_s=20_000)
        await controller.state.records.scaling.store_load(name, SegmentId(1), load)
        await controller.scaler.evaluate()
        split = (await admin.get(f"{TOPIC}/decisions")).json[0]
        assert (split["decision"], split["segments"], split["reason"]) == (
            "split",
            [1],
            "msgRateIn",
        )
        assert split["loads"]["1"]["msgRateIn"] == 20_000
        history = (await admin.get(f"{TOPIC}/history")).json
        assert [(each["kind"], each["reason"]) for each in history] == [("SPLIT", "msgRateIn")]
        stats = (await admin.get(f"{TOPIC}/stats")).json
        assert stats["autoScale"]["policy"]["maxSegments"] == {"value": 64, "source": "broker"}
        assert stats["autoScale"]["lastDecision"]["activeSegments"] in (2, 3)
        assert (await admin.get(f"{TOPIC}/explain")).json["scaling"]
        metrics = (await admin.get("/metrics/")).body.decode()
        labels = 'namespace="public/default",topic="topic://public/default/a"'
        for line in (
            f'pulsar_scalable_topic_active_segments{{cluster="standalone",{labels}}} 3',
            f'pulsar_scalable_topic_auto_splits_total{{cluster="standalone",{labels}}} 1',
            f'pulsar_scalable_topic_auto_merges_total{{cluster="standalone",{labels}}} 0',
        ):
            assert line in metrics
        assert "pulsar_scalable_topic_split_suppressed_max_segments_total" in metrics
        assert "pulsar_scalable_topic_merge_suppressed_max_depth_total" in metrics

    run(body)


def test_a_topic_is_scaled_ahead_of_a_peak() -> None:
    async def body(admin: Admin) -> None:
        await admin.put(f"{TOPIC}")
        reply = await admin.post(f"{TOPIC}/scale?segments=4&holdUntil=32503680000000")
        assert reply.status == 204
        record = (await admin.get(f"{TOPIC}")).json
        assert record["magnetarScaleHold"] == {"segments": 4, "untilMs": 32_503_680_000_000}
        assert (await admin.post(f"{TOPIC}/scale?segments=4&holdUntil=noon")).status == 400

    run(body)


def test_the_proposals_spelling_of_a_key_changes_at_run_time() -> None:
    async def body(admin: Admin) -> None:
        path = f"{V2}/brokers/configuration"
        assert (await admin.post(f"{path}/scalableTopicSplitCooldown/2m")).status == 200
        assert admin.service.config.scalableTopicSplitCooldownSeconds == 120
        values = (await admin.get(f"{path}/values")).json
        assert values == {"scalableTopicSplitCooldownSeconds": "2m"}
        assert (await admin.delete(f"{path}/scalableTopicSplitCooldown")).status == 200
        assert admin.service.config.scalableTopicSplitCooldownSeconds == 60

    run(body)

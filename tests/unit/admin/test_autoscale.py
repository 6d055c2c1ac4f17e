from __future__ import annotations

from typing import Any

import pytest

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

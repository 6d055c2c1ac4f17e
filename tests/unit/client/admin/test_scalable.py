from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from magnetar.client.admin import AdminClient
from magnetar.client.admin.blocking import ScalableTopicAdmin
from magnetar.client.error import AdminConflict
from tests.unit.client.admin.web import Answer, scripted_web

ROOT = "/admin/v2/scalable/t/n"
Call = Callable[[ScalableTopicAdmin], object]


@pytest.mark.parametrize(
    ("call", "method", "path", "body"),
    [
        (
            lambda a: a.create("t/n/x", segments=4, properties={"team": "x"}),
            "PUT",
            f"{ROOT}/x?numInitialSegments=4",
            {"team": "x"},
        ),
        (lambda a: a.delete("topic://t/n/x", force=True), "DELETE", f"{ROOT}/x?force=true", ""),
        (lambda a: a.metadata("topic://t/n/a/b c"), "GET", f"{ROOT}/a%2Fb%20c", ""),
        (lambda a: a.metadata("persistent://t/n/x"), "GET", f"{ROOT}/x", ""),
        (lambda a: a.properties("t/n/x"), "GET", f"{ROOT}/x/properties", ""),
        (
            lambda a: a.set_properties("t/n/x", {"k": "v"}),
            "PUT",
            f"{ROOT}/x/properties",
            {"k": "v"},
        ),
        (lambda a: a.history("t/n/x"), "GET", f"{ROOT}/x/history", ""),
        (lambda a: a.policy("t/n/x"), "GET", f"{ROOT}/x/policy", ""),
        (lambda a: a.stats("t/n/x"), "GET", f"{ROOT}/x/stats", ""),
        (lambda a: a.segments("t/n/x"), "GET", f"{ROOT}/x/segments", ""),
        (lambda a: a.segment_stats("t/n/x", 3), "GET", f"{ROOT}/x/segments/3", ""),
        (lambda a: a.load("t/n/x"), "GET", f"{ROOT}/x/load", ""),
        (lambda a: a.explain("t/n/x"), "GET", f"{ROOT}/x/explain", ""),
        (lambda a: a.decisions("t/n/x"), "GET", f"{ROOT}/x/decisions", ""),
        (lambda a: a.split("t/n/x", 0), "POST", f"{ROOT}/x/split/0", ""),
        (lambda a: a.split("t/n/x", 0, at=24576), "POST", f"{ROOT}/x/split/0?at=24576", ""),
        (lambda a: a.merge("t/n/x", 1, 2), "POST", f"{ROOT}/x/merge/1/2", ""),
        (lambda a: a.scale("t/n/x", 8), "POST", f"{ROOT}/x/scale?segments=8", ""),
        (
            lambda a: a.scale("t/n/x", 8, hold_until_ms=17),
            "POST",
            f"{ROOT}/x/scale?segments=8&holdUntil=17",
            "",
        ),
        (lambda a: a.prune("t/n/x"), "POST", f"{ROOT}/x/prune", ""),
        (lambda a: a.subscriptions("t/n/x"), "GET", f"{ROOT}/x/subscriptions", ""),
        (lambda a: a.subscription("t/n/x", "a/b"), "GET", f"{ROOT}/x/subscriptions/a%2Fb", ""),
        (
            lambda a: a.create_subscription("t/n/x", "s", kind="QUEUE"),
            "PUT",
            f"{ROOT}/x/subscriptions/s?type=QUEUE",
            "",
        ),
        (
            lambda a: a.delete_subscription("t/n/x", "s"),
            "DELETE",
            f"{ROOT}/x/subscriptions/s?force=false",
            "",
        ),
        (
            lambda a: a.seek("t/n/x", "s", 17),
            "POST",
            f"{ROOT}/x/subscriptions/s/seek?timestamp=17",
            "",
        ),
        (lambda a: a.clear_backlog("t/n/x", "s"), "POST", f"{ROOT}/x/subscriptions/s/skip-all", ""),
        (
            lambda a: a.expire("t/n/x", "s", 60),
            "POST",
            f"{ROOT}/x/subscriptions/s/expireMessages/60",
            "",
        ),
        (lambda a: a.auto_scale_policy("t/n/x"), "GET", f"{ROOT}/x/autoScalePolicy", ""),
        (
            lambda a: a.set_auto_scale_policy("t/n/x", {"maxSegments": 8}),
            "POST",
            f"{ROOT}/x/autoScalePolicy",
            {"maxSegments": 8},
        ),
        (lambda a: a.remove_auto_scale_policy("t/n/x"), "DELETE", f"{ROOT}/x/autoScalePolicy", ""),
    ],
)
def test_a_call_becomes_one_request(call: Call, method: str, path: str, body: object) -> None:
    with scripted_web() as web, AdminClient(web.url) as admin:
        call(admin.scalable_topics)
        (asked,) = web.asked
    assert (asked.method, asked.path) == (method, path)
    assert (json.loads(asked.body) if asked.body else "") == body


def test_topics_are_listed_by_their_properties() -> None:
    with scripted_web() as web, AdminClient(web.url) as admin:
        web.answers = [Answer(200, '["topic://t/n/x"]')] * 2
        assert admin.scalable_topics.list("t/n") == ["topic://t/n/x"]
        admin.scalable_topics.list("t/n", properties={"team": "x", "a b": "c"})
        plain, filtered = web.asked
    assert plain.path == ROOT
    assert filtered.path == f"{ROOT}?property=team%3Dx&property=a+b%3Dc"


def test_a_peeked_entry_comes_with_its_headers() -> None:
    with scripted_web() as web, AdminClient(web.url) as admin:
        web.answers = [Answer(200, "hello", (("X-Pulsar-Message-ID", "3:0"),))]
        entry = admin.scalable_topics.peek("t/n/x", 2, "s", 1)
        (asked,) = web.asked
    assert asked.path == f"{ROOT}/x/segments/2/subscriptions/s/position/1"
    assert (entry.id, entry.data) == ("3:0", b"hello")


def test_a_refusal_says_what_the_broker_says() -> None:
    with scripted_web() as web, AdminClient(web.url) as admin:
        web.answers = [Answer(409, '{"reason": "Scalable topic already exists: topic://t/n/x"}')]
        with pytest.raises(AdminConflict, match="already exists"):
            admin.scalable_topics.create("t/n/x")

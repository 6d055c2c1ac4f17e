"""A whole life of a topic that scales itself, on a real broker with quick limits."""

from __future__ import annotations

import asyncio
from xml.etree import ElementTree

import pytest

from demo.auto_scale import CONSUMERS, SETTINGS, Outcome, draw, play
from magnetar.testing.broker import MagnetarBroker


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    with MagnetarBroker(set=SETTINGS) as broker:
        return asyncio.run(play(broker))


def test_a_topic_splits_for_traffic_then_for_consumers_and_merges_back(outcome: Outcome) -> None:
    reasons = [(kind, reason) for kind, _, reason in outcome.changes()]
    traffic = reasons.index(("split", "msgRateIn"))
    consumers = reasons.index(("split", "consumer-count"))
    cold = reasons.index(("merge", "cold"))
    assert traffic < consumers < cold
    assert [kind for kind, _ in reasons] == ["split"] * (CONSUMERS - 1) + ["merge"] * (
        CONSUMERS - 1
    )
    assert outcome.samples[-1].segments == 1


def test_every_key_was_read_in_order_and_nothing_was_lost(outcome: Outcome) -> None:
    assert sum(outcome.sent.values()) > 1_000
    for key, count in outcome.sent.items():
        assert outcome.seen(key) == list(range(count)), key


def test_the_decision_log_tells_what_the_layout_tells(outcome: Outcome) -> None:
    assert outcome.decided() == outcome.changes()
    stayed = [each for each in outcome.decisions if each["decision"] == "stay"]
    assert stayed and all(each["explanation"] for each in stayed)


def test_the_run_can_be_drawn(outcome: Outcome) -> None:
    drawn = ElementTree.fromstring(draw(outcome))
    assert len(drawn.findall("{http://www.w3.org/2000/svg}polyline")) == 3

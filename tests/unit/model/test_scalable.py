from __future__ import annotations

import pytest

from magnetar.model.layout import Layout
from magnetar.model.name import parse_topic
from magnetar.model.scalable import (
    HISTORY_MAX,
    ChangeKind,
    DeleteIntent,
    LayoutEvent,
    ScalableTopicMetadata,
    consumer_path,
    controller_path,
    escape_component,
    load_path,
    parse_topic_path,
    subscription_path,
    topic_path,
    unescape_component,
)
from magnetar.model.segment import SegmentId

TOPIC = parse_topic("topic://t/n/a b/c")


def test_records_stand_where_pulsar_keeps_them() -> None:
    assert topic_path(TOPIC) == "/topics/t/n/a+b%2Fc"
    assert controller_path(TOPIC) == "/topics/t/n/a+b%2Fc/controller"
    assert subscription_path(TOPIC, "my sub") == "/topics/t/n/a+b%2Fc/subscriptions/my sub"
    path = consumer_path(TOPIC, "s", "c:1")
    assert path == "/topics/t/n/a+b%2Fc/subscriptions/s/consumers/c:1"
    assert load_path(TOPIC, SegmentId(7)) == "/topics/t/n/a+b%2Fc/segments/7/load"


@pytest.mark.parametrize(
    "text", ["persistent://t/n/x", "persistent://t/n/x-partition-2", "segment://t/n/x/0000-ffff-0"]
)
def test_one_record_serves_every_spelling_of_a_topic(text: str) -> None:
    assert topic_path(parse_topic(text)) == topic_path(parse_topic("topic://t/n/x"))


@pytest.mark.parametrize("local", ["x", "a/b", "50%", "a b", "a+b", "a%2Fb", "ü"])
def test_a_record_path_leads_back_to_its_topic(local: str) -> None:
    topic = parse_topic(f"topic://t/n/{local}")
    assert parse_topic_path(topic_path(topic)) == topic


@pytest.mark.parametrize(
    "path", ["/topics/t/n", "/topics/t/n/x/controller", "/other/t/n/x", "/topics/t/n/%ff"]
)
def test_other_paths_are_no_topic(path: str) -> None:
    assert parse_topic_path(path) is None


@pytest.mark.parametrize("name", ["s", "a/b", "50%", "%2F", "a b", "%252F"])
def test_a_subscription_of_any_name_is_one_component(name: str) -> None:
    assert "/" not in escape_component(name)
    assert unescape_component(escape_component(name)) == name


def test_history_is_bounded_and_fields_of_pruned_segments_go() -> None:
    layout = Layout.initial(1, now_ms=1).split(SegmentId(0), now_ms=2)
    events = tuple(
        LayoutEvent(epoch, ChangeKind.SPLIT, (), (), epoch) for epoch in range(HISTORY_MAX)
    )
    unknown_of = {SegmentId(0): {"x": 1}, SegmentId(1): {"y": 2}}
    record = ScalableTopicMetadata(layout, history=events, unknown_of=unknown_of)
    pruned = layout.prune([SegmentId(0)])
    after = record.with_change(pruned, LayoutEvent(999, ChangeKind.PRUNE, (), (), 3))
    assert len(after.history) == HISTORY_MAX
    assert [after.history[0].epoch, after.history[-1].epoch] == [1, 999]
    assert after.unknown_of == {SegmentId(1): {"y": 2}}


def test_a_record_knows_that_its_topic_is_being_deleted() -> None:
    layout = Layout.initial(1, now_ms=1)
    assert not ScalableTopicMetadata(layout).is_deleting
    assert ScalableTopicMetadata(layout, intent=DeleteIntent((), 1)).is_deleting

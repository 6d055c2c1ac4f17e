"""Which topics are the broker's own."""

from __future__ import annotations

import pytest

from magnetar.model.name import parse_namespace, parse_topic
from magnetar.rules.system import (
    change_events_of,
    is_change_events,
    is_system_topic,
    takes_policies,
)


@pytest.mark.parametrize(
    ("name", "is_system"),
    [
        ("persistent://a/b/__change_events", True),
        ("persistent://a/b/__change_events-partition-1", True),
        ("persistent://a/b/__transaction_buffer_snapshot", True),
        ("persistent://a/b/__transaction_buffer_snapshot_indexes", True),
        ("persistent://a/b/__transaction_log_0", True),
        ("persistent://a/b/x-sub__transaction_pending_ack", True),
        ("persistent://pulsar/system/anything", True),
        ("persistent://a/b/change_events", False),
        ("persistent://a/b/__change_events2", False),
        ("persistent://a/b/my__transaction_log_0", False),
        ("persistent://a/b/__transaction_pending_acks", False),
    ],
)
def test_system_topics_are_known_by_their_names(name: str, is_system: bool) -> None:
    assert is_system_topic(parse_topic(name)) is is_system
    assert takes_policies(parse_topic(name)) is not is_system


def test_the_topic_of_events_is_persistent_and_may_have_partitions() -> None:
    name = change_events_of(parse_namespace("a/b"))
    assert name.full == "persistent://a/b/__change_events"
    assert is_change_events(name)
    assert is_change_events(name.partition(3))
    assert not is_change_events(parse_topic("topic://a/b/__change_events"))


def test_topics_of_the_brokers_own_tenant_take_no_policies() -> None:
    assert not takes_policies(parse_topic("persistent://pulsar/localhost:8080/healthcheck"))

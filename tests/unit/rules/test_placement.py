from __future__ import annotations

import pytest

from magnetar.model.load import BrokerReport, BundleStats, ResourceUsage
from magnetar.rules.placement import choose_broker, choose_for_idle

BUNDLE = "shop/eu/0x00000000_0x40000000"


def broker(bundles: int, *, cpu: float = 10.0, **stats: BundleStats) -> BrokerReport:
    return BrokerReport(
        numBundles=bundles, cpu=ResourceUsage(usage=cpu, limit=100.0), lastStats=stats
    )


@pytest.mark.parametrize(
    ("owner", "other", "expected"),
    [
        (broker(4), broker(0), "other"),
        (broker(4), broker(2), None),  # afterwards it would be the other way round
        (broker(4), broker(1), "other"),
        (broker(0), broker(4), None),
        (broker(1, cpu=90.0), broker(1), "other"),
        (broker(1, cpu=90.0), broker(1, cpu=95.0), None),
        (broker(8, **{BUNDLE: BundleStats(topics=1)}), broker(0), None),
        (broker(8, **{BUNDLE: BundleStats(topics=0)}), broker(0), "other"),
    ],
)
def test_a_bundle_moves_for_its_first_topic_only_where_that_evens_the_load(
    owner: BrokerReport, other: BrokerReport, expected: str | None
) -> None:
    reports = {"owner": owner, "other": other}
    assert choose_for_idle(reports, BUNDLE, "owner") == expected
    assert choose_for_idle(reports, BUNDLE, "owner", allowed=["owner"]) is None
    assert choose_for_idle(reports, BUNDLE, "gone") is None


def test_every_second_bundle_that_is_asked_for_does_not_go_to_the_same_broker() -> None:
    """A client asks for a topic, and for another name beside it, again and again."""
    reports = {"a:1": broker(0), "b:1": broker(0)}
    pending: dict[str, int] = {}
    topics: list[str] = []
    for number in range(64):
        chosen = choose_broker(reports, f"shop/eu/{number:#010x}", pending=pending)
        assert chosen is not None
        pending[chosen] = pending.get(chosen, 0) + 1
        if number % 2 == 0:
            topics.append(chosen)
    assert abs(pending["a:1"] - pending["b:1"]) <= 1
    assert 8 <= topics.count("a:1") <= 24

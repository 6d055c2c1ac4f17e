"""Which broker should own a bundle that has no owner."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final
from zlib import crc32

from magnetar.model.load import BrokerReport

OVERLOADED: Final = 0.85
"""Brokers that use more than this get bundles only when all do."""
BUNDLE_RATE: Final = 100.0
"""Messages per second that a bundle is expected to bring while nothing is measured of it."""


def expected_rate(report: BrokerReport, pending: int = 0) -> float:
    """Messages per second of a broker, with what its bundles are expected to bring at least;
    `pending` counts those given to it since the report.
    """
    measured = sum(max(BUNDLE_RATE, each.msg_rate) for each in report.lastStats.values())
    unmeasured = max(0, report.numBundles - len(report.lastStats)) + pending
    return max(report.msg_rate, measured) + BUNDLE_RATE * unmeasured


def choose_broker(
    reports: Mapping[str, BrokerReport],
    bundle: str,
    *,
    allowed: Collection[str] | None = None,
    pending: Mapping[str, int] | None = None,
) -> str | None:
    """The least loaded of the brokers that may own the bundle; None when there is none.

    `allowed` are those that isolation policies leave; None leaves all. Among equals the bundle's
    name decides: clients ask for names in a rhythm (a topic, and what may stand in its place), and
    with a fixed order every second bundle would go to the same broker.
    """
    eligible = [each for each in sorted(reports) if allowed is None or each in allowed]
    calm = [each for each in eligible if reports[each].usage <= OVERLOADED]
    given = pending or {}
    return min(
        calm or eligible,
        key=lambda each: (
            expected_rate(reports[each], given.get(each, 0)),
            crc32(f"{bundle} {each}".encode()),
        ),
        default=None,
    )


def choose_for_idle(
    reports: Mapping[str, BrokerReport],
    bundle: str,
    owner: str,
    *,
    allowed: Collection[str] | None = None,
) -> str | None:
    """The broker that a bundle should move to before it gets its first topic; None: it stays.

    It moves where that leaves its owner busier than the other all the same: the bundle is expected
    to bring something, and moves to brokers that are about as busy would not end.
    """
    report = reports.get(owner)
    if report is None or (bundle in report.lastStats and report.lastStats[bundle].topics > 0):
        return None
    chosen = choose_broker(reports, bundle, allowed=allowed)
    if chosen is None or chosen == owner:
        return None
    if report.usage > OVERLOADED >= reports[chosen].usage:
        return chosen
    gain = expected_rate(report) - expected_rate(reports[chosen])
    return chosen if gain > 2 * BUNDLE_RATE else None

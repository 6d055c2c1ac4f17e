"""What a broker reports of its load, and when that is worth a write."""

from __future__ import annotations

from magnetar.model.load import BrokerReport


def is_worth_reporting(
    before: BrokerReport, after: BrokerReport, *, threshold: float, age_ms_max: int
) -> bool:
    """Whether a rate, the usage or the bundles changed by more than the threshold, or the last
    report is old.
    """
    pairs = (
        (before.usage, after.usage),
        (before.msg_rate, after.msg_rate),
        (before.throughput, after.throughput),
        (before.numBundles, after.numBundles),
    )
    is_other = before.bundles != after.bundles and before.numBundles == after.numBundles
    return (
        is_other
        or after.lastUpdate - before.lastUpdate >= age_ms_max
        or any(_differ(old, new, threshold) for old, new in pairs)
    )


def _differ(old: float, new: float, threshold: float) -> bool:
    return abs(new - old) > threshold * max(abs(old), abs(new)) and abs(new - old) > 1e-3

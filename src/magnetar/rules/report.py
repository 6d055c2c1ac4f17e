"""Whether a segment's load is worth a report.

A report costs a write to the metadata store, so small changes go unreported. But the reader of the
reports compares them with limits: a rate that has risen past a limit since its last report is
always worth one, however near the two are.
"""

from __future__ import annotations

import math
from typing import Final

from magnetar.model.autoscale import AutoScalePolicy
from magnetar.model.scalable import SegmentLoad
from magnetar.rules.scale import rates_of

_MARGIN: Final = 0.95


def decide_report(
    last: SegmentLoad | None,
    current: SegmentLoad,
    *,
    change: float,
    policy: AutoScalePolicy | None,
) -> bool:
    """`change` is the part of a rate that counts; without a policy nothing has limits."""
    if last is None:
        return True
    if last == current:
        return False
    above = below = (math.inf,) * 4
    if policy is not None and policy.enabled:
        above, below = policy.split_above, policy.merge_below
    return any(
        _is_material(before, now, change) or _crosses(before, now, hot, cold)
        for before, now, hot, cold in zip(
            rates_of(last), rates_of(current), above, below, strict=True
        )
    )


def _is_material(before: float, now: float, change: float) -> bool:
    if not 0.0 < before < math.inf:  # an invalid stored rate is replaced
        return now != before
    return abs(now - before) / before > change


def _crosses(before: float, now: float, hot: float, cold: float) -> bool:
    """Up at once. Down by a margin: a rate that trembles around a limit is on its upper side."""
    return (
        before <= hot < now
        or before < cold <= now
        or now < _MARGIN * hot < hot < before
        or now < _MARGIN * cold < cold <= before
    )

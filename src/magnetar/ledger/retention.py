"""Which ledgers a log may let go."""

from __future__ import annotations

from collections.abc import Sequence

from magnetar.ledger.info import LogPolicy
from magnetar.ledger.sequence import LogLedger


def plan_trim(
    passed: Sequence[LogLedger], total_bytes: int, policy: LogPolicy, *, now_ms: int
) -> int:
    """How many of `passed`, sealed ledgers that every cursor has left behind, oldest first, can go.

    A ledger goes when it is older than the retention time, or when the log keeps its retention
    size without it.
    """
    kept_bytes = total_bytes
    for count, part in enumerate(passed):
        kept_bytes -= part.size
        expired = 0 <= policy.retention_ms < now_ms - part.sealed_ms
        over_size = 0 <= policy.retention_bytes <= kept_bytes
        if not expired and not over_size:
            return count
    return len(passed)

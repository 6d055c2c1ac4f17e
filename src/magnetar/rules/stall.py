"""Whether a consumer will never acknowledge what is left of a sealed segment.

Clients keep the last position that they acknowledged cumulatively over a reconnect, and drop what
is delivered again up to there. If that acknowledgement was lost with the connection, the broker
waits for one that no client will send: on a sealed segment no later message brings another. Every
segment that came out of it waits too. A consumer that is given the segment anew opens a reader
without that memory.

A reader that has acknowledged anything since it was attached is past what it may have dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class SegmentRead:
    """How far the reader of one segment has come since it was attached again."""

    is_attached: bool
    is_sealed: bool
    backlog: int
    """Entries left to acknowledge."""
    is_at_end: bool
    """Whether all of them were delivered."""
    permits: int
    has_acked: bool
    quiet_since_ms: int
    """When it was attached, or got its last message."""


@dataclass(frozen=True, slots=True)
class Sound:
    """There is nothing to wait for any more."""


@dataclass(frozen=True, slots=True)
class Wait:
    for_ms: int


@dataclass(frozen=True, slots=True)
class Redeliver:
    """Take the segment from the consumer and assign it anew."""


StallDecision: TypeAlias = Sound | Wait | Redeliver


def decide_stall(read: SegmentRead, *, now_ms: int, patience_ms: int) -> StallDecision:
    if not read.is_attached or read.has_acked or (read.is_sealed and read.backlog <= 0):
        return Sound()
    if not (read.is_sealed and read.is_at_end and read.permits > 0):
        return Wait(patience_ms)
    left_ms = read.quiet_since_ms + patience_ms - now_ms
    return Wait(left_ms) if left_ms > 0 else Redeliver()

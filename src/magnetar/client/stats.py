"""What one producer or consumer has done so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from magnetar.model.segment import SegmentId


@dataclass(frozen=True, slots=True)
class ProducerStats:
    """Of a producer on a scalable or a regular topic."""

    sent: int
    """Messages that the broker has stored."""
    failed: int
    pending: int
    """Those whose end is not known yet."""
    segments: tuple[SegmentId, ...] = ()
    """Where it has a producer now; regular topics have no segments."""


@dataclass(frozen=True, slots=True)
class ConsumerStats:
    """Of a consumer or a reader, of scalable or regular topics."""

    received: int
    acknowledged: int
    """Calls; one cumulative acknowledgement may cover many messages."""
    refused: int
    """Negative acknowledgements."""
    waiting: int
    """Messages that are here already and were not received."""
    segments: Mapping[str, tuple[SegmentId, ...]]
    """Each topic or partition it is attached to, and which segments of a scalable one."""

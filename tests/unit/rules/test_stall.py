from __future__ import annotations

from dataclasses import replace

import pytest

from magnetar.rules.stall import Redeliver, SegmentRead, Sound, StallDecision, Wait, decide_stall

READ = SegmentRead(
    is_attached=True,
    is_sealed=True,
    backlog=3,
    is_at_end=True,
    permits=7,
    has_acked=False,
    quiet_since_ms=1_000,
)


@pytest.mark.parametrize(
    ("read", "now_ms", "expected"),
    [
        (READ, 1_000, Wait(500)),
        (READ, 1_499, Wait(1)),
        (READ, 1_500, Redeliver()),
        (replace(READ, is_attached=False), 9_000, Sound()),
        (replace(READ, has_acked=True), 9_000, Sound()),
        (replace(READ, backlog=0), 9_000, Sound()),
        (replace(READ, backlog=0, is_sealed=False), 9_000, Wait(500)),
        (replace(READ, is_sealed=False), 9_000, Wait(500)),
        (replace(READ, is_at_end=False), 9_000, Wait(500)),
        (replace(READ, permits=0), 9_000, Wait(500)),
    ],
)
def test_a_segment_is_recalled_from_a_reader_that_has_all_of_it_and_stays_silent(
    read: SegmentRead, now_ms: int, expected: StallDecision
) -> None:
    assert decide_stall(read, now_ms=now_ms, patience_ms=500) == expected

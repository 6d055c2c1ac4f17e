"""How much of what could be read one trigger may read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from magnetar.spark.offset import Place
from magnetar.spark.plan import Pending
from magnetar.spark.stretch import cut_spans

_NOTHING: Final = 0.0


@dataclass(frozen=True, slots=True)
class Limits:
    """None is no limit. A trigger with fewer than `messages_min` waits, but no longer than
    `delay_s_max`.
    """

    messages_max: int | None = None
    bytes_max: int | None = None
    messages_min: int | None = None
    delay_s_max: float = 900.0

    @property
    def counts_messages(self) -> bool:
        return self.messages_max is not None or self.messages_min is not None


def is_too_little(pending: Sequence[Pending], limits: Limits, *, waited_s: float) -> bool:
    """Whether to wait for more before anything is read."""
    if limits.messages_min is None or waited_s >= limits.delay_s_max:
        return False
    return sum(each.messages for each in pending) < limits.messages_min


def admit(pending: Sequence[Pending], limits: Limits) -> list[Place]:
    """How far to read each: shares in proportion to what is pending, whole entries.

    What rounding leaves over goes to those that got nothing, the smallest first, so that no segment
    waits for ever behind a large one. One entry is always read, however large.
    """
    messages = sum(each.messages for each in pending)
    size = sum(each.size for each in pending)
    share = 1.0
    if limits.messages_max is not None and messages > limits.messages_max:
        share = limits.messages_max / messages
    if limits.bytes_max is not None and size > limits.bytes_max:
        share = min(share, limits.bytes_max / size)
    if share >= 1.0:
        return [each.through for each in pending]
    counts = [int(each.entries * share) for each in pending]
    _share_rest(pending, counts, limits)
    return [
        each.through if count >= each.entries else _cut(each, count)
        for each, count in zip(pending, counts, strict=True)
    ]


def _share_rest(pending: Sequence[Pending], counts: list[int], limits: Limits) -> None:
    taken = list(zip(pending, counts, strict=True))
    messages_left = bytes_left = float("inf")
    if limits.messages_max is not None:
        used = sum(count * each.segment.messages_per_entry for each, count in taken)
        messages_left = limits.messages_max - used
    if limits.bytes_max is not None:
        bytes_left = limits.bytes_max - sum(count * _entry_bytes(each) for each, count in taken)
    waiting = [i for i, (each, count) in enumerate(taken) if count == 0 and each.entries]
    for index in sorted(waiting, key=lambda i: (pending[i].entries, i)):
        each = pending[index]
        messages_left -= each.segment.messages_per_entry
        bytes_left -= _entry_bytes(each)
        if min(messages_left, bytes_left) < 0 and any(counts):
            return
        counts[index] = 1


def _entry_bytes(pending: Pending) -> float:
    return pending.size / pending.entries if pending.entries else _NOTHING


def _cut(pending: Pending, count: int) -> Place:
    return cut_spans(pending.spans, count) if count else pending.after

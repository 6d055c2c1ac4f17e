"""The audit of one line agrees with a model that remembers everything."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.spark.job.audit import FaultKind, Line


def model(numbers: list[int], first: int | None) -> tuple[set[int], list[int], list[int]]:
    """Lost, duplicated and late numbers."""
    begin = min(numbers) if first is None else min(first, *numbers)
    duplicated, late, seen = [], [], set[int]()
    for number in numbers:
        if number in seen:
            duplicated.append(number)
        elif seen and number < max(seen):
            late.append(number)
        seen.add(number)
    return set(range(begin, max(numbers) + 1)) - seen, duplicated, late


@settings(max_examples=400, deadline=None)
@given(
    st.lists(st.integers(0, 25), min_size=1, max_size=40),
    st.sampled_from([None, 0]),
    st.integers(1, 7),
)
def test_every_fault_is_found_once_however_the_line_is_cut(
    numbers: list[int], first: int | None, size: int
) -> None:
    line, found = Line(first), []
    for start in range(0, len(numbers), size):
        piece = numbers[start : start + size]
        for fault in line.take(np.array(piece, np.int64)):
            assert piece[fault.place] == fault.first == fault.last
            found.append((fault.kind, fault.first))
    lost = {n for fault in line.finish() for n in range(fault.first, fault.last + 1)}
    expected_lost, duplicated, late = model(numbers, first)
    assert lost == expected_lost
    assert [n for kind, n in found if kind is FaultKind.DUPLICATED] == duplicated
    assert [n for kind, n in found if kind is FaultKind.OUT_OF_ORDER] == late


def test_a_line_that_counts_on_costs_no_memory() -> None:
    line = Line()
    for start in range(0, 100_000, 1000):
        assert not list(line.take(np.arange(start, start + 1000)))
    assert (line.next, line.gaps) == (100_000, [])

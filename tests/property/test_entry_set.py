"""The bits of the entries of a ledger against a set of numbers."""

from __future__ import annotations

from itertools import groupby

from hypothesis import given
from hypothesis import strategies as st

from magnetar.model.entry_set import EntrySet, count_runs

BLOCK = 4096
ENTRIES = st.integers(0, 3 * BLOCK + 9) | st.integers(BLOCK - 3, BLOCK + 3)
STEPS = st.lists(
    st.tuples(st.sampled_from(["add", "bits", "remove"]), ENTRIES, st.integers(0, 2 * BLOCK)),
    max_size=12,
)


def runs_of(known: set[int]) -> list[tuple[int, int]]:
    groups = groupby(enumerate(sorted(known)), key=lambda each: each[1] - each[0])
    runs = [[entry for _, entry in group] for _, group in groups]
    return [(run[0], run[-1]) for run in runs]


@given(STEPS, ENTRIES, st.integers(0, 40))
def test_bits_in_blocks_are_a_set_of_entries(
    steps: list[tuple[str, int, int]], start: int, size: int
) -> None:
    entries, known = EntrySet(), set[int]()
    for step, first, length in steps:
        named = set(range(first, first + length))
        if step == "add":
            assert entries.add(first, first + length - 1) == len(named - known)
            known |= named
        elif step == "bits":
            sparse = set(range(first, first + length, 7))
            assert entries.add_bits(sum(1 << entry for entry in sparse)) == len(sparse - known)
            known |= sparse
        else:
            assert entries.remove(first, first + length - 1) == len(named & known)
            known -= named
        assert entries.count == len(known)
        if known:
            assert (entries.first, entries.last) == (min(known), max(known))
            assert entries.first_gap == runs_of(known)[0][1] + 1
    assert list(entries.runs()) == runs_of(known)
    assert entries.run_count == count_runs(entries.bits) == len(runs_of(known))
    assert entries.bits == sum(1 << entry for entry in known)
    asked = range(start, start + size)
    assert entries.within(start, start + size - 1) == [each for each in asked if each in known]
    assert entries.gaps(start, start + size - 1) == [each for each in asked if each not in known]
    assert [each in entries for each in asked] == [each in known for each in asked]

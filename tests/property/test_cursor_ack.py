"""A cursor against the plainest model of it: the set of entries that were acknowledged."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from magnetar.ledger.ackset import AckSet
from magnetar.ledger.run import EntryRun
from magnetar.ledger.sequence import LedgerSequence
from magnetar.model.bitset import join_words, split_words
from magnetar.model.position import EARLIEST, Position
from magnetar.model.stored_log import CursorInfo, LedgerPart

Step = tuple[str, int, int]

lengths = st.lists(st.integers(0, 12), min_size=1, max_size=5)
steps = st.lists(
    st.tuples(
        st.sampled_from(["one", "range", "scattered", "through", "batch", "reset", "forget"]),
        st.integers(0, 70),
        st.integers(0, 2**14 - 1),
    ),
    max_size=25,
)


class Model:
    def __init__(self, lengths: Sequence[int]) -> None:
        parts = [LedgerPart(3 * number + 1, length, 0, 1) for number, length in enumerate(lengths)]
        self.sequence = LedgerSequence().restore(parts)
        self.acks = AckSet(self.sequence, CursorInfo(-1, self.sequence.mark_before(EARLIEST)))
        self.entries = [
            Position(part.ledger_id, entry_id) for part in parts for entry_id in range(part.entries)
        ]
        self.acked: set[Position] = set()
        self.bits: dict[Position, int] = {}

    def step(self, kind: str, at: int, mask: int) -> None:
        if not self.entries:
            return
        position = self.entries[at % len(self.entries)]
        ledger_id, entry_id = position
        if kind == "one":
            news = self.acks.add_next(*position) or self.acks.add(ledger_id, entry_id, entry_id)
            assert news == (position not in self.acked)
            self.acked.add(position)
        elif kind == "range":
            last = entry_id + mask % 5
            self.acks.add(ledger_id, entry_id, last)
            self._acknowledge(ledger_id, range(entry_id, last + 1))
        elif kind == "scattered":
            ids = [bit for bit in range(14) if mask >> bit & 1][:: -1 if at % 2 else 1]
            if ids:
                self.acks.add_entries(ledger_id, ids)
            self._acknowledge(ledger_id, ids)
        elif kind == "through":
            self.acks.add_through(position)
            self.acked.update(entry for entry in self.entries if entry <= position)
        elif kind == "batch":
            self._batch(position, mask & 0b111)
        elif kind == "reset":
            self.acks.move_mark(self.sequence.mark_before(position))
            self.acked = {entry for entry in self.entries if entry < position}
            self.bits.clear()
        else:
            self._forget()

    def _acknowledge(self, ledger_id: int, entry_ids: Sequence[int]) -> None:
        named = {Position(ledger_id, entry_id) for entry_id in entry_ids}
        self.acked.update(named.intersection(self.entries))

    def _batch(self, position: Position, remaining: int) -> None:
        done = self.acks.add_batch(*position, remaining)
        if position in self.acked:
            assert done is None
            return
        self.bits[position] = self.bits.get(position, 0b111) & remaining
        assert bool(done) == (self.bits[position] == 0)
        if self.bits[position] == 0:
            self.acked.add(position)

    def _forget(self) -> None:
        """The first ledger is removed, read or not."""
        gone = self.sequence.parts[0].ledger_id
        if len(self.sequence.parts) > 1:
            self.sequence.remove({gone})
            self.acks.forget({gone})
            self.entries = [entry for entry in self.entries if entry.ledger_id != gone]
            self.acked.intersection_update(self.entries)

    def check(self) -> None:
        acks = self.acks
        unacked = [entry for entry in self.entries if entry not in self.acked]
        assert {entry for entry in self.entries if acks.is_acknowledged(*entry)} == self.acked
        assert acks.backlog == len(unacked)
        first = unacked[0] if unacked else self.sequence.end_position
        assert self.sequence.next_position(acks.mark_delete) == first
        assert [acks.position_after(count) for count in range(len(unacked))] == unacked
        assert acks.position_after(len(unacked)) == self.sequence.end_position
        self._check_ranges()
        for part in self.sequence.parts:
            for start in range(part.entries):
                size = (part.entries - start + 1) // 2
                run = EntryRun(part.ledger_id, start, [b""] * size, [1] * size)
                assert list(acks.unacked_in(run)) == [
                    index
                    for index in range(size)
                    if Position(part.ledger_id, start + index) not in self.acked
                ]
        for entry in unacked:
            assert acks.remaining(*entry) in (self.bits.get(entry), None)
            assert acks.remaining(*entry) is not None or self.bits.get(entry, 0b111) == 0b111

    def _check_ranges(self) -> None:
        """Ascending, apart from each other, beyond the mark, and all of what is beyond it."""
        ranges = self.acks.ranges
        covered = [
            Position(first.ledger_id, entry_id)
            for first, last in ranges
            for entry_id in range(first.entry_id, last.entry_id + 1)
        ]
        assert covered == sorted(entry for entry in self.acked if entry > self.acks.mark_delete)
        assert len(covered) == self.acks.acked_beyond
        assert len(ranges) == self.acks.range_count
        for (_, last), (first, _) in pairwise(ranges):
            assert first.ledger_id > last.ledger_id or first.entry_id > last.entry_id + 1


@given(lengths, steps)
def test_a_cursor_knows_exactly_what_was_acknowledged(
    lengths: list[int], steps: list[Step]
) -> None:
    model = Model(lengths)
    model.check()
    for kind, at, mask in steps:
        model.step(kind, at, mask)
        model.check()


@given(lengths, steps)
def test_a_state_written_down_and_restored_is_the_same(
    lengths: list[int], steps: list[Step]
) -> None:
    model = Model(lengths)
    for kind, at, mask in steps:
        model.step(kind, at, mask)
    acks = model.acks
    mark, batches = acks.mark_delete, acks.batches()
    bits = {ledger_id: entries.bits for ledger_id, entries in acks.beyond.items()}
    for info in (
        CursorInfo(-1, mark, acks.ranges, batches),
        CursorInfo(-1, mark, (), batches, bits=bits),
    ):
        model.acks = AckSet(model.sequence, info)
        assert model.acks.mark_delete == mark
        assert model.acks.ranges == acks.ranges
        assert model.acks.batches() == batches
        model.check()


@given(lengths, steps)
def test_without_a_seek_the_mark_never_goes_back(lengths: list[int], steps: list[Step]) -> None:
    model = Model(lengths)
    for kind, at, mask in steps:
        before = model.acks.mark_delete
        if kind != "reset":
            model.step(kind, at, mask)
            assert model.acks.mark_delete >= before


@given(st.integers(0, 2**300))
def test_bits_survive_being_cut_into_words(bits: int) -> None:
    words = split_words(bits)
    assert all(-(2**63) <= word < 2**63 for word in words)
    assert join_words(words) == bits

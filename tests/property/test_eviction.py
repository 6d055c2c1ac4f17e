from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from magnetar.ledger.sequence import LedgerSequence
from magnetar.model.position import EARLIEST, LATEST, Position
from magnetar.model.stored_log import LedgerPart
from magnetar.rules.retain import Stretch, plan_eviction

stretches = st.lists(
    st.integers(0, 50).flatmap(
        lambda entries: st.tuples(
            st.just(entries), st.integers(entries, 10_000) if entries else st.just(0)
        )
    ),
    max_size=8,
).map(lambda sizes: [Stretch(7 * index, *each) for index, each in enumerate(sizes)])


def sequence_of(log: list[Stretch]) -> LedgerSequence:
    return LedgerSequence().restore(
        LedgerPart(each.ledger_id, each.entries, each.size, 1) for each in log
    )


@given(stretches, st.integers(0, 40_000))
@example([Stretch(0, 5, 86), Stretch(7, 1, 1)], 69)
def test_what_eviction_leaves_fits_and_one_entry_more_would_not(
    log: list[Stretch], kept_bytes: int
) -> None:
    sequence = sequence_of(log)
    total = sum(each.size for each in log)
    kept = plan_eviction(log, kept_bytes)
    if kept is None:
        assert total <= kept_bytes
        return
    assert sequence.bytes_between(kept, LATEST) <= kept_bytes
    before = sequence.previous_position(kept)
    assert before.entry_id >= 0
    assert sequence.bytes_between(before, LATEST) > kept_bytes


@given(stretches, st.integers(0, 400))
def test_the_parts_of_a_log_are_together_no_larger_than_the_log(
    log: list[Stretch], cut: int
) -> None:
    sequence = sequence_of(log)
    total = sum(each.size for each in log)
    assert sequence.bytes_between(EARLIEST, LATEST) == total
    position: Position = sequence.position_at(cut)
    front = sequence.bytes_between(EARLIEST, position)
    back = sequence.bytes_between(position, LATEST)
    # Each side rounds down in the ledger that is cut.
    assert total - 1 <= front + back <= total

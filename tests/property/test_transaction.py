"""Laws of transactions: a state follows from its records, nothing is half visible, and what is
acknowledged by one transaction is nobody else's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.errors import BrokerError, TransactionConflict
from magnetar.model.bitset import split_words
from magnetar.model.position import Position
from magnetar.model.transaction import Acked as AckedRecord
from magnetar.model.transaction import (
    Acknowledged,
    Ended,
    Finished,
    Hidden,
    Joined,
    Range,
    Record,
    Status,
    TransactionId,
    Writing,
)
from magnetar.rules.transaction.buffer import TransactionBuffer
from magnetar.rules.transaction.coordinator import CoordinatorState
from magnetar.rules.transaction.pending_ack import PendingAcks
from magnetar.wire.transaction import decode_records, encode_entries, encode_records

BATCH = 4


# ---------------------------------------------------------------------- coordinators


@dataclass
class Coordinator:
    """Follows steps, and may be loaded again from its records after each of them."""

    state: CoordinatorState = field(default_factory=lambda: CoordinatorState(3))
    records: list[Record] = field(default_factory=list)
    given: list[int] = field(default_factory=list)
    outcomes: dict[int, bool] = field(default_factory=dict)
    now_ms: int = 0

    def write(self, *records: Record) -> None:
        for record in records:
            self.records.append(record)
            self.state.apply(record)  # type: ignore[arg-type]

    def begin(self) -> None:
        id_, records = self.state.plan_begin(
            "r", 100, now_ms=self.now_ms, open_max=0, open_per_owner_max=0
        )
        assert id_.least not in self.given, "given out twice"
        self.given.append(id_.least)
        self.write(*records)

    def step(self, kind: str, number: int) -> None:
        if not self.given:
            return
        id_ = TransactionId(3, self.given[number % len(self.given)])
        match kind:
            case "join":
                joined = self.state.plan_join(id_, [f"t{number}"], (), participants_max=99)
                if joined is not None:
                    self.write(joined)
            case "commit" | "abort":
                is_commit = kind == "commit"
                decided = self.state.plan_end(id_, is_commit=is_commit, now_ms=self.now_ms)
                if decided is not None:
                    assert id_.least not in self.outcomes, "decided twice"
                    self.outcomes[id_.least] = is_commit
                    self.write(decided)
                assert self.outcomes[id_.least] == is_commit
            case "finish":
                if self.state.find(id_).status is not Status.OPEN:
                    self.write(self.state.plan_finish(id_, now_ms=self.now_ms))

    def reload(self, *, by_snapshot: bool) -> None:
        records = tuple(self.state.records()) if by_snapshot else tuple(self.records)
        again = CoordinatorState(3)
        for record in decode_records(encode_records(records)):
            again.apply(record)  # type: ignore[arg-type]
        assert again.transactions == self.state.transactions
        assert again.ended == self.state.ended
        assert again.open_by_owner == self.state.open_by_owner
        again.skip_reserved()
        assert again.next_least >= self.state.next_least
        self.state = again


STEPS = st.tuples(
    st.sampled_from(["begin", "join", "commit", "abort", "finish", "load", "snapshot", "wait"]),
    st.integers(0, 7),
)


@settings(deadline=None)
@given(st.lists(STEPS, max_size=60))
def test_a_coordinator_never_changes_an_outcome_nor_gives_an_id_twice(
    steps: list[tuple[str, int]],
) -> None:
    coordinator = Coordinator()
    for kind, number in steps:
        match kind:
            case "begin":
                coordinator.begin()
            case "load" | "snapshot":
                coordinator.reload(by_snapshot=kind == "snapshot")
            case "wait":
                coordinator.now_ms += number * 20
            case _:
                try:
                    coordinator.step(kind, number)
                except BrokerError:
                    pass  # a step that may not follow
    for least, is_commit in coordinator.outcomes.items():
        ended = coordinator.state.ended.get(least)
        if isinstance(ended, Finished):
            assert ended.is_commit == is_commit
        else:
            assert coordinator.state.transactions[least].status.is_commit == is_commit


# ---------------------------------------------------------------------- buffers


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["plain", "write", "commit", "abort", "roll"]), st.integers(0, 3)
        ),
        max_size=60,
    )
)
def test_readers_see_a_prefix_of_the_log_without_what_is_open_or_aborted(
    steps: list[tuple[str, int]],
) -> None:
    buffer = TransactionBuffer()
    log: list[tuple[Position, TransactionId | None]] = []
    outcome: dict[TransactionId, bool] = {}
    generation = [0, 0, 0, 0]
    ledger, entry = 1, 0
    seen: list[Position] = []
    for kind, number in steps:
        id_ = TransactionId(number, generation[number])
        match kind:
            case "roll":
                ledger, entry = ledger + 1, 0
                continue
            case "plain" | "write":
                position = Position(ledger, entry)
                entry += 1
                log.append((position, id_ if kind == "write" else None))
                if kind == "write":
                    buffer.join(id_, Position(ledger, entry - 2), 0)
                    buffer.on_stored(id_, position, 1)
            case _:
                if id_ in buffer.open:
                    buffer.end(id_, is_commit=kind == "commit")
                    outcome[id_] = kind == "commit"
                    generation[number] += 1
        visible = [
            position
            for position, _ in log
            if (buffer.pin is None or position < buffer.pin) and not buffer.is_aborted(position)
        ]
        first_open = next(
            (at for at, owner in log if owner is not None and owner not in outcome), None
        )
        assert visible == [
            at
            for at, owner in log
            if (first_open is None or at < first_open) and (owner is None or outcome[owner])
        ]
        assert visible[: len(seen)] == seen, "what was seen is never taken back"
        seen = visible
    again = TransactionBuffer()
    for record in decode_records(encode_records(buffer.records())):
        match record.__class__.__name__:
            case "Writing":
                again.join(record.id, record.after, record.deadline_ms)  # type: ignore[union-attr]
            case _:
                again.hide(record)  # type: ignore[arg-type]
    for position, owner in log:  # as a load finds them
        if owner in again.open:
            again.on_stored(owner, position, 1)
    assert again.pin == buffer.pin
    assert [again.is_aborted(at) for at, _ in log] == [buffer.is_aborted(at) for at, _ in log]


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["stored", "refused", "commit", "abort"]), st.integers(0, 5)),
        max_size=300,
    )
)
def test_readers_wait_at_the_first_entry_that_any_open_transaction_may_have(
    steps: list[tuple[str, int]],
) -> None:
    buffer = TransactionBuffer()
    for entry, (kind, number) in enumerate(steps):
        id_ = TransactionId(0, number)
        if id_ not in buffer.open:
            buffer.join(id_, Position(1, entry - 1), 0)
        match kind:
            case "stored":
                buffer.on_stored(id_, Position(1, entry), 1)
            case "refused":
                buffer.on_refused(id_)
            case _:
                buffer.end(id_, is_commit=kind == "commit")
        firsts = [each.first for each in buffer.open.values() if each.first is not None]
        assert buffer.pin == min(firsts, default=None)


def replay(records: list[Record]) -> TransactionBuffer:
    buffer = TransactionBuffer()
    for record in decode_records(encode_records(records)):
        match record:
            case Writing(id_, after, deadline_ms, owner):
                buffer.join(id_, after, deadline_ms, owner)
            case Ended(id_, is_commit):
                buffer.end(id_, is_commit=is_commit)
            case _:
                raise AssertionError(record)
    return buffer


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["join", "commit", "abort", "store", "crash"]), st.integers(0, 3)
        ),
        max_size=60,
    )
)
def test_what_a_topic_has_ended_durably_is_never_open_again(steps: list[tuple[str, int]]) -> None:
    """Though it was not open there when it ended, and joins later."""
    buffer, records, stored = TransactionBuffer(), list[Record](), 0
    for kind, number in steps:
        id_ = TransactionId(0, number)
        match kind:
            case "join":
                if id_ not in buffer.ended:
                    joined = buffer.join(id_, Position(1, number), 0)
                    records += [] if joined is None else [joined]
            case "store":
                stored = len(records)
            case "crash":
                del records[stored:]
                buffer = replay(records)
            case _:
                if buffer.is_open(id_) or id_ not in buffer.ended:
                    buffer.end(id_, is_commit=kind == "commit")
                    records.append(Ended(id_, kind == "commit"))
        assert replay(records).open.keys() == buffer.open.keys()
        durable = [each.id for each in records[:stored] if isinstance(each, Ended)]
        assert not buffer.open.keys() & durable
        assert len(durable) == len(set(durable)), "it ends once"


RANGES = st.tuples(st.integers(0, 1), st.integers(0, 30), st.integers(0, 6))


@settings(deadline=None)
@given(st.lists(st.lists(RANGES, min_size=1, max_size=9), min_size=1, max_size=4))
def test_what_is_hidden_by_several_records_is_hidden_by_all_of_them(
    some: list[list[tuple[int, int, int]]],
) -> None:
    buffer, hidden = TransactionBuffer(), set[Position]()
    for each in some:
        ranges = tuple(Range(ledger, first, first + more) for ledger, first, more in each)
        united = TransactionBuffer()
        for single in ranges:  # as no transaction has two entries at one place
            united.hide(Hidden(TransactionId(0, 0), (single,)))
        buffer.hide(Hidden(TransactionId(0, 0), united.aborted[TransactionId(0, 0)]))
        for at in ranges:
            hidden |= {Position(at.ledger_id, n) for n in range(at.first, at.last + 1)}
    everywhere = {Position(ledger, entry) for ledger in (0, 1) for entry in range(40)}
    assert {at for at in everywhere if buffer.is_aborted(at)} == hidden


TOPICS = st.lists(st.text("ab", max_size=9), max_size=9, unique=True)


@settings(deadline=None)
@given(
    st.lists(
        st.one_of(
            st.builds(
                lambda n, least: AckedRecord(
                    TransactionId(0, least), "s", False, tuple(Acknowledged(1, e) for e in range(n))
                ),
                st.integers(1, 40),
                st.integers(0, 3),
            ),
            st.builds(
                lambda n, least: Hidden(
                    TransactionId(0, least), tuple(Range(1, 2 * e, 2 * e) for e in range(n))
                ),
                st.integers(1, 40),
                st.integers(0, 3),
            ),
            st.builds(
                lambda topics, named: Joined(
                    1, tuple(topics), tuple((each, "s") for each in named)
                ),
                TOPICS,
                TOPICS,
            ),
            st.builds(Ended, st.just(TransactionId(0, 1)), st.booleans()),
        ),
        min_size=1,
        max_size=12,
    ),
    st.integers(1, 300),
)
def test_records_that_are_cut_into_entries_say_the_same_in_the_same_order(
    records: list[Record], bytes_max: int
) -> None:
    def spell(some: Iterable[Record]) -> list[tuple[object, ...]]:
        """What each lists, one by one."""
        told: list[tuple[object, ...]] = []
        for record in some:
            match record:
                case AckedRecord(id_, name, _, entries):
                    told += [(id_, name, each) for each in entries]
                case Hidden(id_, ranges):
                    told += [(id_, each) for each in ranges]
                case Joined(_, topics, subscriptions):
                    told += [*((each,) for each in topics), *subscriptions]
                case _:
                    told.append((record,))
        return told

    entries = encode_entries(records, bytes_max)
    decoded = [decode_records(each) for each in entries]
    assert spell(each for some in decoded for each in some) == spell(records)
    for entry, some in zip(entries, decoded, strict=True):
        assert len(entry) <= bytes_max or (len(some) == 1 and len(spell(some)) <= 1)


# ---------------------------------------------------------------------- pending acknowledgements


@dataclass
class Acked:
    """What is acknowledged for good: the indexes of each batch."""

    done: dict[Position, int] = field(default_factory=dict)

    @property
    def mark_delete(self) -> Position:
        entry_id = 0
        while self.is_acknowledged(1, entry_id):
            entry_id += 1
        return Position(1, entry_id - 1)

    def is_acknowledged(self, ledger_id: int, entry_id: int) -> bool:
        return self.done.get(Position(ledger_id, entry_id), 0) == (1 << BATCH) - 1

    def remaining(self, ledger_id: int, entry_id: int) -> int | None:
        done = self.done.get(Position(ledger_id, entry_id), 0)
        return ((1 << BATCH) - 1) & ~done if done else None


WHOLE = (1 << BATCH) - 1


def make_entry(position: Position, bits: int) -> Acknowledged:
    left = WHOLE & ~bits
    return Acknowledged(*position, split_words(left) if left else None, BATCH)


@dataclass
class Claims:
    """What each of three transactions acknowledges, beside the state that must agree."""

    pending: PendingAcks = field(default_factory=PendingAcks)
    cursor: Acked = field(default_factory=Acked)
    held: dict[int, dict[Position, int]] = field(default_factory=lambda: {0: {}, 1: {}, 2: {}})
    through: tuple[int, Position, int] | None = None
    """The transaction that acknowledges cumulatively, to which entry and which of its messages."""

    def acknowledge(self, number: int, position: Position, bits: int) -> None:
        id_ = TransactionId(0, number)
        self.pending.join(id_, "s", 0)
        others = 0
        for other, entries in self.held.items():
            others |= entries.get(position, 0) if other != number else 0
        done, own = self.cursor.done.get(position, 0), self.held[number].get(position, 0)
        taken = others & bits or (done & bits and bits != WHOLE) or done == WHOLE
        try:
            entry = make_entry(position, bits)
            self.pending.acknowledge(id_, [entry], self.cursor, entries_max=100)
            assert not taken or bits & ~own == 0
            self.held[number][position] = own | bits
        except TransactionConflict:
            assert taken

    def acknowledge_through(self, number: int, position: Position, count: int) -> None:
        """Up to so many messages of an entry."""
        id_, bits = TransactionId(0, number), (1 << count) - 1
        self.pending.join(id_, "s", 0)
        wanted, mark_delete = (number, position, bits), self.cursor.mark_delete
        if self.through is not None and self.through[0] != number:
            taken = True
        elif position <= mark_delete:
            taken = position < mark_delete
        else:
            taken = self.through is not None and self.through > wanted
        try:
            entry = make_entry(position, bits)
            is_news = self.pending.acknowledge_through(id_, entry, self.cursor)
            assert not taken
            assert is_news == (position > mark_delete and self.through != wanted)
            self.through = wanted if is_news else self.through
        except TransactionConflict:
            assert taken

    def end(self, number: int, *, is_commit: bool) -> None:
        taken, through = self.held[number], self.through
        if through is not None and through[0] == number:
            _, last, bits = through
            whole = {Position(1, entry): WHOLE for entry in range(last.entry_id)}
            for at, own in {**whole, last: bits}.items():
                taken[at] = taken.get(at, 0) | own
            self.through = None
        for at, own in taken.items():
            if is_commit:
                self.cursor.done[at] = self.cursor.done.get(at, 0) | own
        taken.clear()
        self.pending.end(TransactionId(0, number))

    def withheld(self, at: Position) -> int:
        found = 0
        for entries in self.held.values():
            found |= entries.get(at, 0)
        if self.through is not None and at <= self.through[1]:
            found |= WHOLE if at < self.through[1] else self.through[2]
        return found


ACKS = st.tuples(
    st.sampled_from(["ack", "through", "commit", "abort"]),
    st.integers(0, 2),
    st.integers(0, 2),
    st.integers(1, WHOLE),
)


@settings(deadline=None)
@given(st.lists(ACKS, max_size=60))
def test_no_message_is_acknowledged_by_two_transactions(
    steps: list[tuple[str, int, int, int]],
) -> None:
    claims, entries = Claims(), [Position(1, entry_id) for entry_id in range(3)]
    for kind, number, entry_id, bits in steps:
        match kind:
            case "ack":
                claims.acknowledge(number, entries[entry_id], bits)
            case "through":
                claims.acknowledge_through(number, entries[entry_id], 1 + bits % BATCH)
            case _:
                claims.end(number, is_commit=kind == "commit")
        for at in entries:
            assert claims.pending.withheld(at) & WHOLE == claims.withheld(at)
    pending = claims.pending
    assert pending.is_empty == (not any(claims.held.values()) and claims.through is None)
    again = PendingAcks()
    for record in decode_records(encode_records(pending.records("s"))):
        if record.__class__.__name__ == "Acking":
            again.join(record.id, "s", 0)  # type: ignore[union-attr]
        else:
            again.replay(record)  # type: ignore[arg-type]
    for at in entries:
        assert again.withheld(at) == pending.withheld(at)

"""A machine of `rules.dispatch` in the plainest world: a log in a list, reads answered at any time.

The world knows what was published, what is acknowledged and which consumer holds what, and holds
every delivery against the laws. It drives the machine as a driver does, and knows nothing of how it
decides.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

from magnetar.model.position import EARLIEST, Position
from magnetar.rules.dispatch.action import (
    Action,
    Announce,
    Chunk,
    Deliver,
    Moment,
    Read,
    Rewind,
    Sleep,
    Traits,
)
from magnetar.rules.dispatch.machine import DispatchLimits, Machine
from magnetar.rules.dispatch.member import Member

LEDGER_ENTRIES = 7
"""The log goes on in another ledger after so many entries."""
ALLOWED = 1000
POLLS_MAX = 10_000

STEPS = (
    *("publish", "publish", "publish", "publish late", "publish chunks", "fail"),
    *("grant", "grant", "grant", "ack", "ack", "ack part", "ack unread", "skip"),
    *("redeliver", "redeliver", "redeliver all", "join", "join", "leave"),
    *("pause", "resume", "wait", "rest"),
)

Step = tuple[str, int, int, int]
"""What happens, two numbers to choose by, and how many polls and answers follow."""

steps = st.lists(
    st.tuples(st.sampled_from(STEPS), st.integers(0, 999), st.integers(0, 999), st.integers(0, 6)),
    min_size=10,
    max_size=60,
)


@dataclass(eq=False)
class Entry:
    position: Position
    traits: Traits
    count: int
    """Messages that are not acknowledged."""
    redeliveries: int = 0


@dataclass(frozen=True)
class Found:
    """What a read found."""

    entries: Sequence[Entry]

    @property
    def ledger_id(self) -> int:
        return self.entries[0].position.ledger_id

    @property
    def first(self) -> int:
        return self.entries[0].position.entry_id

    @property
    def counts(self) -> Sequence[int]:
        return [entry.count for entry in self.entries]

    @property
    def skipped(self) -> Collection[int]:
        return {index for index, entry in enumerate(self.entries) if not entry.count}

    @property
    def withheld(self) -> Collection[int]:
        return ()

    def special(self) -> Collection[int]:
        plain = Traits()
        return {
            index
            for index, entry in enumerate(self.entries)
            if entry.traits._replace(key=b"") != plain
        }

    def traits(self, index: int) -> Traits:
        return self.entries[index].traits


@dataclass(eq=False)
class Reader:
    """A consumer; it counts for itself."""

    id: int
    priority: int = 0
    permits: int = 0
    is_writable: bool = True
    held: dict[Position, Entry] = field(default_factory=dict)
    turns: int = 0
    """How often it got something."""
    chunks: set[str] = field(default_factory=set)
    """Messages of which it got the first chunk and not the last."""

    @property
    def unacked(self) -> int:
        return sum(entry.count for entry in self.held.values())


class World:
    """What is the same for every machine; a kind says what a delivery must be like."""

    readers_max = 4
    tracks = True

    def __init__(self, machine: Machine[Reader], limits: DispatchLimits) -> None:
        self.machine = machine
        self.limits = limits
        self.log: list[Entry] = []
        self.members: dict[Reader, Member[Reader]] = {}
        self.now_ms = 1000
        self.reads: list[Read] = []
        """Not answered yet."""
        self._has_news = True
        """Whether to poll though the machine did not ask: time passed, or something is new."""
        self._sleeps_until_ms: float | None = None
        self._next_reader = 0
        machine.set_limits(limits)
        machine.on_rewound(self.first_unacked())

    # ------------------------------------------------------------------ what a kind says

    def on_delivered(self, reader: Reader, entry: Entry, redeliveries: int) -> None:
        raise NotImplementedError

    def check_quiet(self) -> None:
        """Nothing is to be done any more: what could be delivered is."""
        raise NotImplementedError

    def on_joined(self, reader: Reader) -> None: ...

    def on_left(self, reader: Reader) -> None: ...

    def on_rewound(self) -> None: ...

    # ------------------------------------------------------------------ looking

    @property
    def moment(self) -> Moment:
        return Moment(self.now_ms, self.now_ms / 1000)

    @property
    def unacked(self) -> list[Entry]:
        return [entry for entry in self.log if entry.count]

    def end(self) -> Position:
        return self._position_at(len(self.log))

    def first_unacked(self) -> Position:
        return next((entry.position for entry in self.unacked), self.end())

    def _position_at(self, ordinal: int) -> Position:
        return Position(ordinal // LEDGER_ENTRIES, ordinal % LEDGER_ENTRIES)

    def _ordinal(self, position: Position) -> int:
        return max(0, position.ledger_id) * LEDGER_ENTRIES + max(0, position.entry_id)

    def holder_of(self, entry: Entry) -> Reader | None:
        return next((each for each in self.members if entry.position in each.held), None)

    def can_receive(self, reader: Reader) -> bool:
        return reader.permits > 0 and reader.is_writable and not self.members[reader].blocked

    # ------------------------------------------------------------------ driving

    def carry_out(self, actions: Sequence[Action[Reader]]) -> None:
        for action in actions:
            match action:
                case Read():
                    assert not any(self.machine.is_reading(each) for each in self.reads)
                    assert action.entries_max > 0
                    self.reads.append(action)
                case Rewind():
                    self.on_rewound()
                    self.machine.on_rewound(self.first_unacked())
                case Sleep(seconds):
                    until = self.now_ms + seconds * 1000
                    self._sleeps_until_ms = min(until, self._sleeps_until_ms or until)
                case Announce():
                    pass

    def poll(self) -> None:
        self._has_news = False
        self.carry_out(self.machine.poll(self.moment, ALLOWED))

    def pass_ms(self, ms: int) -> None:
        self.now_ms += ms
        if self._sleeps_until_ms is not None and self._sleeps_until_ms <= self.now_ms:
            self._sleeps_until_ms = None
            self._has_news = True

    def answer(self, number: int, size: int) -> None:
        """Answer one of the reads that are under way, or were when they were given up."""
        if not self.reads:
            return
        read = self.reads.pop(number % len(self.reads))
        start = self._ordinal(read.position)
        if start >= len(self.log):
            self.machine.on_nothing(read)
            return
        count = min(read.entries_max, 1 + size % 10, LEDGER_ENTRIES - start % LEDGER_ENTRIES)
        found = Found(self.log[start : start + count])
        is_wanted = self.machine.is_reading(read)
        deliveries = self.machine.on_entries(read, found, self.moment)
        assert is_wanted or not deliveries
        # Consumers get theirs in one piece each; that was decided in the order of the log.
        sent = [each for delivery in deliveries for each in self._unfold(delivery, found)]
        for _, reader, entry, redeliveries in sorted(sent, key=lambda each: each[0]):
            assert reader.permits > 0, "permits are never overspent"
            self.on_delivered(reader, entry, redeliveries)
            reader.permits -= entry.count
            reader.held[entry.position] = entry

    def _unfold(
        self, delivery: Deliver[Reader], found: Found
    ) -> list[tuple[int, Reader, Entry, int]]:
        reader, indexes, messages, redeliveries = delivery
        assert reader in self.members, "a consumer that is gone gets nothing"
        assert reader.is_writable
        assert list(indexes) == sorted(set(indexes)) and len(indexes) > 0
        entries = [found.entries[index] for index in indexes]
        assert all(entry.count for entry in entries), "what is acknowledged is not delivered"
        assert messages == sum(entry.count for entry in entries)
        reader.turns += 1
        again = redeliveries or [0] * len(entries)
        return [
            (index, reader, entry, count)
            for index, entry, count in zip(indexes, entries, again, strict=True)
        ]

    def check_books(self) -> None:
        assert {member.consumer for member in self.machine.members} == set(self.members)
        for reader, member in self.members.items():
            assert member.permits + member.blocked_permits == reader.permits
            if self.tracks:
                assert member.unacked == reader.unacked
                assert dict(member.pending) == {p: e.count for p, e in reader.held.items()}
        if self.tracks:
            assert self.machine.unacked == sum(each.unacked for each in self.members)

    def rest(self) -> None:
        """Poll and answer until nothing is to be done."""
        for number in range(POLLS_MAX):
            if self.reads:
                self.answer(number, number)
            elif self._has_news or self.machine.is_due:
                self.poll()
            else:
                break
        else:
            raise AssertionError("it never comes to rest")
        self.check_books()
        self.check_quiet()

    # ------------------------------------------------------------------ steps

    def run(self, history: Sequence[Step]) -> None:
        self._grant(self.join(0), 20)
        for step, a, b, turns in history:
            self._step(step, a, b)
            for turn in range(turns):
                if self.reads and (turn + a) % 3:
                    self.answer(a, b + turn)
                elif self._has_news or self.machine.is_due:
                    self.poll()
            self.check_books()
        self.finish()

    def finish(self) -> None:
        """Consumers take and acknowledge all: everything must come, and be done."""
        self.pass_ms(1_000_000)
        if not self.members:
            self.join(0)
        for reader in self.members:
            self._set_writable(reader, True)
        self.rest()
        while self.unacked:
            before = len(self.unacked)
            for reader in list(self.members):
                self._grant(reader, 50)
            self.rest()
            for reader in list(self.members):
                for entry in list(reader.held.values()):
                    self._ack(reader, entry, 0)
            assert len(self.unacked) < before, "nothing comes any more"
        self.rest()

    def _step(self, step: str, a: int, b: int) -> None:
        match step:
            case "publish":
                for number in range(1 + a % 6):
                    self.publish(1 + (a + number) % 4, Traits(key=b"k%d" % ((b + number) % 4)))
            case "publish late":
                self.publish(1, Traits(key=b"k%d" % (b % 4), deliver_at_ms=self.now_ms + a % 50))
            case "publish chunks":
                uuid, count = f"u{len(self.log)}", 2 + a % 3
                for number in range(count):
                    self.publish(1, Traits(chunk=Chunk(uuid, number == count - 1)))
            case "rest":
                self.rest()
            case "fail":
                if self.reads:
                    self.machine.on_failed(self.reads.pop(a % len(self.reads)))
            case "join":
                if len(self.members) < self.readers_max:
                    self.join(b % 3 // 2)
            case "skip":
                self._skip(b % 4)
            case "wait":
                self.pass_ms(a % 40)
            case _ if self.members:
                readers = list(self.members)
                self._say(step, readers[a % len(readers)], b)
            case _:
                self.join(0)

    def _say(self, step: str, reader: Reader, b: int) -> None:
        held = sorted(reader.held)
        match step:
            case "grant":
                self._grant(reader, 1 + b % 9)
            case "ack" if held:
                self._ack(reader, reader.held[held[b % len(held)]], 0)
            case "ack part":
                batches = [entry for entry in self.unacked if entry.count > 1]
                if batches:
                    entry = batches[b % len(batches)]
                    self._ack(reader, entry, b % entry.count)
            case "ack unread" if self.unacked:
                self._ack(reader, self.unacked[b % len(self.unacked)], 0)
            case "redeliver":
                chosen = [position for index, position in enumerate(held) if b >> index & 1]
                if chosen:
                    self._redeliver(reader, chosen)
            case "redeliver all":
                self._redeliver(reader, [])
            case "leave":
                self._leave(reader)
            case "pause":
                self._set_writable(reader, False)
            case "resume":
                self._set_writable(reader, True)

    def publish(self, count: int, traits: Traits) -> Entry:
        entry = Entry(self.end(), traits, count)
        self.log.append(entry)
        self._has_news = True
        return entry

    def join(self, priority: int) -> Reader:
        reader = Reader(self._next_reader, priority)
        self._next_reader += 1
        member = Member(reader, name=f"c{reader.id}", number=reader.id, priority=priority)
        self.members[reader] = member
        self.on_joined(reader)
        self.carry_out(self.machine.add(member, self.moment))
        return reader

    def _leave(self, reader: Reader) -> None:
        member = self.members.pop(reader)
        self.carry_out(self.machine.remove(member, self.moment))
        self.on_left(reader)

    def _set_writable(self, reader: Reader, writable: bool) -> None:
        reader.is_writable = writable
        self.machine.set_writable(self.members[reader], writable)

    def _grant(self, reader: Reader, permits: int) -> None:
        reader.permits += permits
        self.machine.grant(self.members[reader], permits)

    def _ack(self, reader: Reader, entry: Entry, left: int) -> None:
        entry.count = left
        self.machine.release(self.members[reader], entry.position, left or None)
        if not left:
            self._let_go(entry)

    def _let_go(self, entry: Entry) -> None:
        for each in self.members:
            each.held.pop(entry.position, None)

    def _skip(self, count: int) -> None:
        skipped = self.unacked[:count]
        for entry in skipped:
            entry.count = 0
            self._let_go(entry)
        if skipped:
            last = skipped[-1].position
            following = self._position_at(self._ordinal(last) + 1)
            self.machine.discard(EARLIEST, last, following)

    def _redeliver(self, reader: Reader, positions: Sequence[Position]) -> None:
        self.carry_out(self.machine.redeliver(self.members[reader], positions))
        if self.tracks:
            for position in positions or list(reader.held):
                reader.held.pop(position).redeliveries += 1

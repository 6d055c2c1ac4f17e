"""Shared: entries are handed out round robin and tracked one by one until they are acknowledged."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Sequence
from itertools import repeat
from typing import Final, TypeVar

from magnetar.model.position import Position
from magnetar.rules.dispatch.action import (
    Action,
    Deliver,
    Entries,
    Moment,
    Read,
    Rewind,
    Sleep,
    Traits,
)
from magnetar.rules.dispatch.chunk import ChunkOwners
from magnetar.rules.dispatch.machine import DispatchLimits, Machine, cut_by_permits
from magnetar.rules.dispatch.member import Member
from magnetar.rules.dispatch.replay import DelayIndex, ReplayQueue, split_consecutive

C = TypeVar("C")

WAITING_MAX: Final = 2000
"""Entries that may wait for a busy consumer before reading ahead stops."""
_TURN_ENTRIES: Final = 20
_READ_AHEAD_ENTRIES: Final = 500
_SLEEP_MIN_S: Final = 0.001
_SLEEP_FULL_S: Final = 1.0


class Shared(Machine[C]):
    """An unacknowledged entry that was read is in exactly one place: a consumer's `pending`, the
    replay queue, or the delay index.
    """

    def __init__(self, limits: DispatchLimits, *, is_tracked: bool = True) -> None:
        """Entries that are kept nowhere are not tracked: they are never acknowledged."""
        super().__init__()
        self.replay = ReplayQueue()
        self.delayed = DelayIndex()
        self.redeliveries: dict[tuple[int, int], int] = {}
        self._limits = limits
        self._is_tracked = is_tracked
        self._turn_index = 0
        self._chunks: ChunkOwners[C] = ChunkOwners()
        self._plan: deque[Read] = deque()
        """Reads of what waits in the replay queue; the first may be under way. One that fails
        stays: those behind it must not overtake it.
        """

    # Consumers

    def add(self, member: Member[C], now: Moment) -> Sequence[Action[C]]:
        is_first = not self.members
        self._note_arrival(member)
        insort(self.members, member, key=_place)
        self.is_due = True
        if not is_first:
            return ()
        self._clear()
        return (Rewind(None),)

    def remove(self, member: Member[C], now: Moment) -> Sequence[Action[C]]:
        index = bisect_left(self.members, _place(member), key=_place)
        if index == len(self.members) or self.members[index] is not member:
            return ()
        del self.members[index]
        self.unacked -= member.unacked
        for position in member.pending:
            self._enqueue(position)
        self._plan_anew()
        member.pending.clear()
        member.unacked = 0
        self._chunks.remove(member)
        self._unblock_if_due()
        self.is_due = True
        return ()

    def _clear(self) -> None:
        """The log is read again from the first unacknowledged entry on."""
        self._reading = None
        self._plan.clear()
        self.replay.clear()
        self.delayed.clear()
        self.redeliveries.clear()

    # What waits

    def _enqueue(self, position: tuple[int, int]) -> None:
        """Let an entry wait to be delivered from the replay queue."""
        self.replay.add(position)

    def _dequeue(self, position: tuple[int, int]) -> None:
        self.replay.discard(position)
        self._chunks.let_go(position)

    def _forget(self, position: tuple[int, int]) -> None:
        """An entry is acknowledged, or gone."""
        self._dequeue(position)
        self.delayed.discard(position)
        self.redeliveries.pop(position, None)

    def _plan_anew(self) -> None:
        """Something earlier waits by now: what was to be read from the queue must not overtake
        it.
        """
        self._plan.clear()
        if self._reading is not None and self._reading.is_replay:
            self._reading = None

    # Acknowledgement

    def release(
        self,
        member: Member[C] | None,
        position: tuple[int, int],
        remaining: int | None,
        *,
        is_final: bool = True,
    ) -> int:
        holder = member
        if member is None or position not in member.pending:  # another consumer may hold it
            holder = next((each for each in self.members if position in each.pending), None)
        released = 0
        if holder is not None:
            held = holder.pending[position]
            if remaining is None:
                del holder.pending[position]
                released = held
                self._on_released(holder, position)
            else:
                released = max(0, held - remaining)
                holder.pending[position] = held - released
            self._count_released(holder, released)
        if remaining is None and is_final:
            self._forget(position)
        return released

    def discard(self, first: Position, last: Position, following: Position) -> None:
        for member in self.members:
            for held in [each for each in member.pending if first <= each <= last]:
                self.release(member, held, None)
        for known in [*self.replay, *self.redeliveries]:
            if first <= known <= last:
                self._forget(known)
        for known in self.delayed.within(first, last):
            self._forget(known)
        super().discard(first, last, following)

    def redeliver(
        self, member: Member[C] | None, positions: Sequence[tuple[int, int]]
    ) -> Sequence[Action[C]]:
        if member is None:
            for position in positions:
                if position < self.read_position:  # else it is read for the first time later
                    self.release(None, position, None, is_final=False)
                    self._enqueue_again(position)
        else:
            for position in positions or list(member.pending):
                if position in member.pending:
                    self.release(member, position, None, is_final=False)
                    self._enqueue_again(position)
        self._plan_anew()
        self.is_due = True
        return ()

    def _enqueue_again(self, position: tuple[int, int]) -> None:
        self.redeliveries[position] = self.redeliveries.get(position, 0) + 1
        self._enqueue(position)

    def _on_released(self, member: Member[C], position: tuple[int, int]) -> None:
        """A hook for machines that track more than the entry."""

    # Limits of what is unacknowledged

    def set_limits(self, limits: DispatchLimits) -> None:
        self._limits = limits
        for member in self.members:
            self._unblock_member_if_due(member)
        self._unblock_if_due()
        self.is_due = True

    def _count_released(self, member: Member[C], messages: int) -> None:
        member.unacked -= messages
        self.unacked -= messages
        self._unblock_member_if_due(member)
        self._unblock_if_due()

    def _unblock_member_if_due(self, member: Member[C]) -> None:
        """Permits that came while half of the limit or more was unacknowledged count now."""
        if member.blocked and member.unacked <= self._limits.unacked_per_consumer // 2:
            member.blocked = False
            member.permits += member.blocked_permits
            member.blocked_permits = 0
            self.is_due = True

    def _unblock_if_due(self) -> None:
        if self.blocked and self.unacked <= self._limits.unacked_in_all // 2:
            self.blocked = False
            self.is_due = True

    def _room_of(self, member: Member[C]) -> int:
        """How many messages a consumer that can receive may be handed."""
        limits = self._limits
        room = min(
            limits.unacked_per_consumer - member.unacked, limits.unacked_in_all - self.unacked
        )
        return min(member.permits, max(1, room))

    def _charge(self, member: Member[C], messages: int) -> None:
        member.permits -= messages
        if self._is_tracked:
            member.unacked += messages
            self.unacked += messages
            member.blocked = member.unacked >= self._limits.unacked_per_consumer
            self.blocked = self.unacked >= self._limits.unacked_in_all

    # Reading

    def poll(self, now: Moment, allowed: int) -> Sequence[Action[C]]:
        self.is_due = False
        actions: list[Action[C]] = []
        if len(self.delayed):
            actions += self._end_delays(now)
        if self._reading is None and not self.blocked and allowed > 0:
            permits = sum(member.permits for member in self.members if member.can_receive)
            if permits > 0:
                self._reading = self._choose_read(
                    min(permits, allowed, _READ_AHEAD_ENTRIES), allowed
                )
                if self._reading is not None:
                    actions.append(self._reading)
        return actions

    def _end_delays(self, now: Moment) -> Sequence[Sleep]:
        """Not more than may wait for a busy consumer, and many together: each time what was to be
        read is read anew.
        """
        room = WAITING_MAX - len(self.replay)
        is_full = room < WAITING_MAX // 2
        due = () if is_full else self.delayed.take_due(now.wall_ms, room)
        for position in due:
            self._enqueue(position)
        if due:
            self._plan_anew()
        due_ms = self.delayed.next_due_ms()
        if due_ms is None:
            return ()
        least_s = _SLEEP_FULL_S if is_full else _SLEEP_MIN_S  # a delivery wakes it sooner
        return (Sleep(max(least_s, (due_ms - now.wall_ms) / 1000)),)

    def _choose_read(self, ahead: int, allowed: int) -> Read | None:
        """What waits goes out before anything new is read, so far as it can go out at all."""
        if not self._plan and len(self.replay):
            for ledger_id, first, count in split_consecutive(self._replay_candidates()[:allowed]):
                self._plan.append(Read(Position(ledger_id, first), count, is_replay=True))
        if self._plan:
            return self._plan[0]
        return Read(self.read_position, ahead) if self._may_read_ahead() else None

    def _may_read_ahead(self) -> bool:
        return not self._chunks.waiting_count or len(self.replay) < WAITING_MAX

    def _replay_candidates(self) -> list[tuple[int, int]]:
        """What waits and could be delivered now."""
        if not self._chunks.waiting_count:
            return self.replay.first(_READ_AHEAD_ENTRIES)
        return [p for p in self.replay.first(WAITING_MAX) if self._chunks.is_free(p)]

    def on_nothing(self, read: Read) -> None:
        is_current = read is self._reading
        super().on_nothing(read)
        if read.is_replay:
            if is_current:
                self._plan.popleft()
            self._forget_all(read)
        elif is_current and len(self.replay) and self._replay_candidates():
            self.is_due = True  # they came while the end of the log was read

    def _forget_all(self, read: Read) -> None:
        """What a read of waiting entries did not find was trimmed: nothing is left to deliver."""
        ledger_id, first = read.position
        for entry_id in range(first, first + read.entries_max):
            self._forget((ledger_id, entry_id))
        self.is_due = True

    # Delivery

    def on_entries(self, read: Read, entries: Entries, now: Moment) -> Sequence[Deliver[C]]:
        if read is not self._reading:
            return ()
        self._reading = None
        self.is_due = True
        if read.is_replay:
            self._plan.popleft()
            if (entries.ledger_id, entries.first) != read.position:
                self._forget_all(read)
                return ()
            done, deliveries = self._hand_out(entries, now, is_replay=True)
            if done < read.entries_max:
                self._plan.clear()  # what follows must not overtake the rest
            return deliveries
        done, deliveries = self._hand_out(entries, now, is_replay=False)
        self.read_position = Position(entries.ledger_id, entries.first + done)
        return deliveries

    def offer(self, entries: Entries, now: Moment) -> Sequence[Deliver[C]]:
        return self._hand_out(entries, now, is_replay=False)[1]

    def _hand_out(
        self, entries: Entries, now: Moment, *, is_replay: bool
    ) -> tuple[int, Sequence[Deliver[C]]]:
        """How many entries from the front need no further care here, and what is delivered of
        them.
        """
        deliveries: list[Deliver[C]] = []
        ledger_id, first, size = entries.ledger_id, entries.first, len(entries.counts)
        skipped, special = entries.skipped, entries.special()
        done = 0
        while done < size and not self.blocked:
            position = (ledger_id, first + done)
            if done in skipped:
                if done not in entries.withheld:
                    self._forget(position)
                else:
                    self._dequeue(position)
                done += 1
                continue
            is_kept = False
            if done in special:
                traits = entries.traits(done)
                if not is_replay and self._delay(traits, position, now):
                    done += 1
                    continue
                member, is_kept = self._choose_for(traits, position)
            else:
                member = self._next_member()
            if member is None:
                if not is_kept:
                    break
                self._enqueue(position)
                done += 1
                continue
            end = done + 1
            if done not in special:
                limit = min(size, done + _TURN_ENTRIES)
                while end < limit and end not in special and end not in skipped:
                    end += 1
                end = done + cut_by_permits(entries.counts[done:end], self._room_of(member))
            deliveries.append(self._deliver(member, entries, range(done, end), is_replay))
            done = end
        return done, deliveries

    def _deliver(
        self, member: Member[C], entries: Entries, indexes: range, is_replay: bool
    ) -> Deliver[C]:
        counts = entries.counts[indexes.start : indexes.stop]
        if self._is_tracked:
            entry_ids = range(entries.first + indexes.start, entries.first + indexes.stop)
            positions = zip(repeat(entries.ledger_id), entry_ids, strict=False)
            member.pending.update(zip(positions, counts, strict=True))
        messages = sum(counts)
        self._charge(member, messages)
        return self._conclude(member, entries, indexes, messages, is_replay)

    def _conclude(
        self,
        member: Member[C],
        entries: Entries,
        indexes: Sequence[int],
        messages: int,
        is_replay: bool,
    ) -> Deliver[C]:
        """What goes out does not wait any more."""
        if not is_replay:
            return Deliver(member.consumer, indexes, messages)
        positions = [(entries.ledger_id, entries.first + index) for index in indexes]
        for position in positions:
            self._dequeue(position)
        redeliveries = [self.redeliveries.get(position, 0) for position in positions]
        return Deliver(member.consumer, indexes, messages, redeliveries)

    def _choose_for(
        self, traits: Traits, position: tuple[int, int]
    ) -> tuple[Member[C] | None, bool]:
        """Who gets an entry now, or whether it waits for its owner: all chunks of a message go to
        the consumer that got the first.
        """
        chunk = traits.chunk
        if chunk is None:
            return self._next_member(), False
        owner = self._chunks.owner(chunk.uuid) or self._next_member()
        if owner is None:
            return None, False
        if not owner.can_receive:
            self._chunks.wait(position, owner)
            return None, True
        self._chunks.on_chunk(chunk.uuid, owner, is_last=chunk.is_last)
        return owner, False

    def _next_member(self) -> Member[C] | None:
        """Round robin inside the best priority level that has a consumer with permits; whom it
        passes over has none, so that most turns look at one consumer only.
        """
        members, start = self.members, 0
        while start < len(members):
            level, end = members[start].priority, len(members)
            if members[-1].priority != level:
                end = bisect_right(members, level, start, key=lambda each: each.priority)
            size = end - start
            for step in range(1, size + 1):
                turn = (self._turn_index + step) % size
                if members[start + turn].can_receive:
                    self._turn_index = turn
                    return members[start + turn]
            start = end
        return None

    def _delay(self, traits: Traits, position: tuple[int, int], now: Moment) -> bool:
        """Put an entry aside when it is not due; tell whether that was done."""
        if traits.deliver_at_ms <= now.wall_ms or not self._limits.delays:
            return False
        self.delayed.add(traits.deliver_at_ms, position)
        return True


def _place(member: Member[C]) -> tuple[int, int]:
    return member.priority, member.order

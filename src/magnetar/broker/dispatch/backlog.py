"""What a subscription of a persistent topic has not acknowledged, and where it is read."""

from __future__ import annotations

from typing import Protocol

from magnetar.broker.consumer import Consumer
from magnetar.broker.dispatch.committed import CommittedSource, Source
from magnetar.broker.dispatch.view import EntryView
from magnetar.errors import BrokerError, LedgerNotFound, ProtocolViolation
from magnetar.ledger.cursor import Cursor
from magnetar.ledger.log import Log
from magnetar.ledger.run import EntryRun
from magnetar.model.hash import murmur31
from magnetar.model.position import EARLIEST, Position
from magnetar.rules.transaction.pending_ack import PendingAcks
from magnetar.wire.ackset import full_ack_set
from magnetar.wire.entry import decode_metadata, sticky_key


class ReadTopic(Protocol):
    @property
    def log(self) -> Log: ...

    def source(self, *, read_compacted: bool) -> Source: ...


class Backlog:
    def __init__(
        self, topic: ReadTopic, cursor: Cursor, beginning: Position | None, pending: PendingAcks
    ) -> None:
        """`beginning` is the cursor's mark for as long as nothing of the topic is acknowledged;
        what is `pending` waits for a transaction to end.
        """
        self.source: Source = topic.log.reader
        self._topic = topic
        self._cursor = cursor
        self._pending = pending
        self._beginning = beginning
        self._reader: Consumer | None = None

    def rewind(self, reader: Consumer | None) -> Position:
        """Where to read from now on: the first entry that is not acknowledged."""
        self._reader = reader
        self.source = self._topic.source(read_compacted=self.is_compacted)
        position = self._cursor.read_position = self._cursor.first_unacked()
        if self.is_compacted and self._cursor.mark_delete == self._beginning:
            return EARLIEST  # what was compacted may stand before the log's start
        return position

    @property
    def is_compacted(self) -> bool:
        """Whether the compacted view is read."""
        return self._reader is not None and self._reader.read_compacted

    def refresh_source(self) -> None:
        """The topic was compacted, or a transaction writes to it: read on from the new view."""
        self.source = self._topic.source(read_compacted=self.is_compacted)

    def note_read(self, position: Position) -> None:
        self._cursor.read_position = position

    def view(self, run: EntryRun) -> EntryView:
        """Leave out what is acknowledged already or belongs to another hash range, and markers:
        entries without a message, which count as acknowledged as soon as they are met.
        """
        cursor, counts = self._cursor, run.counts
        ranges = () if self._reader is None else self._reader.member.ranges
        is_whole = self._pending.is_empty and not (ranges or cursor.has_partial)
        if 0 in counts:
            markers = [run.first + index for index, count in enumerate(counts) if count == 0]
            cursor.acknowledge_entries(run.ledger_id, markers)
        elif is_whole and len(cursor.unacked_in(run)) == len(counts):
            return EntryView(run.ledger_id, run.first, run.data, counts)
        counts, skipped, remaining = counts[:], set[int](), dict[int, int]()
        withheld = set[int]()
        for index, entry in enumerate(run.data):
            position = Position(run.ledger_id, run.first + index)
            is_done = counts[index] == 0 or self._is_acknowledged(position)
            if is_done or (ranges and not _is_within(entry, ranges)):
                skipped.add(index)
                counts[index] = 0
                continue
            bits = self._remaining(position, counts[index])
            if bits is not None:
                remaining[index] = bits
                counts[index] = min(counts[index], bits.bit_count())
                if not bits:
                    skipped.add(index)
                    withheld.add(index)
        return EntryView(
            run.ledger_id,
            run.first,
            run.data,
            counts,
            skipped=skipped,
            withheld=withheld,
            remaining=remaining,
        )

    def _remaining(self, position: Position, count: int) -> int | None:
        """The messages of an entry that are neither acknowledged nor wait for a transaction; None:
        all of them.
        """
        bits, withheld = self._cursor.remaining(*position), self._pending.withheld(position)
        if not withheld:
            return bits
        return (full_ack_set(count) if bits is None else bits) & ~withheld

    def _is_acknowledged(self, position: Position) -> bool:
        """What was compacted before the log's start is before the mark too, and yet unread."""
        beginning = self._beginning
        if beginning is not None and position <= beginning == self._cursor.mark_delete:
            return False
        return self._cursor.is_acknowledged(*position)

    def skip_damage(self, first: Position, damage: BrokerError) -> tuple[Position, Position]:
        """Count what cannot be read as acknowledged; return the last such entry, and the position
        behind it.
        """
        last, source = first, self.source
        if isinstance(source, CommittedSource):
            source = source.inner
        if isinstance(damage, LedgerNotFound) and source is self._topic.log.reader:
            for part in self._topic.log.sequence.describe():
                if part.ledger_id == first.ledger_id:  # all the rest of it is gone
                    last = Position(part.ledger_id, max(first.entry_id, part.entries - 1))
        entry_ids = list(range(first.entry_id, last.entry_id + 1))
        self._cursor.acknowledge_entries(first.ledger_id, entry_ids)
        return last, self._topic.log.sequence.next_position(last)


def _is_within(entry: bytes, ranges: tuple[tuple[int, int], ...]) -> bool:
    try:
        key = sticky_key(decode_metadata(entry))
    except ProtocolViolation:
        return True
    slot = murmur31(key) % 65536 or 1
    return any(first <= slot <= last for first, last in ranges)

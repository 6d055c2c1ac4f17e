"""Transactions of Apache's brokers beside the topics of a cluster that was theirs.

Which topics of a namespace took part stands in system topics there; what became of a transaction,
in the logs of its coordinators, or for segments in records. While this broker runs, brokers of
another kind write none of that, so that it is read once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final
from weakref import WeakValueDictionary

from magnetar.broker.compaction import LEDGER_PROPERTY, open_entry
from magnetar.broker.topic_tree import TopicTree
from magnetar.errors import LedgerNotFound, ProtocolViolation, RecordNotFound
from magnetar.ledger.belonging import is_ours
from magnetar.ledger.cursor_ledger import read_cursor
from magnetar.ledger.store import LedgerStore
from magnetar.metadata.store import ANY_VERSION, MetadataStore
from magnetar.model.name import NamespaceName, TopicDomain, TopicName, parse_topic
from magnetar.model.position import EntryId, LedgerId, Position, Term
from magnetar.model.subscription import COMPACTION_CURSOR
from magnetar.model.transaction import Acked, Ended, Outcome, Status, TransactionId
from magnetar.rules.foreign import (
    aborted_segment,
    buffer_topic,
    is_coordinator_log,
    is_sequence_counter,
    is_transaction_buffer,
    pending_ack_log,
)
from magnetar.rules.system import SYSTEM_NAMESPACE
from magnetar.wire.compacted import decode_compacted
from magnetar.wire.foreign_transaction import decode_coordinator_entry, decode_pending_ack_entry
from magnetar.wire.segment_transaction import (
    SegmentOperation,
    decode_segment_operation,
    decode_segment_outcome,
    parse_segment_transaction,
)

_HEADERS: Final = "/txn/id"
_OPERATIONS: Final = "/txn/op"
_ABORTS: Final = "/txn/segment-state/aborted"
_PENDING_ACK_CURSOR: Final = "__pending_ack_state"
_NO_TERM: Final = Term(0)
_BEFORE_ALL: Final = Position(-1, -1)
_READ_ENTRIES: Final = 1000
_READ_BYTES: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class _Traces:
    """What a namespace has of transactions."""

    topics: frozenset[str]
    """Full names of the topics to which transactions have written."""
    logs: frozenset[str]
    """Local names of the logs of acknowledgements in transactions."""


@dataclass(frozen=True, slots=True)
class ForeignAcks:
    """What was acknowledged in transactions and may not be in the cursor yet, in order, and what
    became of them where that does not say so.
    """

    records: Sequence[Acked | Ended] = ()
    outcomes: Mapping[TransactionId, Outcome] = field(default_factory=dict)
    last: Position = _BEFORE_ALL
    """Where the last of it stands in a log of its own."""


@dataclass(frozen=True, slots=True)
class _SegmentRecords:
    operations: Sequence[tuple[str, SegmentOperation]]
    """With their paths."""
    aborted: Mapping[str, frozenset[TransactionId]]
    """By segment."""


class ForeignTransactions:
    def __init__(self, store: MetadataStore, ledgers: LedgerStore, tree: TopicTree) -> None:
        self._store = store
        self._ledgers = ledgers
        self._tree = tree
        self._traces: dict[NamespaceName, _Traces] = {}
        self._outcomes: Mapping[TransactionId, Outcome] | None = None
        self._segments: _SegmentRecords | None = None
        self._turns: WeakValueDictionary[object, asyncio.Lock] = WeakValueDictionary()

    # ------------------------------------------------------------------ what was written

    async def find_outcomes(self, name: TopicName) -> Mapping[TransactionId, Outcome] | None:
        """What became of the transactions that have written to a topic, as far as its log does not
        say so itself; None: none has.
        """
        if name.domain is TopicDomain.SEGMENT:
            return await self._find_segment_outcomes(name)
        if name.full not in (await self._look(name.namespace)).topics:
            return None
        return await self._look_at_outcomes()

    async def _find_segment_outcomes(
        self, name: TopicName
    ) -> Mapping[TransactionId, Outcome] | None:
        records = await self._look_at_segments()
        found = dict.fromkeys(records.aborted.get(name.full, ()), Outcome(False))
        for _, operation in records.operations:
            if operation.segment == name.full and operation.subscription is None:
                found.setdefault(operation.id, await self._find_outcome(operation.id))
        return found or None

    async def _find_outcome(self, id_: TransactionId) -> Outcome:
        record = await self._store.get(f"{_HEADERS}/{id_.most}_{id_.least}")
        return Outcome(False) if record is None else decode_segment_outcome(record.value)

    async def is_theirs(self, ledger: LedgerId) -> bool:
        """Whether another kind of broker has written a ledger, and it is still there."""
        try:
            return not is_ours(await self._ledgers.describe(ledger))
        except LedgerNotFound:
            return False

    # ------------------------------------------------------------------ what was acknowledged

    async def find_acks(self, name: TopicName, subscription: str) -> ForeignAcks:
        if name.domain is TopicDomain.SEGMENT:
            return await self._find_segment_acks(name, subscription)
        log = self._pending_ack_log(name, subscription)
        if log.local not in (await self._look(name.namespace)).logs:
            return ForeignAcks()
        cursor = (await (await self._tree.records(log)).load_cursors()).get(_PENDING_ACK_CURSOR)
        last = _BEFORE_ALL if cursor is None else cursor[0].mark_delete
        found: list[Acked | Ended] = []
        async for position, entry in self._read(log, last):
            found += decode_pending_ack_entry(entry, subscription)
            last = position
        return ForeignAcks(found, await self._look_at_outcomes(), last) if found else ForeignAcks()

    async def forget_acks(self, name: TopicName, subscription: str, found: ForeignAcks) -> None:
        """They are in the cursor by now, as after a commit at Apache's brokers."""
        if name.domain is TopicDomain.SEGMENT:
            for path, operation in (await self._look_at_segments()).operations:
                is_same = (operation.segment, operation.subscription) == (name.full, subscription)
                if is_same and found.outcomes[operation.id].is_commit:
                    await self._remove(path)
            return
        records = await self._tree.records(self._pending_ack_log(name, subscription))
        cursor = (await records.load_cursors()).get(_PENDING_ACK_CURSOR)
        if cursor is None:
            return
        info, version = cursor
        moved = replace(info, ledger_id=-1, mark_delete=found.last, ranges=(), batches={})
        await records.store_cursor(_PENDING_ACK_CURSOR, moved, expect=version)
        if info.ledger_id >= 0:
            await self._ledgers.delete(LedgerId(info.ledger_id))

    async def _remove(self, path: str) -> None:
        try:
            await self._store.delete(path, expect=ANY_VERSION)
        except RecordNotFound:
            pass  # after an earlier load

    async def _find_segment_acks(self, name: TopicName, subscription: str) -> ForeignAcks:
        records: list[Acked | Ended] = []
        outcomes: dict[TransactionId, Outcome] = {}
        for _, operation in (await self._look_at_segments()).operations:
            if (operation.segment, operation.subscription) == (name.full, subscription):
                kind, entries = operation.is_cumulative, (operation.acknowledged,)
                records.append(Acked(operation.id, subscription, kind, entries))
                if operation.id not in outcomes:
                    outcomes[operation.id] = await self._find_outcome(operation.id)
        return ForeignAcks(records, outcomes)

    # ------------------------------------------------------------------ looking

    async def _look(self, namespace: NamespaceName) -> _Traces:
        async with self._turns.setdefault(namespace, asyncio.Lock()):
            found = self._traces.get(namespace)
            if found is None:
                found = self._traces[namespace] = await self._read_traces(namespace)
        return found

    async def _read_traces(self, namespace: NamespaceName) -> _Traces:
        topics, logs = set[str](), set[str]()
        for topic in await self._list(namespace):
            if is_transaction_buffer(topic.local):
                async for entry in self._read_compacted(topic):
                    topics.update(map(buffer_topic, _keys_of(entry)))
            else:
                logs.add(topic.local)
        return _Traces(frozenset(topics), frozenset(logs))

    async def _list(self, namespace: NamespaceName) -> list[TopicName]:
        """The topics in which a namespace keeps transactions."""
        found: list[TopicName] = []
        async for names in self._tree.scan(namespace, TopicDomain.PERSISTENT):
            found += [parse_topic(full) for full in names if "__transaction_" in full]
        return found

    async def _look_at_outcomes(self) -> Mapping[TransactionId, Outcome]:
        async with self._turns.setdefault("outcomes", asyncio.Lock()):
            if self._outcomes is None:
                self._outcomes = await self._read_outcomes()
        return self._outcomes

    async def _read_outcomes(self) -> Mapping[TransactionId, Outcome]:
        """The last that the logs of all coordinators say of each transaction."""
        found: dict[TransactionId, Outcome] = {}
        for log in await self._list(SYSTEM_NAMESPACE):
            if not is_coordinator_log(log.local):
                continue
            async for _, entry in self._read(log):
                for id_, status, open_until_ms in decode_coordinator_entry(entry):
                    found[id_] = Outcome(
                        status.is_commit, (open_until_ms or 0) if status is Status.OPEN else 0
                    )
        return found

    async def _look_at_segments(self) -> _SegmentRecords:
        async with self._turns.setdefault("segments", asyncio.Lock()):
            if self._segments is None:
                self._segments = await self._read_segments()
        return self._segments

    async def _read_segments(self) -> _SegmentRecords:
        operations = [
            (f"{_OPERATIONS}/{each}", decode_segment_operation(each, record.value))
            async for each, record in self._store.scan_children(_OPERATIONS)
            if not is_sequence_counter(each)
        ]
        aborted: dict[str, set[TransactionId]] = {}
        for each in await self._store.children(_ABORTS):
            id_ = parse_segment_transaction(each.rpartition(":")[2])
            aborted.setdefault(aborted_segment(each), set()).add(id_)
        frozen = {segment: frozenset(ids) for segment, ids in aborted.items()}
        return _SegmentRecords(operations, frozen)

    # ------------------------------------------------------------------ reading

    async def _read(
        self, topic: TopicName, after: Position = _BEFORE_ALL
    ) -> AsyncIterator[tuple[Position, bytes]]:
        """The entries of a log behind a position. Its writer is gone: what is open is sealed."""
        loaded = await (await self._tree.records(topic)).load()
        for part in () if loaded is None else loaded[0].ledgers:
            if part.ledger_id < after.ledger_id:
                continue
            first = after.entry_id + 1 if part.ledger_id == after.ledger_id else 0
            try:
                await self._ledgers.recover(LedgerId(part.ledger_id), term=_NO_TERM)
                async for number, entry in self._read_ledger(LedgerId(part.ledger_id), first):
                    yield Position(part.ledger_id, number), entry
            except LedgerNotFound:  # deleted, and its record was not written any more
                continue

    async def _read_compacted(self, topic: TopicName) -> AsyncIterator[bytes]:
        """What a compaction kept of a topic, then all that stands in its log."""
        records = await self._tree.records(topic)
        found = (await records.load_cursors()).get(COMPACTION_CURSOR)
        if found is not None:
            state = await read_cursor(self._ledgers, records, found[0])
            if LEDGER_PROPERTY in state.properties:
                kept = LedgerId(state.properties[LEDGER_PROPERTY])
                async for _, entry in self._read_ledger(kept, 0):
                    yield decode_compacted(entry)[1]
        async for _, entry in self._read(topic):
            yield entry

    async def _read_ledger(self, ledger: LedgerId, first: int) -> AsyncIterator[tuple[int, bytes]]:
        while entries := await self._ledgers.read(
            ledger, EntryId(first), entries_max=_READ_ENTRIES, bytes_max=_READ_BYTES
        ):
            for entry in entries:
                yield first, entry
                first += 1

    @staticmethod
    def _pending_ack_log(name: TopicName, subscription: str) -> TopicName:
        return replace(name, local=pending_ack_log(name.local, subscription))


def _keys_of(entry: bytes) -> list[str]:
    """A key that a broker has taken back counts too: its topic is then looked at in vain."""
    try:
        _, messages = open_entry(entry)
    except ProtocolViolation:
        return []
    return [each.metadata.partition_key for each in messages]

"""Deduplication: what each producer name has already had accepted."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from itertools import groupby
from typing import Final, Protocol

from magnetar.broker.consumer_group import GroupTopic
from magnetar.broker.producer_set import ProducerSet
from magnetar.errors import BrokerError, ProtocolViolation
from magnetar.ledger.cursor import Cursor
from magnetar.ledger.log import Log
from magnetar.model.position import EARLIEST, Position
from magnetar.model.subscription import DEDUP_CURSOR
from magnetar.runtime.log import Logger
from magnetar.wire.command import signed64
from magnetar.wire.entry import decode_metadata
from magnetar.wire.run import SendRun

_log = Logger(__name__)

_LONG_END: Final = 2**63
_BEFORE_ALL: Final = -_LONG_END - 1
"""Below any sequence id: a name that is not known may begin with each."""


class Verdict(Enum):
    ACCEPT = "accept"
    DUPLICATE = "duplicate"
    UNKNOWN = "unknown"


class DeduplicatedTopic(GroupTopic, Protocol):
    @property
    def log(self) -> Log: ...

    @property
    def producers(self) -> ProducerSet: ...


class Deduplicator:
    """Two numbers a name: the highest sequence id handed to the disk, and the highest that is
    durable.

    A snapshot of the durable ones is stored with a cursor of its own, so that a restart replays
    only what came after it.
    """

    def __init__(self, topic: DeduplicatedTopic, cursor: Cursor) -> None:
        self._topic = topic
        self._cursor = cursor
        self._pushed: dict[str, int] = {}
        self._persisted: dict[str, int] = {}
        self._seen_ms: dict[str, int] = {}
        self._since_snapshot = 0
        self._snapshotting = False
        self._last = cursor.mark_delete
        self._snapshot_at = topic.host.clock.monotonic()

    @classmethod
    async def open(cls, topic: DeduplicatedTopic) -> Deduplicator:
        cursor = await topic.log.cursors.open(
            DEDUP_CURSOR, start=EARLIEST, properties={}, cursor_properties={}
        )
        dedup = cls(topic, cursor)
        now_ms = topic.host.clock.now_ms()
        for name, sequence in cursor.properties.items():
            dedup._pushed[name] = dedup._persisted[name] = sequence
            dedup._seen_ms[name] = now_ms
        await dedup._replay()
        return dedup

    async def _replay(self) -> None:
        log = self._topic.log
        position = log.sequence.next_position(self._cursor.mark_delete)
        now_ms = self._topic.host.clock.now_ms()
        while (run := await log.reader.read(position, 1000, 4 << 20)) is not None:
            for entry in run.data:
                try:
                    metadata = decode_metadata(entry)
                except ProtocolViolation:
                    continue
                if (
                    metadata.HasField("chunk_id")
                    and metadata.chunk_id < metadata.num_chunks_from_msg - 1
                ):
                    continue
                sequence = signed64(metadata.sequence_id)
                sequence = max(sequence, signed64(metadata.highest_sequence_id) or sequence)
                name = metadata.producer_name
                if sequence > self._persisted.get(name, _BEFORE_ALL):
                    self._pushed[name] = self._persisted[name] = sequence
                    self._seen_ms[name] = now_ms
            self._since_snapshot += len(run)
            self._last = Position(run.ledger_id, run.last)
            position = run.next_position

    def last_sequence(self, producer_name: str) -> int:
        return self._persisted.get(producer_name, -1)

    def is_durable(self, producer_name: str) -> bool:
        """Whether nothing of the name is on its way to the disk."""
        persisted = self._persisted.get(producer_name, -1)
        return self._pushed.get(producer_name, -1) <= persisted

    def sort(self, producer_name: str, run: SendRun) -> Iterator[tuple[Verdict, SendRun]]:
        """A run in pieces of one verdict each; what is accepted is handed to the disk."""
        verdicts = self.judge(producer_name, run)
        for verdict, group in groupby(range(len(run)), key=verdicts.__getitem__):
            indexes = list(group)
            yield verdict, run if len(indexes) == len(run) else run.select(indexes)

    def judge(self, producer_name: str, run: SendRun) -> list[Verdict]:
        """One verdict an entry; what is accepted counts as handed to the disk from here on."""
        if _is_exempt(run):
            return [Verdict.ACCEPT]
        verdicts = []
        persisted = self._persisted.get(producer_name, _BEFORE_ALL)
        pushed = max(persisted, self._pushed.get(producer_name, _BEFORE_ALL))
        for sequence, highest in zip(_signed(run.sequences), _signed(run.highests), strict=True):
            if sequence > pushed:
                pushed = max(sequence, highest or sequence)
                verdicts.append(Verdict.ACCEPT)
            elif sequence <= persisted:
                verdicts.append(Verdict.DUPLICATE)
            else:
                verdicts.append(Verdict.UNKNOWN)
        self._pushed[producer_name] = pushed
        return verdicts

    def on_persisted(self, producer_name: str, run: SendRun, last: Position) -> None:
        self._last = last
        self._since_snapshot += len(run)
        if not _is_exempt(run):
            sequence = signed64(run.sequences[-1])
            highest = max(sequence, signed64(run.highests[-1]) or sequence)
            if highest > self._persisted.get(producer_name, _BEFORE_ALL):
                self._persisted[producer_name] = highest
            self._seen_ms[producer_name] = self._topic.host.clock.now_ms()
        if (
            self._since_snapshot >= self._topic.policy.dedup_snapshot_interval
            and not self._snapshotting
            and not self._topic.closed
        ):
            self._snapshotting = True
            self._topic.host.tasks.start(self._snapshot(), name="dedup snapshot")

    async def snapshot_if_due(self, now: float) -> None:
        """By time, beside by number: what a quiet topic has had accepted is stored too."""
        interval_s = self._topic.policy.dedup_snapshot_interval_s
        is_due = 0 < interval_s <= now - self._snapshot_at
        if is_due and self._since_snapshot and not self._snapshotting:
            await self._snapshot()

    def on_failed(self, producer_name: str) -> None:
        """A write failed, and so did all the producer sent after it: it sends them again."""
        self._pushed.pop(producer_name, None)

    async def _snapshot(self) -> None:
        """Store what is durable up to the last entry that was counted."""
        self._snapshotting = True
        self._snapshot_at = self._topic.host.clock.monotonic()
        position = self._last
        try:
            self._since_snapshot = 0
            self._forget_inactive()
            newest = sorted(self._persisted.items(), key=lambda item: self._seen_ms.get(item[0], 0))
            limit = self._topic.host.config.brokerDeduplicationMaxNumberOfProducers
            await self._cursor.set_properties(dict(newest[-limit:]))
            self._cursor.acknowledge_through(position)
            await self._cursor.flush()
        except BrokerError as failure:  # the next start replays more of the log, that is all
            _log.warning(
                "deduplication snapshot failed",
                topic=self._topic.name.full,
                reason=failure.sentence,
            )
        finally:
            self._snapshotting = False

    def _forget_inactive(self) -> None:
        minutes = self._topic.host.config.brokerDeduplicationProducerInactivityTimeoutMinutes
        limit_ms = self._topic.host.clock.now_ms() - minutes * 60_000
        connected = {producer.name for producer in self._topic.producers}
        for name, seen_ms in list(self._seen_ms.items()):
            if seen_ms < limit_ms and name not in connected:
                for table in (self._seen_ms, self._pushed, self._persisted):
                    table.pop(name, None)

    async def close(self) -> None:
        if self._since_snapshot and not self._snapshotting:
            await self._snapshot()


def _signed(numbers: list[int]) -> list[int]:
    """Sequence ids as clients mean them; nearly all are as they are on the wire."""
    return numbers if max(numbers) < _LONG_END else [signed64(each) for each in numbers]


def _is_exempt(run: SendRun) -> bool:
    """Markers are not counted, and of a chunked message only the last chunk is."""
    if run.command is None:
        return False
    return run.command.marker or (run.command.is_chunk and not _is_last_chunk(run.entries[0]))


def _is_last_chunk(entry: bytes) -> bool:
    try:
        metadata = decode_metadata(entry)
    except ProtocolViolation:
        return True
    return metadata.chunk_id >= metadata.num_chunks_from_msg - 1

"""Compaction: the last message of every key in a ledger of its own, and a view that joins it with
the live log.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import AsyncIterator, Mapping
from typing import Final

from magnetar.broker.dispatch.committed import Source
from magnetar.broker.entry import count_safely
from magnetar.broker.subscription import Subscription
from magnetar.broker.topic_host import TopicHost
from magnetar.errors import BrokerError, Conflict, LedgerNotFound, ProtocolViolation
from magnetar.ledger.belonging import LedgerUse, UseKind, check_use, is_former_compacted
from magnetar.ledger.cursor import Cursor
from magnetar.ledger.log import Log
from magnetar.ledger.run import EntryRun
from magnetar.ledger.store import Digest, LedgerStore, LedgerWriter
from magnetar.model.answer.log import JobStatus
from magnetar.model.name import TopicName
from magnetar.model.position import EARLIEST, EntryId, LedgerId, Position
from magnetar.model.subscription import COMPACTION_CURSOR
from magnetar.rules.compaction import Retained, plan_retained
from magnetar.rules.transaction.buffer import TransactionBuffer
from magnetar.runtime.log import Logger
from magnetar.wire.batch import BatchMessage, decode_batch, encode_batch
from magnetar.wire.command import MessageMetadata, SingleMessageMetadata, message_id
from magnetar.wire.compacted import (
    DecodeCompacted,
    decode_compacted,
    decode_former_compacted,
    encode_compacted,
)
from magnetar.wire.compression import compress, decompress
from magnetar.wire.entry import decode_entry, decode_metadata, encode_entry

_log = Logger(__name__)

LEDGER_PROPERTY: Final = "CompactedTopicLedger"
_READ_ENTRIES: Final = 500
_READ_BYTES: Final = 4 << 20
_PAYLOAD_BYTES_MAX: Final = 64 << 20


class CompactedView:
    """Reads the compacted ledger up to the horizon, the log after it. Entries keep their
    positions.
    """

    def __init__(
        self,
        log: Log,
        ledgers: LedgerStore,
        ledger_id: LedgerId,
        positions: list[Position],
        horizon: Position,
        size: int,
        decode: DecodeCompacted = decode_compacted,
    ) -> None:
        self._log = log
        self._ledgers = ledgers
        self.ledger_id = ledger_id
        self.size = size
        self.horizon = horizon
        self.positions = positions
        self._decode = decode
        self._ahead: dict[int, bytes] = {}

    def _locate(self, start: Position) -> tuple[int, Position]:
        """Index of the next compacted entry, and where the log is read once they are used up."""
        index = bisect_left(self.positions, start)
        return index, max(start, self._log.sequence.next_position(self.horizon))

    def read_cached(self, start: Position, entries_max: int, bytes_max: int) -> EntryRun | None:
        index, after = self._locate(start)
        if index == len(self.positions):
            return self._log.reader.read_cached(after, entries_max, bytes_max)
        return self._run_from(index, entries_max)

    async def read(self, start: Position, entries_max: int, bytes_max: int) -> EntryRun | None:
        index, after = self._locate(start)
        if index == len(self.positions):
            return await self._log.reader.read(after, entries_max, bytes_max)
        entries = await self._ledgers.read(
            self.ledger_id, EntryId(index), entries_max=_READ_ENTRIES, bytes_max=_READ_BYTES
        )
        self._ahead = {
            index + offset: self._decode(entry)[1] for offset, entry in enumerate(entries)
        }
        return self._run_from(index, entries_max)

    def _run_from(self, index: int, entries_max: int) -> EntryRun | None:
        """Neighbours in the log among what was read ahead."""
        if index not in self._ahead:
            return None
        first = self.positions[index]
        data: list[bytes] = []
        while len(data) < entries_max and index + len(data) in self._ahead:
            expected = Position(first.ledger_id, first.entry_id + len(data))
            if self.positions[index + len(data)] != expected:
                break
            data.append(self._ahead[index + len(data)])
        return EntryRun(
            first.ledger_id, first.entry_id, data, [count_safely(entry) for entry in data]
        )

    async def last_message_id(self) -> tuple[Position, int]:
        """The last compacted entry, and the index of the last message in it."""
        last = EntryId(len(self.positions) - 1)
        entries = await self._ledgers.read(self.ledger_id, last, entries_max=1, bytes_max=1)
        metadata = decode_metadata(self._decode(entries[0])[1])
        is_batch = metadata.HasField("num_messages_in_batch")
        return self.positions[-1], metadata.num_messages_in_batch - 1 if is_batch else -1

    def is_readable(self, position: Position) -> bool:
        index, after = self._locate(position)
        return index < len(self.positions) or self._log.reader.is_readable(after)


class Compactor:
    def __init__(
        self,
        topic: TopicName,
        log: Log,
        host: TopicHost,
        subscriptions: Mapping[str, Subscription],
        buffer: TransactionBuffer,
    ) -> None:
        self._buffer = buffer
        self._topic = topic
        self._use = LedgerUse(UseKind.COMPACTED, topic.full)
        self._log = log
        self._host = host
        self._subscriptions = subscriptions
        self._view: CompactedView | None = None
        self._task: asyncio.Task[None] | None = None
        self._last_error: str | None = None
        self._ran = False
        self.succeeded_ms = 0
        self.failed_ms = 0
        self.duration_ms = 0
        self.removed_count = 0
        """Messages that the last compaction left out."""

    async def open(self) -> None:
        cursor = self._log.cursors.get(COMPACTION_CURSOR)
        if cursor is None or LEDGER_PROPERTY not in cursor.properties:
            return
        ledger_id = LedgerId(cursor.properties[LEDGER_PROPERTY])
        positions: list[Position] = []
        size = 0
        try:
            info = await self._host.ledgers.describe(ledger_id)
            check_use(info, self._use)
            decode = decode_compacted
            if is_former_compacted(info.properties):
                decode = decode_former_compacted
            while entries := await self._host.ledgers.read(
                ledger_id, EntryId(len(positions)), entries_max=_READ_ENTRIES, bytes_max=_READ_BYTES
            ):
                positions += [decode(entry)[0] for entry in entries]
                size += sum(map(len, entries))
        except LedgerNotFound:
            _log.error("compacted ledger is missing", topic=self._topic.full, ledger=ledger_id)
            return
        self._view = CompactedView(
            self._log, self._host.ledgers, ledger_id, positions, cursor.mark_delete, size, decode
        )

    def view(self) -> Source:
        """Where a consumer that asks for the compacted topic reads from."""
        return self._log.reader if self._view is None else self._view

    @property
    def compacted(self) -> CompactedView | None:
        return self._view

    # ------------------------------------------------------------------ running

    async def start(self) -> None:
        if self._task is not None and not self._task.done():
            raise Conflict("Compaction already in progress")
        self._last_error = None
        self._ran = True
        self._task = self._host.tasks.start(self._run(), name="compaction")

    def status(self) -> JobStatus:
        if self._task is not None and not self._task.done():
            return {"status": "RUNNING", "lastError": ""}
        if self._last_error is not None:
            return {"status": "ERROR", "lastError": self._last_error}
        return {"status": "SUCCESS" if self._ran else "NOT_RUN", "lastError": ""}

    async def _run(self) -> None:
        clock = self._host.clock
        started_ms = clock.now_ms()
        try:
            await self._compact()
            self.succeeded_ms = clock.now_ms()
            self.duration_ms = self.succeeded_ms - started_ms
        except BrokerError as failure:
            self.failed_ms = clock.now_ms()
            self._last_error = failure.sentence
            _log.error("compaction failed", topic=self._topic.full, reason=failure.sentence)

    async def _compact(self) -> None:
        log = self._log
        horizon = log.sequence.last_position
        if self._buffer.pin is not None:  # what is not committed yet stays for the next time
            horizon = log.sequence.previous_position(self._buffer.pin)
        cursor = await log.cursors.open(
            COMPACTION_CURSOR, start=EARLIEST, properties={}, cursor_properties={}
        )
        if not log.sequence.total_entries or horizon <= cursor.mark_delete:
            return
        retained = Retained()
        async for position, metadata, messages in self._scan(horizon):
            plan_retained(retained, position, [_key_of(metadata, each) for each in messages])
        writer = await self._host.ledgers.create(
            term=log.term,
            properties=self._describe(horizon),
            deletion_intended=True,
            digest=Digest.CRC32,  # as Pulsar makes it
        )
        try:
            positions = await self._write(writer, retained, horizon)
            sealed = await writer.seal()
        except (BrokerError, asyncio.CancelledError):
            await self._discard(writer.id)
            raise
        view = CompactedView(
            self._log, self._host.ledgers, writer.id, positions, horizon, sealed.length
        )
        await self._publish(cursor, view)

    def _describe(self, horizon: Position) -> dict[str, str]:
        """Pulsar adds up to where it goes, in bytes that are no text: for stores that take them."""
        properties = self._use.format()
        if self._host.ledgers.is_apache_readable:
            reached = message_id(horizon).SerializeToString()
            properties["pulsar/compactedTo"] = reached.decode("utf-8", "surrogateescape")
        return properties

    async def _scan(
        self, horizon: Position
    ) -> AsyncIterator[tuple[Position, MessageMetadata, list[BatchMessage]]]:
        """Every entry up to the horizon with the messages inside it."""
        source, position = self.view(), EARLIEST
        while (run := await source.read(position, _READ_ENTRIES, _READ_BYTES)) is not None:
            for index, entry in enumerate(run.data):
                at = Position(run.ledger_id, run.first + index)
                if at > horizon:
                    return
                if run.counts[index] == 0 or self._buffer.is_aborted(at):
                    # A marker, of which nothing is kept; or never committed.
                    continue
                try:
                    yield at, *open_entry(entry)
                except ProtocolViolation as nonsense:
                    _log.warning(
                        "entry left out of compaction", at=str(at), reason=nonsense.sentence
                    )
            position = run.next_position

    async def _write(
        self, writer: LedgerWriter, retained: Retained, horizon: Position
    ) -> list[Position]:
        positions: list[Position] = []
        waiting: list[bytes] = []
        self.removed_count = 0
        async for position, metadata, messages in self._scan(horizon):
            kept = retained.kept_indexes(position, len(messages))
            self.removed_count += len(messages) - len(kept)
            if not kept:
                continue
            entry = _close_entry(metadata, messages, kept)
            positions.append(position)
            waiting.append(encode_compacted(position, self._topic.partition_index, entry))
            if len(waiting) >= _READ_ENTRIES:
                await _append(writer, waiting)
                waiting = []
        if waiting:
            await _append(writer, waiting)
        return positions

    async def _publish(self, cursor: Cursor, view: CompactedView) -> None:
        """From here on readers see the new ledger; the old one goes once the cursor names the
        new.
        """
        previous = self._view
        if previous is not None:
            await self._host.ledgers.intend_deletion([previous.ledger_id])
        await cursor.set_properties({LEDGER_PROPERTY: view.ledger_id})
        cursor.acknowledge_through(view.horizon)
        await cursor.flush()
        self._host.ledgers.cancel_deletion([view.ledger_id])
        self._view = view
        for subscription in self._subscriptions.values():
            if subscription.dispatcher is not None:
                subscription.dispatcher.refresh_source()
        if previous is not None:
            await self._discard(previous.ledger_id)
        _log.info(
            "compacted",
            topic=self._topic.full,
            entries=len(view.positions),
            horizon=str(view.horizon),
        )

    async def _discard(self, ledger_id: LedgerId) -> None:
        try:
            await self._host.ledgers.delete(ledger_id)
        except BrokerError as failure:  # a sweep for ledgers that nothing names finds it later
            _log.warning("compacted ledger not deleted", ledger=ledger_id, reason=failure.sentence)

    async def close(self) -> None:
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])

    async def delete(self) -> None:
        if self._view is not None:
            await self._host.ledgers.intend_deletion([self._view.ledger_id])
            await self._discard(self._view.ledger_id)


async def _append(writer: LedgerWriter, entries: list[bytes]) -> None:
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def on_durable(failure: BrokerError | None) -> None:
        if failure is not None:
            done.set_exception(failure)
        else:
            done.set_result(None)

    writer.append(entries, on_durable)
    await done


def open_entry(entry: bytes) -> tuple[MessageMetadata, list[BatchMessage]]:
    """An entry's messages; a message that is no batch stands alone, an encrypted one cannot be
    opened.
    """
    metadata, payload = decode_entry(entry)
    if not metadata.HasField("num_messages_in_batch") or metadata.encryption_keys:
        single = SingleMessageMetadata(payload_size=len(payload))
        if metadata.HasField("partition_key"):
            single.partition_key = metadata.partition_key
        single.null_value = metadata.null_value
        return metadata, [BatchMessage(single, payload)]
    plain = payload
    if metadata.compression:
        plain = decompress(
            metadata.compression, payload, metadata.uncompressed_size, bytes_max=_PAYLOAD_BYTES_MAX
        )
    return metadata, decode_batch(plain, metadata.num_messages_in_batch)


def _key_of(metadata: MessageMetadata, message: BatchMessage) -> tuple[str | None, bool]:
    """The message's key, and whether it says that the key is gone."""
    single = message.metadata
    if single.compacted_out or not single.HasField("partition_key"):
        return None, False
    return single.partition_key, single.null_value or not message.payload


def _close_entry(metadata: MessageMetadata, messages: list[BatchMessage], kept: set[int]) -> bytes:
    """The entry again, with what was not kept marked as compacted out; batch indexes stay what they
    were.
    """
    if not metadata.HasField("num_messages_in_batch") or metadata.encryption_keys:
        return encode_entry(metadata, messages[0].payload)
    emptied = SingleMessageMetadata(payload_size=0, compacted_out=True)
    plain = encode_batch(
        (each.metadata, each.payload) if index in kept else (emptied, b"")
        for index, each in enumerate(messages)
    )
    rewritten = MessageMetadata()
    rewritten.CopyFrom(metadata)
    del rewritten.compacted_batch_indexes[:]
    rewritten.compacted_batch_indexes.extend(sorted(kept))
    payload = plain
    if metadata.compression:
        rewritten.uncompressed_size = len(plain)
        payload = compress(metadata.compression, plain)
    return encode_entry(rewritten, payload)

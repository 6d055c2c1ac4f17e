"""From stored entries to Arrow columns: what `client.delivery` does, without a message object.

`ColumnDecoder` takes entries as they stand in a ledger or come over the wire and gives record
batches. The columns are those of `COLUMNS`; a caller that names fewer pays for fewer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from magnetar.client.error import CryptoError
from magnetar.columns.arrow import INSTANT, make_flags, make_instants, make_numbers, make_texts
from magnetar.columns.walk import NONE, MessageTable, Numbers, Places, Shape, walk_batch
from magnetar.errors import MagnetarError, ProtocolViolation
from magnetar.wire.batch import decode_single
from magnetar.wire.chunk import Reassembly, is_chunk
from magnetar.wire.command import MessageMetadata, SingleMessageMetadata, signed64
from magnetar.wire.compression import decompress
from magnetar.wire.entry import decode_entry, decode_key, verify_checksum

COLUMNS: Final[dict[str, pa.DataType]] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "properties": pa.map_(pa.string(), pa.string()),
    "ledger": pa.int64(),
    "entry": pa.int64(),
    "batch_index": pa.int32(),
    "publish_time": INSTANT,
    "event_time": INSTANT,
    "sequence_id": pa.int64(),
    "producer": pa.string(),
    "schema_version": pa.int64(),
    "ordering_key": pa.binary(),
    "encryption": pa.struct([("keys", pa.list_(pa.string())), ("decrypted", pa.bool_())]),
}
Decrypt: TypeAlias = Callable[[MessageMetadata, bytes], bytes | None]
"""Gives the payload of an encrypted entry, or None for one that stays as it is: one row of
ciphertext. Raises CryptoError for an entry that is not to be read.
"""
_CHUNKED_BYTES_MAX: Final = 1024 * 1024 * 1024
_UNFINISHED_MAX: Final = 100


class EntryUnreadable(MagnetarError):
    """A stored entry that is no message: damaged, or written by what is no Pulsar client."""


class EntryEncrypted(EntryUnreadable):
    """An entry whose payload cannot be decrypted."""


class ChunkUnbegun(MagnetarError):
    """The entry ends a message whose first chunks were not given."""


@dataclass(slots=True)
class _Entries:
    """One row an entry, and how many messages each gave."""

    counts: Final[list[int]] = field(default_factory=list)
    ledgers: Final[list[int]] = field(default_factory=list)
    entries: Final[list[int]] = field(default_factory=list)
    publish_ms: Final[list[int]] = field(default_factory=list)
    sequences: Final[list[int]] = field(default_factory=list)
    firsts: Final[list[int]] = field(default_factory=list)
    """The batch index of the first message; -1 for an entry that is one message."""
    producers: Final[list[str]] = field(default_factory=list)
    versions: Final[list[int]] = field(default_factory=list)
    encryptions: Final[list[tuple[tuple[str, ...], bool] | None]] = field(default_factory=list)
    """The names of the keys, and whether the payload was decrypted."""


class ColumnDecoder:
    """Add entries in their order, take a batch when there is enough."""

    def __init__(
        self,
        columns: Collection[str] = COLUMNS,
        *,
        checks: bool = True,
        decrypt: Decrypt = lambda metadata, payload: None,
        wants: Callable[[int], bool] = lambda published_ms: True,
    ) -> None:
        """Without `checks` the entries' checksums are taken for verified."""
        unknown = [each for each in columns if each not in COLUMNS]
        assert not unknown, unknown
        self._columns = tuple(each for each in COLUMNS if each in columns)
        self.checks = checks
        self._decrypt = decrypt
        self._wants = wants
        self._chunks: Reassembly[tuple[int, int]] = Reassembly(
            messages_max=_UNFINISHED_MAX,
            message_bytes_max=_CHUNKED_BYTES_MAX,
            bytes_max=_CHUNKED_BYTES_MAX,
        )
        self._clear()

    def _clear(self) -> None:
        self.rows = 0
        self.size = 0
        """Bytes of payload since the last batch was taken."""
        self._entries = _Entries()
        self._payloads: list[bytes] = []
        self._places: list[Places] = []
        self._bases: list[int] = []
        self._keys: dict[int, bytes | None] = {}
        self._events: dict[int, int] = {}
        self._sequences: dict[int, int] = {}
        self._properties: dict[int, list[tuple[str, str]]] = {}
        self._ordering: dict[int, bytes] = {}
        self._null_values: list[int] = []
        self._dropped: list[int] = []

    def add(
        self, ledger: int, entry: int, data: bytes, *, start: int = 0, end: int | None = None
    ) -> None:
        """Take one entry; of a batch only the messages from `start` up to `end`.

        Raise EntryUnreadable, or ChunkUnbegun, with nothing changed.
        """
        try:
            if self.checks and not verify_checksum(data):
                raise ProtocolViolation("checksum mismatch")
            metadata, payload = decode_entry(data)
            if not (self._wants(signed64(metadata.publish_time)) or is_chunk(metadata)):
                return
            opened = self._decrypt(metadata, payload) if metadata.encryption_keys else payload
            is_readable = opened is not None
            payload = payload if opened is None else opened
            if is_chunk(metadata) and is_readable:
                whole = self._join(metadata, payload, (ledger, entry))
                if whole is None:
                    return
                payload = whole
            if is_readable and metadata.compression:
                payload = decompress(
                    metadata.compression,
                    payload,
                    metadata.uncompressed_size,
                    bytes_max=_CHUNKED_BYTES_MAX,
                )
            if metadata.HasField("marker_type"):
                return
            before = self.rows
            if metadata.HasField("num_messages_in_batch") and is_readable:
                self._add_batch(ledger, entry, metadata, payload, start, end)
            elif start <= 0 and (end is None or end > 0):
                self._add_single(ledger, entry, metadata, payload)
            if metadata.encryption_keys and self.rows > before:
                names = tuple(keys.key for keys in metadata.encryption_keys)
                self._entries.encryptions[-1] = (names, is_readable)
        except CryptoError as error:
            raise EntryEncrypted(f"entry {ledger}:{entry} is encrypted: {error.sentence}") from None
        except ProtocolViolation as error:
            raise EntryUnreadable(
                f"entry {ledger}:{entry} cannot be read: {error.sentence}"
            ) from None

    def add_unreadable(self, ledger: int, entry: int) -> None:
        """A row that says only where it stands."""
        metadata = MessageMetadata(producer_name="", sequence_id=0, publish_time=0, null_value=True)
        self._add_single(ledger, entry, metadata, b"")

    def take(self) -> pa.RecordBatch:
        """What was added since the last time, as one batch."""
        table = MessageTable(b"".join(self._payloads), self._places, self._bases)
        arrays = [self._build(name, table) for name in self._columns]
        batch = pa.RecordBatch.from_arrays(
            arrays, schema=pa.schema([(name, COLUMNS[name]) for name in self._columns])
        )
        if self._dropped:
            kept = np.ones(self.rows, dtype=bool)
            kept[self._dropped] = False
            batch = batch.filter(make_flags(kept))
        self._clear()
        return batch

    # ------------------------------------------------------------------ adding

    def _join(
        self, metadata: MessageMetadata, payload: bytes, place: tuple[int, int]
    ) -> bytes | None:
        whole = self._chunks.add(metadata, payload, place, now_ms=0)
        dropped = self._chunks.take_dropped()
        if whole is not None:
            return whole.payload
        if place in dropped and metadata.chunk_id == metadata.num_chunks_from_msg - 1:
            raise ChunkUnbegun(f"entry {place[0]}:{place[1]} ends a message that began before")
        return None

    def _add_entry(
        self, ledger: int, entry: int, metadata: MessageMetadata, first: int, count: int
    ) -> None:
        entries = self._entries
        entries.counts.append(count)
        entries.ledgers.append(ledger)
        entries.entries.append(entry)
        entries.publish_ms.append(signed64(metadata.publish_time))
        entries.sequences.append(signed64(metadata.sequence_id))
        entries.firsts.append(first)
        entries.producers.append(metadata.producer_name)
        version = metadata.schema_version
        entries.versions.append(int.from_bytes(version, "big", signed=True) if version else NONE)
        entries.encryptions.append(None)
        self.rows += count

    def _add_payload(self, payload: bytes, places: Places) -> None:
        self._bases.append(self.size)
        self._payloads.append(payload)
        self._places.append(places)
        self.size += len(payload)

    def _add_single(
        self, ledger: int, entry: int, metadata: MessageMetadata, payload: bytes
    ) -> None:
        row = self.rows
        self._describe(row, metadata)
        places = Places()
        places.add(0, 1, Shape(len(payload)))
        self._add_payload(payload, places)
        self._add_entry(ledger, entry, metadata, -1, 1)

    def _add_batch(
        self,
        ledger: int,
        entry: int,
        metadata: MessageMetadata,
        payload: bytes,
        start: int,
        end: int | None,
    ) -> None:
        places = walk_batch(payload, metadata.num_messages_in_batch)
        odd = {row: decode_single(payload[a:b]) for row, (a, b) in places.odd.items()}
        count = metadata.num_messages_in_batch
        first, last = max(0, start), count if end is None else min(end, count)
        if first >= last:
            return
        base = self.rows - first
        for row, single in odd.items():
            if first <= row < last:
                self._describe(base + row, single)
                if single.HasField("sequence_id"):
                    self._sequences[base + row] = signed64(single.sequence_id)
                if single.compacted_out:
                    self._dropped.append(base + row)
        if (first, last) != (0, count):
            places = places.cut(first, last)
        self._add_payload(payload, places)
        self._add_entry(ledger, entry, metadata, first, last - first)

    def _describe(self, row: int, own: MessageMetadata | SingleMessageMetadata) -> None:
        """What is not read from the columns of a walk."""
        if own.HasField("partition_key"):
            is_base64 = own.partition_key_b64_encoded
            self._keys[row] = decode_key(own.partition_key, is_base64=is_base64)
        if own.event_time:
            self._events[row] = signed64(own.event_time)
        if own.properties:
            self._properties[row] = [(pair.key, pair.value) for pair in own.properties]
        if own.HasField("ordering_key"):
            self._ordering[row] = own.ordering_key
        if own.null_value:
            self._null_values.append(row)

    # ------------------------------------------------------------------ building

    def _build(self, name: str, table: MessageTable) -> pa.Array:
        entries = self._entries
        match name:
            case "key":
                return self._build_keys(table)
            case "value":
                return self._build_values(table)
            case "properties":
                return self._build_properties()
            case "ledger":
                return self._repeat(entries.ledgers)
            case "entry":
                return self._repeat(entries.entries)
            case "batch_index":
                return make_numbers(self._indexes().astype(np.int32))
            case "publish_time":
                return make_instants(self._spread(entries.publish_ms))
            case "event_time":
                return self._build_events(table)
            case "sequence_id":
                return self._build_sequences(table)
            case "producer":
                return self._repeat_texts(entries.producers)
            case "ordering_key":
                return self._build_ordering()
            case "encryption":
                return self._build_encryptions()
            case _:
                versions = self._spread(entries.versions)
                return make_numbers(versions, missing=versions == NONE)

    def _spread(self, values: list[int]) -> Numbers:
        return np.repeat(np.array(values, dtype=np.int64), self._entries.counts)

    def _repeat(self, values: list[int]) -> pa.Array:
        return make_numbers(self._spread(values))

    def _repeat_texts(self, texts: list[str]) -> pa.Array:
        known = {text: index for index, text in enumerate(dict.fromkeys(texts))}
        indexes = self._spread([known[text] for text in texts])
        return make_texts(list(known)).take(make_numbers(indexes))

    def _build_keys(self, table: MessageTable) -> pa.Array:
        starts, ends, missing = table.keys
        if missing.all() and not self._keys:
            return pa.nulls(self.rows, pa.binary())
        return _patch(_slice(table.data, starts, ends), missing, self._keys)

    def _build_values(self, table: MessageTable) -> pa.Array:
        values = _slice(table.data, *table.values)
        missing = np.zeros(self.rows, dtype=bool)
        missing[self._null_values] = True
        return _patch(values, missing, {})

    def _build_properties(self) -> pa.Array:
        counts = np.zeros(self.rows + 1, dtype=np.int32)
        for row, pairs in self._properties.items():
            counts[row + 1] = len(pairs)
        ordered = [pair for row in sorted(self._properties) for pair in self._properties[row]]
        return pa.MapArray.from_arrays(
            make_numbers(np.cumsum(counts, dtype=np.int32)),
            make_texts([key for key, _ in ordered]),
            make_texts([value for _, value in ordered]),
        )

    def _build_ordering(self) -> pa.Array:
        if not self._ordering:
            return pa.nulls(self.rows, pa.binary())
        return pa.array([self._ordering.get(row) for row in range(self.rows)], pa.binary())

    def _build_encryptions(self) -> pa.Array:
        found = self._entries.encryptions
        if not any(found):
            return pa.nulls(self.rows, COLUMNS["encryption"])
        each = [known and {"keys": known[0], "decrypted": known[1]} for known in found]
        listed = pa.array(each, COLUMNS["encryption"])
        return listed.take(self._repeat(list(range(len(found)))))

    def _indexes(self) -> Numbers:
        counts = np.array(self._entries.counts, dtype=np.int64)
        firsts = np.array(self._entries.firsts, dtype=np.int64)
        steps = np.arange(self.rows) - np.repeat(np.cumsum(counts) - counts, counts)
        return np.repeat(firsts, counts) + steps

    def _build_events(self, table: MessageTable) -> pa.Array:
        events = table.event_times
        for row, event in self._events.items():
            events[row] = event
        return make_instants(events, missing=events <= 0)

    def _build_sequences(self, table: MessageTable) -> pa.Array:
        sequences = table.sequence_ids
        for row, sequence in self._sequences.items():
            sequences[row] = sequence
        missing = sequences == NONE
        if missing.any():
            # Numbered from the entry's own, as clients do that leave the rest out.
            indexes = np.maximum(self._indexes(), 0)
            sequences = np.where(
                missing, self._spread(self._entries.sequences) + indexes, sequences
            )
        return make_numbers(sequences)


def _slice(data: bytes, starts: Numbers, ends: Numbers) -> pa.Array:
    """The bytes from each start to its end: the even ones of slices that lie side by side."""
    count = len(starts)
    if count == 0:
        return pa.nulls(0, pa.binary())
    edges = np.empty(2 * count, dtype=np.int32)
    edges[0::2] = starts
    edges[1::2] = ends
    buffers = [None, pa.py_buffer(edges), pa.py_buffer(data)]
    sliced = pa.Array.from_buffers(pa.binary(), 2 * count - 1, buffers)
    return sliced.take(make_numbers(np.arange(0, 2 * count - 1, 2)))


def _patch(
    column: pa.Array, missing: npt.NDArray[np.bool_], known: dict[int, bytes | None]
) -> pa.Array:
    if known:
        listed: list[Any] = column.to_pylist()
        for row in np.flatnonzero(missing):
            listed[row] = known.get(int(row))
        return pa.array(listed, column.type)
    if not missing.any():
        return column
    present = make_numbers(np.arange(len(column)), missing=missing)
    return column.take(present)

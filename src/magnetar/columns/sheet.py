"""Rows to write, by columns, and the entries that are made of them without a message object.

Every row has a number that rises from one row to the next. An entry holds rows that follow each
other on their segment: from the last number that a segment has stored it follows that all
before it are stored too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import mmh3
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from magnetar.client.outgoing import MessageOptions, Pack, format_key
from magnetar.columns.arrow import Mask, make_binary, make_numbers
from magnetar.model.layout import Layout
from magnetar.model.segment import Segment, SegmentId
from magnetar.rules.route import KeyHash, SegmentHash, route_partition
from magnetar.wire.command import KeyValue, SingleMessageMetadata
from magnetar.wire.entry import decode_key

Numbers = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

_KEY_TAG: Final = 0x12
_SIZE_TAG: Final = 0x18
_EVENT_TAG: Final = 0x28
_ENCODED: Final = b"\x30\x01"
_NUMBER_TAG: Final = 0x40
_NULL: Final = b"\x48\x01"
_SIZE_BYTES: Final = 4
_POSITIVE: Final = 0x7FFF_FFFF


@dataclass(frozen=True, slots=True, eq=False)
class Sheet:
    """Rows in the order of their numbers."""

    numbers: Numbers
    values: pa.BinaryArray
    """Null is a tombstone."""
    keys: pa.BinaryArray
    """As they stand in metadata: text, or bytes spelled in base64; null for no key."""
    encoded: Mask
    """Which keys are spelled in base64."""
    routes: Numbers
    """The Murmur3 that places each row on a segment."""
    places: Numbers
    """The hash that places each row in an entry bucket."""
    events_ms: Numbers
    """0 for none."""
    properties: pa.BinaryArray | None = None
    """Spelled as fields of a message's metadata."""

    def __len__(self) -> int:
        return len(self.numbers)

    def take(self, rows: Numbers | Mask) -> Sheet:
        """Those rows, in their order; a mask or the places where they stand."""
        if rows.dtype == np.bool_:
            rows = np.flatnonzero(rows)
        chosen = make_numbers(rows.astype(np.int64))
        return Sheet(
            self.numbers[rows],
            self.values.take(chosen),
            self.keys.take(chosen),
            self.encoded[rows],
            self.routes[rows],
            self.places[rows],
            self.events_ms[rows],
            None if self.properties is None else self.properties.take(chosen),
        )

    # ------------------------------------------------------------------ where rows go

    def find_stored(
        self,
        stored: Sequence[tuple[Segment, int]],
        *,
        half: SegmentHash,
        legacy: Sequence[SegmentId],
        hashing: KeyHash,
    ) -> Mask:
        """Which rows their segments have, given the last number that each has."""
        found = np.zeros(len(self), np.bool_)
        rings = self._rings(half)
        for segment, last in stored:
            if segment.is_legacy:
                place = self._partitions(len(legacy), hashing) == legacy.index(segment.id)
            else:
                place = (rings >= segment.range.first) & (rings <= segment.range.last)
            found |= place & (self.numbers <= last)
        return found

    def part(
        self, layout: Layout, *, half: SegmentHash, hashing: KeyHash
    ) -> list[tuple[Segment, Sheet]]:
        """The rows of each active segment."""
        if len(layout.active) == 1:
            return [(layout.active[0], self)]
        if layout.is_synthetic:
            segments = sorted(layout.active, key=lambda segment: segment.id)
            indexes = self._partitions(len(segments), hashing)
        else:
            segments = list(layout.active)
            firsts = [segment.range.first for segment in segments]
            indexes = np.searchsorted(firsts, self._rings(half), side="right") - 1
        return [
            (segment, self.take(indexes == index))
            for index, segment in enumerate(segments)
            if (indexes == index).any()
        ]

    def _rings(self, half: SegmentHash) -> Numbers:
        return self.routes >> 16 if half is SegmentHash.HIGH else self.routes & 0xFFFF

    def _partitions(self, count: int, hashing: KeyHash) -> Numbers:
        if hashing is KeyHash.MURMUR3:
            return (self.routes & _POSITIVE) % count
        texts = _route_texts(self.keys, self.numbers)
        return np.array([route_partition(each.decode(), count, hashing=hashing) for each in texts])

    # ------------------------------------------------------------------ entries

    def pack(
        self, splits: Sequence[int], *, messages_max: int, bytes_max: int
    ) -> Iterator[Pack | int]:
        """What becomes one entry each, none of two buckets; for a row that is larger than a batch
        may be, the place where it stands.
        """
        payload, edges = encode_rows(self)
        buckets = np.searchsorted(splits, self.places, side="right")
        turns = [*(np.flatnonzero(np.diff(buckets)) + 1).tolist(), len(self)]
        start = 0
        for turn in turns:
            while start < turn:
                fitting = int(np.searchsorted(edges, edges[start] + bytes_max, side="right")) - 1
                end = min(turn, start + messages_max, fitting)
                if end <= start:
                    yield start
                    end = start + 1
                else:
                    yield self._entry(payload, edges, start, end, has_range=bool(splits))
                start = end

    def _entry(
        self, payload: memoryview, edges: Numbers, start: int, end: int, *, has_range: bool
    ) -> Pack:
        places = self.places[start:end]
        key = self.keys[start].as_py()
        return Pack(
            count=end - start,
            first=int(self.numbers[start]),
            last=int(self.numbers[end - 1]),
            payload=bytes(payload[edges[start] : edges[end]]),
            key=None if key is None else key.decode(),
            is_key_encoded=bool(self.encoded[start]),
            hashes=(int(places.min()), int(places.max())) if has_range else None,
            source=(self, start),
        )

    def message(self, place: int) -> tuple[bytes | None, MessageOptions]:
        """One row as a message is sent."""
        key: str | bytes | None = None
        if (spelled := self.keys[place].as_py()) is not None:
            text = spelled.decode()
            key = decode_key(text, is_base64=True) if self.encoded[place] else text
        options = MessageOptions(key=key, sequence_id=int(self.numbers[place]))
        if event_ms := int(self.events_ms[place]):
            options["event_time_ms"] = event_ms
        if self.properties is not None:
            metadata = SingleMessageMetadata.FromString(self.properties[place].as_py())
            options["properties"] = {pair.key: pair.value for pair in metadata.properties}
        return self.values[place].as_py(), options


def make_sheet(
    keys: pa.Array,
    values: pa.Array,
    first: int,
    *,
    events_ms: Numbers | None = None,
    properties: Sequence[Sequence[tuple[str, str]]] | None = None,
    sorts: Mask | None = None,
) -> tuple[Sheet, Numbers]:
    """Rows numbered from `first` on, and where each stood. Keys are text, or bytes; what is text
    among those is hashed as every other client hashes it.

    Rows that `sorts` names are put in the order of their bucket hashes, so that those of a bucket
    follow each other, whatever buckets the segments have. Rows of one key, and rows without any,
    stay in their order.
    """
    count = len(values)
    spelled, encoded, routes, places = _spell_keys(keys)
    order = np.arange(count, dtype=np.int64)
    if sorts is not None:
        # By 16 bits numpy sorts by digits.
        order = np.argsort(np.where(sorts, places, 0).astype(np.uint16), kind="stable")
    numbers = np.arange(first, first + count, dtype=np.int64)
    sheet = Sheet(
        numbers,
        _binary(values),
        spelled,
        encoded,
        routes,
        places,
        np.zeros(count, np.int64) if events_ms is None else events_ms,
        None if properties is None else _spell_properties(properties),
    )
    if sorts is not None:
        sheet = replace(sheet.take(order), numbers=numbers)
    if spelled.null_count:
        sheet = replace(sheet, routes=_number_routes(sheet))
    return sheet, order


# ---------------------------------------------------------------------- keys and properties


def _binary(column: pa.Array) -> pa.BinaryArray:
    return column if column.type == pa.binary() else column.cast(pa.binary())


def _spell_keys(keys: pa.Array) -> tuple[pa.BinaryArray, Mask, Numbers, Numbers]:
    """Spelled keys, which of them in base64, and their hashes."""
    spelled = _binary(keys)
    coded = spelled.dictionary_encode()
    known = coded.dictionary
    listed: list[bytes] = known.to_pylist()
    routes = places = _murmur(listed)
    empty = np.zeros(1, np.int64)  # what rows without a key point to, after all others
    codes = coded.indices.fill_null(len(known)).to_numpy(zero_copy_only=False)
    encoded = np.zeros(len(codes), np.bool_)
    try:
        known.cast(pa.string())
    except pa.ArrowInvalid:
        texts, are_encoded = _spell_bytes(listed)
        routes = _murmur(texts)
        spelled = make_binary(texts).take(coded.indices)
        encoded = np.concatenate((are_encoded, [False]))[codes]
    return (
        spelled,
        encoded,
        np.concatenate((routes, empty))[codes],
        np.concatenate((places & 0xFFFF, empty))[codes],
    )


def _spell_bytes(keys: Sequence[bytes]) -> tuple[list[bytes], Mask]:
    texts, encoded = [], np.zeros(len(keys), np.bool_)
    for place, key in enumerate(keys):
        try:
            key.decode()
            texts.append(key)
        except UnicodeDecodeError:
            texts.append(format_key(key).encode())
            encoded[place] = True
    return texts, encoded


def _murmur(texts: Sequence[bytes]) -> Numbers:
    return np.fromiter((mmh3.hash(each, signed=False) for each in texts), np.int64, len(texts))


def _route_texts(keys: pa.BinaryArray, numbers: Numbers) -> list[bytes]:
    """What is hashed: the key, or without one the number."""
    listed = zip(keys.to_pylist(), numbers.tolist(), strict=True)
    return [b"%d" % number if key is None else key for key, number in listed]


def _number_routes(sheet: Sheet) -> Numbers:
    """Rows without a key are placed by their numbers."""
    missing = np.flatnonzero(sheet.keys.is_null().to_numpy(zero_copy_only=False))
    routes = sheet.routes.copy()
    routes[missing] = _murmur([b"%d" % number for number in sheet.numbers[missing].tolist()])
    return routes


def _spell_properties(properties: Sequence[Sequence[tuple[str, str]]]) -> pa.BinaryArray:
    spelled = [
        SingleMessageMetadata(
            properties=[KeyValue(key=key, value=value) for key, value in each]
        ).SerializePartialToString()
        for each in properties
    ]
    return make_binary(spelled)


# ---------------------------------------------------------------------- the payload of a batch


def encode_rows(sheet: Sheet) -> tuple[memoryview, Numbers]:
    """All rows as they stand in the payload of a batch, and where each begins and the last ends."""
    keys, values = sheet.keys, sheet.values
    key_sizes = pc.binary_length(keys).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    sizes = pc.binary_length(values).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    property_sizes = np.zeros(len(sheet), np.int64)
    if sheet.properties is not None:
        property_sizes = pc.binary_length(sheet.properties).to_numpy().astype(np.int64)
    head = _Columns(len(sheet))
    if keys.null_count < len(sheet):
        has_key = keys.is_valid().to_numpy(zero_copy_only=False)
        head.add_byte(_KEY_TAG, has_key)
        head.add_varint(key_sizes, has_key)
    tail = _Columns(len(sheet))
    tail.add_byte(_SIZE_TAG)
    tail.add_varint(sizes)
    if sheet.events_ms.any():
        tail.add_byte(_EVENT_TAG, sheet.events_ms > 0)
        tail.add_varint(sheet.events_ms, sheet.events_ms > 0)
    if sheet.encoded.any():
        tail.add_bytes(_ENCODED, sheet.encoded)
    tail.add_byte(_NUMBER_TAG)
    tail.add_varint(sheet.numbers)
    if values.null_count:
        tail.add_bytes(_NULL, values.is_null().to_numpy(zero_copy_only=False))
    lead = _Columns(len(sheet))
    lead.add_size(property_sizes + head.sizes + key_sizes + tail.sizes)
    middle = [] if sheet.properties is None else [sheet.properties]
    joined = pc.binary_join_element_wise(
        lead.take(), *middle, head.take(), keys, tail.take(), values, b"", null_handling="replace"
    )
    _, edges, data = joined.buffers()
    assert data is not None, "a row has a head at least"
    placed = np.frombuffer(edges, np.int32, len(joined) + 1, joined.offset * 4)
    return memoryview(data), placed.astype(np.int64)


class _Columns:
    """Bytes of each row, column by column; a row leaves out what it has not."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._bytes: list[Bytes] = []
        self._has: list[Mask] = []
        self._all = np.ones(rows, np.bool_)
        self.sizes = np.zeros(rows, np.int64)

    def add(self, column: Any, has: Mask) -> None:
        self._bytes.append(column)
        self._has.append(has)
        self.sizes += has

    def add_byte(self, value: int, has: Mask | None = None) -> None:
        self.add(np.full(self._rows, value, np.uint8), self._all if has is None else has)

    def add_bytes(self, values: bytes, has: Mask) -> None:
        for each in values:
            self.add_byte(each, has)

    def add_varint(self, values: Numbers, has: Mask | None = None) -> None:
        present = self._all if has is None else has
        while present.any():
            more = values >> 7
            self.add((values & 0x7F | np.where(more, 0x80, 0)).astype(np.uint8), present)
            values, present = more, present & (more > 0)

    def add_size(self, values: Numbers) -> None:
        for each in values.astype(">u4").view(np.uint8).reshape(self._rows, _SIZE_BYTES).T:
            self.add(each, self._all)

    def take(self) -> pa.BinaryArray:
        edges = np.zeros(self._rows + 1, np.int32)
        np.cumsum(self.sizes, out=edges[1:])
        data = b""
        if self._bytes:
            has = np.stack(self._has, axis=1)
            data = np.stack(self._bytes, axis=1)[has].tobytes()
        buffers = [None, pa.py_buffer(edges), pa.py_buffer(data)]
        return pa.Array.from_buffers(pa.binary(), self._rows, buffers)

"""Where the messages of a batch stand in its payload, without an object for each.

A batch is `{ u32 size, SingleMessageMetadata, payload }` again and again. Messages that are shaped
alike, as those of one producer mostly are, stand at equal distances: they are told apart by their
fixed bytes and read as columns of one table. What is shaped otherwise is walked one by one, and
what carries more than key, sizes, times and sequence id is left to the caller.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from magnetar.errors import ProtocolViolation
from magnetar.wire.varint import read_varint

Numbers: TypeAlias = npt.NDArray[np.int64]

_SIZE: Final = struct.Struct(">I")
_KEY: Final = 0x12
_PAYLOAD_SIZE: Final = 0x18
_EVENT_TIME: Final = 0x28
_SEQUENCE_ID: Final = 0x40
_ALIKE_MIN: Final = 8
"""Fewer messages of one shape are not worth a table."""
_SINGLY: Final = 32
NONE: Final = -1
"""Stands for a number that is not there; a key that is not there begins here."""


class Places(NamedTuple):
    """One column a message. The rows of `table` are those of `Row`."""

    table: Numbers
    odd: dict[int, tuple[int, int]]
    """Messages whose metadata says more, and where it starts and ends."""


class Row(IntEnum):
    """Where key and value begin and end; a key that is not there begins at NONE."""

    KEY_START = 0
    KEY_END = 1
    VALUE_START = 2
    VALUE_END = 3
    EVENT_TIME = 4
    SEQUENCE_ID = 5


class _Shape(NamedTuple):
    """One message, and how many bytes it takes with its size."""

    stride: int
    key_start: int
    key_end: int
    value_start: int
    event_span: tuple[int, int]
    sequence_span: tuple[int, int]


class _Table:
    """What was found so far: whole columns of alike messages, and single ones."""

    def __init__(self) -> None:
        self.columns: list[Numbers] = []
        self.rows: list[tuple[int, int, int, int, int, int]] = []
        self.odd: dict[int, tuple[int, int]] = {}
        self.count = 0

    def add_columns(self, columns: Numbers) -> None:
        self._close_rows()
        self.columns.append(columns)
        self.count += columns.shape[1]

    def _close_rows(self) -> None:
        if self.rows:
            self.columns.append(np.array(self.rows, dtype=np.int64).T)
            self.rows = []

    def finish(self) -> Places:
        self._close_rows()
        if len(self.columns) == 1:
            return Places(self.columns[0], self.odd)
        empty = np.empty((len(Row), 0), dtype=np.int64)
        return Places(np.concatenate([empty, *self.columns], axis=1), self.odd)


def walk_batch(payload: bytes, count: int) -> Places:
    """Find `count` messages; raise ProtocolViolation unless they are all there."""
    table = _Table()
    position = 0
    singly = _SINGLY
    while table.count < count:
        left = count - table.count
        if left >= _ALIKE_MIN:
            shape = _shape_at(payload, position)
            alike = 0 if shape is None else _count_alike(payload, position, shape, left)
            if shape is not None and alike >= _ALIKE_MIN:
                table.add_columns(_read_alike(payload, position, shape, alike))
                position += alike * shape.stride
                singly = _SINGLY
                continue
        position = _walk_singly(payload, position, min(left, singly), table)
        singly *= 2
    return table.finish()


def _shape_at(data: bytes, start: int) -> _Shape | None:
    """None when the message is not of the usual kind, or not whole."""
    try:
        cursor = start + 4
        end = cursor + _SIZE.unpack_from(data, start)[0]
        key_start = key_end = NONE
        if data[cursor] == _KEY:
            size, key_start = read_varint(data, cursor + 1)
            cursor = key_end = key_start + size
        if data[cursor] != _PAYLOAD_SIZE:
            return None
        size, cursor = read_varint(data, cursor + 1)
        event = sequence = (0, 0)
        if cursor < end and data[cursor] == _EVENT_TIME:
            _, after = read_varint(data, cursor + 1)
            event, cursor = (cursor + 1 - start, after - start), after
        if cursor < end and data[cursor] == _SEQUENCE_ID:
            _, after = read_varint(data, cursor + 1)
            sequence, cursor = (cursor + 1 - start, after - start), after
    except (IndexError, struct.error):
        return None
    if cursor != end or end + size > len(data):
        return None
    return _Shape(
        end + size - start, key_start - start, key_end - start, end - start, event, sequence
    )


def _count_alike(data: bytes, start: int, shape: _Shape, most: int) -> int:
    """How many messages from `start` on have the shape of the first."""
    most = min(most, (len(data) - start) // shape.stride)
    table = np.frombuffer(data, np.uint8, most * shape.stride, start).reshape(most, shape.stride)
    head = table[:, : shape.value_start]
    # Of a key all bytes may differ, of a number the low seven bits of each.
    mask = np.full(shape.value_start, 0xFF, np.uint8)
    if shape.key_end > shape.key_start:
        mask[shape.key_start : shape.key_end] = 0
    for first, last in (shape.event_span, shape.sequence_span):
        mask[first:last] = 0x80
    differs = ((head ^ head[0]) & mask).any(axis=1)
    first_other = int(differs.argmax())
    return first_other if differs[first_other] else most


def _read_alike(data: bytes, start: int, shape: _Shape, count: int) -> Numbers:
    columns = np.empty((len(Row), count), dtype=np.int64)
    firsts = np.arange(start, start + count * shape.stride, shape.stride, dtype=np.int64)
    has_key = shape.key_start >= 0
    columns[Row.KEY_START] = firsts + shape.key_start if has_key else NONE
    columns[Row.KEY_END] = firsts + shape.key_end if has_key else NONE
    columns[Row.VALUE_START] = firsts + shape.value_start
    columns[Row.VALUE_END] = firsts + shape.stride
    table = np.frombuffer(data, np.uint8, count * shape.stride, start).reshape(count, shape.stride)
    columns[Row.EVENT_TIME] = _read_numbers(table, shape.event_span)
    columns[Row.SEQUENCE_ID] = _read_numbers(table, shape.sequence_span)
    return columns


def _read_numbers(table: npt.NDArray[np.uint8], span: tuple[int, int]) -> Numbers:
    first, end = span
    values = np.full(len(table), 0 if end > first else NONE, dtype=np.int64)
    for place in range(first, end):
        values |= (table[:, place] & 0x7F).astype(np.int64) << (7 * (place - first))
    return values


def _walk_singly(data: bytes, start: int, count: int, table: _Table) -> int:
    """Add `count` messages from `start` on; return where they end."""
    size_of = _SIZE.unpack_from
    add = table.rows.append
    number = table.count
    try:
        for number in range(table.count, table.count + count):
            metadata_start = cursor = start + 4
            end = cursor + size_of(data, start)[0]
            key_start = key_end = event = sequence = NONE
            if data[cursor] == _KEY:
                size = data[cursor + 1]
                key_start = cursor + 2
                if size > 127:
                    size, key_start = read_varint(data, cursor + 1)
                cursor = key_end = key_start + size
            size = -1
            if data[cursor] == _PAYLOAD_SIZE:
                size = data[cursor + 1]
                cursor += 2
                if size > 127:
                    size, cursor = read_varint(data, cursor - 1)
                if cursor < end and data[cursor] == _EVENT_TIME:
                    event, cursor = read_varint(data, cursor + 1)
                if cursor < end and data[cursor] == _SEQUENCE_ID:
                    sequence, cursor = read_varint(data, cursor + 1)
            if cursor != end or size < 0:
                size = _payload_size(data, metadata_start, end)
                table.odd[number] = (metadata_start, end)
                key_start = key_end = event = sequence = NONE
            start = end + size
            add((key_start, key_end, end, start, event, sequence))
    except (IndexError, struct.error):
        raise ProtocolViolation(f"a batch ends inside message {number}") from None
    if start > len(data):
        raise ProtocolViolation(f"a batch ends inside message {table.count + count - 1}")
    table.count += count
    return start


def _payload_size(data: bytes, cursor: int, end: int) -> int:
    """The size alone, from metadata with any fields."""
    size = -1
    while cursor < end:
        tag, cursor = read_varint(data, cursor)
        match tag & 7:
            case 0:
                value, cursor = read_varint(data, cursor)
                size = value if tag == _PAYLOAD_SIZE else size
            case 2:
                length, cursor = read_varint(data, cursor)
                cursor += length
            case 1:
                cursor += 8
            case 5:
                cursor += 4
            case _:
                raise ProtocolViolation("single message metadata that cannot be decoded")
    if cursor != end or not 0 <= size < 1 << 31:
        raise ProtocolViolation("single message metadata without a payload size")
    return size

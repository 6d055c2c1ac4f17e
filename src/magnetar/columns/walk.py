"""Where the messages of a batch stand in its payload, without an object for each.

A batch is `{ u32 size, SingleMessageMetadata, payload }` again and again. Messages that are shaped
alike, as those of one producer mostly are, stand at equal distances: their fixed bytes show them,
and they are kept as one run. What is shaped otherwise is walked one by one, each a run of its
own, and what carries more than key, sizes, times and sequence id is left to the caller. Columns are
made of many runs at once.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from magnetar.errors import ProtocolViolation
from magnetar.wire.varint import read_varint

Numbers: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.unsignedinteger[Any]]
T = TypeVar("T", bound=np.generic)

_SIZE: Final = struct.Struct(">I")
_KEY: Final = 0x12
_PAYLOAD_SIZE: Final = 0x18
_EVENT_TIME: Final = 0x28
_SEQUENCE_ID: Final = 0x40
_ALIKE_MIN: Final = 4
"""Fewer messages of one shape are sooner walked."""
_SINGLY: Final = 8
_LOOK_FIRST: Final = 512
_LOOK_GROWTH: Final = 8
_SHAPES_MAX: Final = 512
_VARINT_BYTES_MAX: Final = 10
_WORD_BYTES: Final = 8
NONE: Final = -1
"""Stands for a number that is not there; a key that is not there begins here."""


class Shape(NamedTuple):
    """One message: how many bytes it takes with its size, and where its parts stand in them. A key
    that is not there begins at NONE, a number that is not there has no bytes.
    """

    stride: int
    key_start: int = NONE
    key_end: int = NONE
    value_start: int = 0
    event_start: int = 0
    event_end: int = 0
    sequence_start: int = 0
    sequence_end: int = 0


@dataclass(frozen=True, slots=True)
class Places:
    """Runs of messages of one shape, in order."""

    starts: list[int] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    shapes: list[Shape] = field(default_factory=list)
    odd: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Messages whose metadata says more, and where it starts and ends."""

    def add(self, start: int, count: int, shape: Shape) -> None:
        self.starts.append(start)
        self.counts.append(count)
        self.shapes.append(shape)

    def cut(self, first: int, end: int) -> Places:
        """The messages from `first` up to `end`; the odd ones are known already."""
        kept, at = Places(), 0
        for start, count, shape in zip(self.starts, self.counts, self.shapes, strict=True):
            skipped, left = max(0, first - at), min(count, end - at)
            if skipped < left:
                kept.add(start + skipped * shape.stride, left - skipped, shape)
            at += count
        return kept


class MessageTable:
    """The messages of payloads that stand one behind the other, by columns."""

    def __init__(self, data: bytes, places: Sequence[Places], bases: Sequence[int]) -> None:
        self.data: Final = data
        known: dict[Shape, int] = {}
        codes = [known.setdefault(shape, len(known)) for each in places for shape in each.shapes]
        self._shapes = np.array(list(known), dtype=np.int64).reshape(-1, len(Shape._fields))
        pairs = zip(places, bases, strict=True)
        starts = [start + base for each, base in pairs for start in each.starts]
        counts = np.array([*chain.from_iterable(each.counts for each in places)], dtype=np.int64)
        steps = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        self._codes = np.repeat(np.array(codes, dtype=np.int64), counts)
        self._firsts = np.repeat(np.array(starts, dtype=np.int64), counts)
        self._firsts += steps * self._of_shape("stride")

    def _column(self, name: str) -> Numbers:
        """A part of each shape."""
        return self._shapes[:, Shape._fields.index(name)]

    def _spread(self, column: npt.NDArray[T]) -> npt.NDArray[T]:
        """What is known of shapes, of each message; one of it where all have the same shape."""
        return column if len(column) == 1 else column.take(self._codes)

    def _of_shape(self, name: str) -> Numbers:
        return self._spread(self._column(name))

    @property
    def keys(self) -> tuple[Numbers, Numbers, npt.NDArray[np.bool_]]:
        """Where keys start and end, and which are missing: those are empty."""
        start, end = self._column("key_start"), self._column("key_end")
        missing = start == NONE
        return (
            self._firsts + self._spread(np.where(missing, 0, start)),
            self._firsts + self._spread(np.where(missing, 0, end)),
            np.broadcast_to(self._spread(missing), self._firsts.shape),
        )

    @property
    def values(self) -> tuple[Numbers, Numbers]:
        """Where values start and end."""
        starts = self._firsts + self._of_shape("value_start")
        return starts, self._firsts + self._of_shape("stride")

    @property
    def event_times(self) -> Numbers:
        return self._read_numbers("event_start", "event_end")

    @property
    def sequence_ids(self) -> Numbers:
        return self._read_numbers("sequence_start", "sequence_end")

    def _read_numbers(self, start: str, end: str) -> Numbers:
        """NONE for those that are not there."""
        starts = self._firsts + self._of_shape(start)
        sizes = self._column(end) - self._column(start)
        known = sorted(set(sizes.tolist()))
        if len(known) == 1:
            return _decode_varints(self.data, starts, known[0])
        numbers = np.full(len(starts), NONE, dtype=np.int64)
        for size in known:
            if size:
                rows = np.flatnonzero(self._spread(sizes == size))
                numbers[rows] = _decode_varints(self.data, starts[rows], size)
        return numbers


def _decode_varints(data: bytes, starts: Numbers, size: int) -> Numbers:
    """Numbers of one size; NONE for all where that is 0."""
    if not size:
        return np.full(len(starts), NONE, dtype=np.int64)
    if size <= _WORD_BYTES and len(starts) and int(starts.max()) + _WORD_BYTES <= len(data):
        # A word at each byte, so that one look finds all bytes of a number.
        words = np.ndarray((len(data) - _WORD_BYTES + 1,), "<u8", data, strides=(1,))[starts]
        found = words & 0x7F
        for place in range(1, size):
            found |= (words >> place) & (0x7F << (7 * place))
        return found.view(np.int64)
    stored = np.frombuffer(data, np.uint8)
    slowly = np.zeros(len(starts), dtype=np.int64)
    for place in range(size):
        slowly |= (stored[starts + place] & 0x7F).astype(np.int64) << (7 * place)
    return slowly


def walk_batch(payload: bytes, count: int) -> Places:
    """Find `count` messages; raise ProtocolViolation unless they are all there."""
    places = Places()
    position = found = 0
    singly = _SINGLY
    while found < count:
        left = count - found
        if left >= _ALIKE_MIN:
            shape = _shape_at(payload, position)
            if shape is not None:
                alike = _count_alike(payload, position, shape, left)
                places.add(position, alike, shape)
                position += alike * shape.stride
                found += alike
                if alike >= _ALIKE_MIN:
                    singly = _SINGLY
                    continue
        taken = min(count - found, singly)
        position = _walk_singly(payload, position, range(found, found + taken), places)
        found += taken
        singly *= 2
    return places


def _shape_at(data: bytes, start: int) -> Shape | None:
    """None when the message is not of the usual kind, or not whole."""
    try:
        shape = _read_shape(data, start)
    except (IndexError, struct.error):
        return None
    return None if shape is None or start + shape.stride > len(data) else shape


def _read_shape(data: bytes, start: int) -> Shape | None:
    """None when the message is not of the usual kind."""
    cursor = start + 4
    end = cursor + _SIZE.unpack_from(data, start)[0]
    key_start = key_end = NONE
    if data[cursor] == _KEY:
        size = data[cursor + 1]
        key = cursor + 2
        if size > 127:
            size, key = read_varint(data, cursor + 1)
        cursor = key + size
        key_start, key_end = key - start, cursor - start
    if data[cursor] != _PAYLOAD_SIZE:
        return None
    size = data[cursor + 1]
    cursor += 2
    if size > 127:
        size, cursor = read_varint(data, cursor - 1)
    event = sequence = (0, 0)
    if cursor < end and data[cursor] == _EVENT_TIME:
        after = _skip_varint(data, cursor + 1)
        event, cursor = (cursor + 1 - start, after - start), after
    if cursor < end and data[cursor] == _SEQUENCE_ID:
        after = _skip_varint(data, cursor + 1)
        sequence, cursor = (cursor + 1 - start, after - start), after
    if cursor != end:
        return None
    return Shape(end + size - start, key_start, key_end, end - start, *event, *sequence)


def _skip_varint(data: bytes, start: int) -> int:
    """Where it ends."""
    for cursor in range(start, start + _VARINT_BYTES_MAX):
        if data[cursor] < 128:
            return cursor + 1
    raise ProtocolViolation("single message metadata with a number that does not end")


def _count_alike(data: bytes, start: int, shape: Shape, most: int) -> int:
    """How many messages from `start` on have the shape of the first."""
    most = min(most, (len(data) - start) // shape.stride)
    words = _mask_words(shape)
    limit = _LOOK_FIRST
    while True:  # a run that is short is found out by looking at few
        looked = min(most, limit)
        differs: npt.NDArray[np.bool_] | None = None
        for offset, mask in words:
            whole = np.ndarray((looked,), mask.dtype, data, start + offset, (shape.stride,))
            word = whole & mask
            other = word != word[0]
            differs = other if differs is None else differs | other
        assert differs is not None, "every head has a word"
        first_other = int(differs.argmax())
        if differs[first_other]:
            return first_other
        if looked == most:
            return most
        limit *= _LOOK_GROWTH


@lru_cache(maxsize=_SHAPES_MAX)
def _mask_words(shape: Shape) -> tuple[tuple[int, Mask], ...]:
    """The words that make up a head: where, and the bits that are alike. The last one ends with the
    head, and may overlap the one before.
    """
    # Of a key all bytes may differ, of a number the low seven bits of each.
    mask = bytearray(b"\xff" * shape.value_start)
    if shape.key_end > shape.key_start:
        mask[shape.key_start : shape.key_end] = bytes(shape.key_end - shape.key_start)
    numbers = (
        (shape.event_start, shape.event_end),
        (shape.sequence_start, shape.sequence_end),
    )
    for first, end in numbers:
        mask[first:end] = b"\x80" * (end - first)
    size, kind = (8, "<u8") if shape.value_start >= 8 else (4, "<u4")
    places = [*range(0, shape.value_start - size, size), shape.value_start - size]
    whole = ((place, int.from_bytes(mask[place : place + size], "little")) for place in places)
    return tuple((place, np.array(bits, dtype=kind)) for place, bits in whole if bits)


def _walk_singly(data: bytes, start: int, numbers: range, places: Places) -> int:
    """Add the messages of these numbers, from `start` on; return where they end."""
    number = numbers.start
    try:
        for number in numbers:
            shape = _read_shape(data, start)
            if shape is None:
                first = start + 4
                end = first + _SIZE.unpack_from(data, start)[0]
                size = _payload_size(data, first, end)
                shape = Shape(end + size - start, value_start=end - start)
                places.odd[number] = (first, end)
            places.add(start, 1, shape)
            start += shape.stride
    except (IndexError, struct.error):
        raise ProtocolViolation(f"a batch ends inside message {number}") from None
    if start > len(data):
        raise ProtocolViolation(f"a batch ends inside message {number}")
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
                raise ProtocolViolation("invalid single message metadata")
    if cursor != end or not 0 <= size < 1 << 31:
        raise ProtocolViolation("single message metadata without a payload size")
    return size

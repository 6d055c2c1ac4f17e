"""The binary protocol of a bookie, sans-IO: requests as bytes, replies from bytes.

A reply names what it answers by operation, ledger and entry; replies come in any order.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum, IntFlag
from typing import Final, NamedTuple

from magnetar.errors import ProtocolViolation

_VERSION: Final = 2
ADD: Final = 1
READ: Final = 2
BATCH: Final = 7

FRAME_BYTES_MAX: Final = 256 << 20
"""More than any bookie is configured to send; what claims to be longer is no frame."""

_LENGTH: Final = struct.Struct(">I")
_FIXED: Final = struct.Struct(">IIiqq")
_READ: Final = struct.Struct(">IIqq")
_BATCH: Final = struct.Struct(">IIqqqiq")
_NUMBER: Final = struct.Struct(">q")
_FIXED_BYTES: Final = _FIXED.size - 4


class Flag(IntFlag):
    NONE = 0
    FENCE = 1
    RECOVERY = 2
    HIGH_PRIORITY = 4


class Code(IntEnum):
    """What a bookie says of a request."""

    OK = 0
    NO_LEDGER = 1
    NO_ENTRY = 2
    BAD_REQUEST = 100
    INPUT_OUTPUT = 101
    UNAUTHORIZED = 102
    BAD_VERSION = 103
    FENCED = 104
    READ_ONLY = 105
    TOO_MANY_REQUESTS = 106
    UNKNOWN_STATE = 107


MISSING: Final = frozenset((Code.NO_LEDGER, Code.NO_ENTRY))
"""A bookie that says so knows that it does not have the entry."""


class Reply(NamedTuple):
    """`body` is an entry for READ, a number and entries for BATCH, and empty after a refusal."""

    operation: int
    code: int
    ledger: int
    entry: int
    body: memoryview


def spell_code(code: int) -> str:
    try:
        return Code(code).name.lower().replace("_", " ")
    except ValueError:
        return f"code {code}"


def encode_header(operation: int, flags: Flag = Flag.NONE) -> bytes:
    return _LENGTH.pack(_VERSION << 24 | operation << 16 | flags)


def encode_read(ledger: int, entry: int, *, flags: Flag = Flag.NONE, key: bytes = b"") -> bytes:
    """`entry` -1 asks for the last one stored. A fencing read needs the master key."""
    size = _READ.size - 4 + len(key)
    return _READ.pack(size, _VERSION << 24 | READ << 16 | flags, ledger, entry) + key


def encode_batch(
    ledger: int, first: int, number: int, *, entries_max: int, bytes_max: int
) -> bytes:
    header = _VERSION << 24 | BATCH << 16
    return _BATCH.pack(_BATCH.size - 4, header, ledger, first, number, entries_max, bytes_max)


def split_batch(body: memoryview) -> tuple[int, list[memoryview]]:
    """The number of the request and the entries. Raise ProtocolViolation when they do not fit."""
    if len(body) < _NUMBER.size:
        raise ProtocolViolation("a batch without a number")
    (number,) = _NUMBER.unpack_from(body)
    entries, at = [], _NUMBER.size
    while at < len(body):
        if len(body) - at < _LENGTH.size:
            raise ProtocolViolation("a batch ends within the length of an entry")
        (size,) = _LENGTH.unpack_from(body, at)
        at += _LENGTH.size
        if size > len(body) - at:
            raise ProtocolViolation(f"an entry of {size} bytes where {len(body) - at} are left")
        entries.append(body[at : at + size])
        at += size
    return number, entries


_NOTHING: Final = memoryview(b"")


class ReplyDecoder:
    """Feed what was read; take the replies that are whole."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0
        self._wanted = 0  # for the next reply

    def feed(self, data: bytes) -> Iterator[Reply]:
        """Raise ProtocolViolation for what no bookie sends; replies before it were delivered."""
        if self._pieces:
            self._pieces.append(data)
            self._size += len(data)
            if self._size < self._wanted:
                return
            data = b"".join(self._pieces)
        self._wanted = _FIXED.size
        view, at, end = memoryview(data), 0, len(data)
        unpack = _FIXED.unpack_from
        while end - at >= _FIXED.size:
            size, header, code, ledger, entry = unpack(data, at)
            if not _FIXED_BYTES <= size <= FRAME_BYTES_MAX:
                raise ProtocolViolation(f"a reply of {size} bytes")
            if header >> 24 != _VERSION:
                raise ProtocolViolation(f"a reply of version {header >> 24}")
            after = at + 4 + size
            if after > end:
                self._wanted = 4 + size
                break
            body = _NOTHING if size == _FIXED_BYTES else view[at + _FIXED.size : after]
            yield Reply(header >> 16 & 0xFF, code, ledger, entry, body)
            at = after
        self._size = end - at
        self._pieces = [data[at:]] if self._size else []

"""Entries as bookies store them: where an entry belongs, a digest, the payload.

The digest covers the 32 bytes before it and the payload. Bookies do not check it: readers do.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
import zlib
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, TypeAlias

from crc32c import crc32c

from magnetar.errors import LedgerCorrupt
from magnetar.wire.bookkeeper import DigestType

MASTER_KEY_BYTES: Final = 20
HEAD_BYTES: Final = 32
_HEAD: Final = struct.Struct(">qqqq")
_LAST: Final = struct.Struct(">qq")
_CRC32: Final = struct.Struct(">Q")
_CRC32C: Final = struct.Struct(">I")

Buffer: TypeAlias = bytes | memoryview
Sum: TypeAlias = Callable[[bytes, Buffer], bytes]


class Entry(NamedTuple):
    """`last_confirmed` is what its writer knew; `length` counts payload bytes up to its end."""

    ledger: int
    id: int
    last_confirmed: int
    length: int
    payload: bytes


class EntryCodec:
    """The entries of one ledger, whose digest and password decide the bytes."""

    __slots__ = ("_digest_bytes", "_ledger", "_sum", "key")

    def __init__(self, ledger: int, digest: DigestType, password: bytes) -> None:
        self._ledger = ledger
        self.key = hashlib.sha1(b"ledger" + password, usedforsecurity=False).digest()
        """What a bookie compares: the first one that it sees of a ledger counts."""
        self._sum, self._digest_bytes = _choose_sum(digest, password)

    @property
    def overhead(self) -> int:
        """Bytes of an entry beside its payload."""
        return HEAD_BYTES + self._digest_bytes

    def encode(
        self, head: bytes, first: int, entries: Iterable[bytes], last_confirmed: int, length: int
    ) -> list[bytes]:
        """Frames of consecutive entries, in pieces: `head` is what stands between the length of a
        frame and the entry; `length` counts the payload before the first.
        """
        ledger, pack, summed = self._ledger, _HEAD.pack, self._sum
        fixed = len(head) + self.overhead
        pieces: list[bytes] = []
        add = pieces.append
        for number, payload in enumerate(entries, first):
            length += len(payload)
            meta = pack(ledger, number, last_confirmed, length)
            add((fixed + len(payload)).to_bytes(4))
            add(head)
            add(meta)
            add(summed(meta, payload))
            add(payload)
        return pieces

    def encode_last(self, last: int) -> bytes:
        """The last confirmed entry, for those who ask a bookie for it."""
        meta = _LAST.pack(self._ledger, last)
        return meta + self._sum(meta, b"")

    def decode(self, data: Buffer, number: int | None = None) -> Entry:
        """Raise LedgerCorrupt for what is not an entry of the ledger, or not the one with this
        number.
        """
        start = self.overhead
        if len(data) < start:
            raise LedgerCorrupt(f"ledger {self._ledger}: an entry of {len(data)} bytes")
        meta = bytes(data[:HEAD_BYTES])
        ledger, found, last_confirmed, length = _HEAD.unpack(meta)
        payload = bytes(data[start:])
        if self._sum(meta, payload) != data[HEAD_BYTES:start]:
            raise LedgerCorrupt(f"ledger {self._ledger}, entry {found}: wrong digest")
        if ledger != self._ledger or (number is not None and found != number):
            raise LedgerCorrupt(
                f"ledger {self._ledger}, entry {number}: this is entry {found} of {ledger}"
            )
        return Entry(ledger, found, last_confirmed, length, payload)


def _choose_sum(digest: DigestType, password: bytes) -> tuple[Sum, int]:
    match digest:
        case DigestType.CRC32C:
            pack = _CRC32C.pack
            return lambda meta, payload: pack(crc32c(payload, crc32c(meta))), 4
        case DigestType.CRC32:
            wide = _CRC32.pack
            return lambda meta, payload: wide(zlib.crc32(payload, zlib.crc32(meta))), 8
        case DigestType.HMAC:
            key = hashlib.sha1(b"mac" + password, usedforsecurity=False).digest()
            return lambda meta, payload: hmac.digest(key, meta + payload, "sha1"), 20
        case DigestType.DUMMY:
            return lambda meta, payload: b"", 0

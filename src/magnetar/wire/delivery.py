"""MESSAGE frames, the deliveries of entries: written a run at a time, from prefixes that stay the
same within it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from magnetar.wire.varint import WHOLE, encode_varint, varint_bytes, varint_columns

_SIZES: Final = struct.Struct(">II")
_MAGIC: Final = b"\x0e\x01"
_COLUMNS_MIN: Final = 32
"""Fewer frames are faster one by one."""


def encode_messages(
    consumer_id: int,
    ledger_id: int,
    entry_ids: Sequence[int],
    entries: Sequence[bytes],
    *,
    partition: int = -1,
    epoch: int | None = None,
) -> list[bytes]:
    """MESSAGE frames for entries of one ledger delivered for the first time: heads and entries by
    turns.
    """
    consumer = b"\x08" + encode_varint(consumer_id) + b"\x12"
    ledger = b"\x08" + encode_varint(ledger_id) + b"\x10"
    after = b"" if partition < 0 else b"\x18" + encode_varint(partition)
    tail = b"" if epoch is None else b"\x28" + encode_varint(epoch)
    first = entry_ids[0] if len(entries) >= _COLUMNS_MIN and type(entry_ids) is range else -1
    if first >= 0 and first + len(entries) <= 1 << 7 * varint_bytes(first):
        head = encode_message(consumer_id, ledger_id, first, b"", partition=partition, epoch=epoch)
        place = len(head) - len(tail) - len(after) - varint_bytes(first)
        return _interleave(head, place, first, entries)
    out: list[bytes] = []
    pack = _SIZES.pack
    known_size = -1
    command_size = 0
    middle = b""
    for entry_id, entry in zip(entry_ids, entries, strict=True):
        number = WHOLE[entry_id] if entry_id < 16384 else encode_varint(entry_id)
        if len(number) != known_size:
            known_size = len(number)
            message_size = len(ledger) + known_size + len(after)
            body_size = len(consumer) + 1 + message_size + len(tail)
            opening = b"\x08\x09\x4a" + encode_varint(body_size)
            command_size = len(opening) + body_size
            middle = opening + consumer + encode_varint(message_size) + ledger
        out.append(
            pack(4 + command_size + len(entry), command_size) + middle + number + after + tail
        )
        out.append(entry)
    return out


def _interleave(head: bytes, place: int, first: int, entries: Sequence[bytes]) -> list[bytes]:
    """Heads and entries by turns. All heads are as the `head` of the first, but for the size of the
    frame and, at `place`, the id of the entry: those are written into all at once, a byte of each
    at a time.
    """
    count, length = len(entries), len(head)
    rest = length - 4
    sizes = struct.pack(f">{count}I", *[rest + len(entry) for entry in entries])
    heads = bytearray(head * count)
    for column in range(4):
        heads[column::length] = sizes[column::4]
    for column, numbers in enumerate(varint_columns(first, count), place):
        heads[column::length] = numbers
    written = bytes(heads)
    out = [b""] * (2 * count)
    out[::2] = [written[at : at + length] for at in range(0, count * length, length)]
    out[1::2] = entries
    return out


def encode_message(
    consumer_id: int,
    ledger_id: int,
    entry_id: int,
    entry: bytes,
    *,
    partition: int = -1,
    redelivery_count: int = 0,
    ack_set: Sequence[int] = (),
    epoch: int | None = None,
) -> bytes:
    """One MESSAGE frame with all it can carry."""
    message = b"\x08" + encode_varint(ledger_id) + b"\x10" + encode_varint(entry_id)
    if partition >= 0:
        message += b"\x18" + encode_varint(partition)
    body = b"\x08" + encode_varint(consumer_id) + b"\x12" + encode_varint(len(message)) + message
    if redelivery_count:
        body += b"\x18" + encode_varint(redelivery_count)
    body += b"".join(b"\x20" + encode_varint(word & 0xFFFFFFFFFFFFFFFF) for word in ack_set)
    if epoch is not None:
        body += b"\x28" + encode_varint(epoch)
    command = b"\x08\x09\x4a" + encode_varint(len(body)) + body
    return _SIZES.pack(4 + len(command) + len(entry), len(command)) + command + entry


DELIVER_AT_TAG: Final = b"\x98\x01"
UUID_TAG: Final = b"\xd2\x01"


def may_carry(entry: bytes, tag: bytes) -> bool:
    """Whether a metadata field could be there: a cheap look that saves parsing most entries."""
    end = 10 + int.from_bytes(entry[6:10], "big") if entry[:2] == _MAGIC else len(entry)
    return entry.find(tag, 0, end) >= 0

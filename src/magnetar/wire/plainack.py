"""Acknowledgements of whole entries of one ledger, the usual ones, read a column at a time."""

from __future__ import annotations

from typing import Final

from magnetar.wire.command import CommandAck
from magnetar.wire.varint import encode_varint

_IDS_MIN: Final = 8
"""Fewer are read faster one by one."""
_BITS: Final = 7
"""Of a number in each byte of a varint."""
_FLIP_CONTINUATION: Final = bytes(byte ^ 0x80 for byte in range(256))


def read_plain_ids(ack: CommandAck) -> tuple[int, list[int]] | None:
    """The ledger id and the entry ids, when all ids are of one ledger, of one size, and name
    nothing but an entry; else None.

    All ids then have the same bytes up to the entry id, at equal distances: comparing every n-th
    byte at once costs a fraction of looking at each id.
    """
    count = len(ack.message_id)
    if count < _IDS_MIN:
        return None
    ledger_id = ack.message_id[0].ledgerId
    digits = len(encode_varint(ack.message_id[0].entryId))
    body = b"\x08" + encode_varint(ledger_id) + b"\x10"
    head = b"\x1a" + encode_varint(len(body) + digits) + body
    size = len(head) + digits
    data = ack.SerializeToString()
    start = data.find(head)
    data = data[start : start + count * size]
    if start < 0 or len(data) < count * size:
        return None
    for at in range(len(head)):
        if data[at::size] != head[at : at + 1] * count:
            return None
    columns = [data[at::size] for at in range(len(head), size)]
    first = ack.message_id[0].entryId
    if columns == _consecutive_columns(first, count, digits):
        return ledger_id, list(range(first, first + count))
    if not columns[-1].isascii():
        return None
    entry_ids = list(columns.pop())
    for column in reversed(columns):
        lower = column.translate(_FLIP_CONTINUATION)
        if not lower.isascii():
            return None
        entry_ids = [high << 7 | low for high, low in zip(entry_ids, lower, strict=True)]
    return ledger_id, entry_ids


def _consecutive_columns(first: int, count: int, digits: int) -> list[bytes]:
    """What the columns are when the ids are consecutive, as they mostly are. A byte but for the
    lowest stays the same for a stretch of ids, so there is little to make.
    """
    more = 0x80 if digits > 1 else 0
    cycle = bytes(range(more, more + 0x80)) * (count // 0x80 + 2)
    columns = [cycle[first & 0x7F :][:count]]
    for place in range(1, digits):
        shift = _BITS * place
        more = 0x80 if place < digits - 1 else 0
        stretches = []
        at, end = first, first + count
        while at < end:
            stop = min(end, ((at >> shift) + 1) << shift)
            stretches.append(bytes((at >> shift & 0x7F | more,)) * (stop - at))
            at = stop
        columns.append(b"".join(stretches))
    return columns

"""Receipts, the answers to SENDs: one for each, written a run at a time."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from magnetar.wire.varint import LOW, WHOLE, encode_varint, varint_bytes, varint_columns

_SIZES: Final = struct.Struct(">II")
_RANGE_MIN: Final = 20
"""Fewer receipts are made faster one by one."""


class ReceiptWriter:
    """SEND_RECEIPT frames of one producer. What those of one ledger have in common is spelled once.

    `shapes` holds it by the lengths of what differs: the bytes before the sequence id, and those
    between it and the entry id.
    """

    __slots__ = ("_ledger", "_ledger_id", "_producer", "_shapes")

    def __init__(self, producer_id: int) -> None:
        self._producer = b"\x08" + encode_varint(producer_id) + b"\x10"
        self._ledger_id = -1
        self._ledger = b""
        self._shapes: dict[int, tuple[bytes, bytes]] = {}

    def encode(
        self, sequences: Sequence[int], highests: Sequence[int], ledger_id: int, first: int
    ) -> bytes:
        """For a run whose entries stand one after the other from `first` on."""
        if ledger_id != self._ledger_id:
            self._ledger_id = ledger_id
            self._ledger = b"\x08" + encode_varint(ledger_id) + b"\x10"
            self._shapes = {}
        if any(highests):
            return self._encode_batches(sequences, highests, first)
        count = len(sequences)
        if count >= _RANGE_MIN and sequences[-1] - sequences[0] == count - 1:
            consecutive = range(sequences[0], sequences[0] + count)
            if sequences == [*consecutive]:
                return self._encode_range(consecutive, first)
        shapes = self._shapes
        out: list[bytes] = []
        whole, low = WHOLE, LOW
        entry_id = first
        for sequence in sequences:
            if sequence < 16384:
                number = whole[sequence]
            elif sequence < 268435456:
                number = low[sequence & 16383] + whole[sequence >> 14]
            else:
                number = encode_varint(sequence)
            entry = whole[entry_id] if entry_id < 16384 else encode_varint(entry_id)
            entry_id += 1
            shape = shapes.get(len(number) << 4 | len(entry))
            if shape is None:
                shape = shapes[len(number) << 4 | len(entry)] = self._spell(
                    len(number), len(entry), 0
                )
            out.append(shape[0] + number + shape[1] + entry)
        return b"".join(out)

    def _encode_range(self, sequences: range, first: int) -> bytes:
        """For consecutive sequence ids: all receipts of one shape are made at once, a byte of each
        at a time.
        """
        out: list[bytes] = []
        sequence, entry_id = sequences.start, first
        while sequence < sequences.stop:
            number_size, entry_size = varint_bytes(sequence), varint_bytes(entry_id)
            count = min(
                sequences.stop - sequence,
                (1 << 7 * number_size) - sequence,
                (1 << 7 * entry_size) - entry_id,
            )
            opening, middle = self._spell(number_size, entry_size, 0)
            receipt = opening + bytes(number_size) + middle + bytes(entry_size)
            receipts = bytearray(receipt * count)
            for place, column in enumerate(varint_columns(sequence, count), len(opening)):
                receipts[place :: len(receipt)] = column
            after = len(receipt) - entry_size
            for place, column in enumerate(varint_columns(entry_id, count), after):
                receipts[place :: len(receipt)] = column
            out.append(bytes(receipts))
            sequence += count
            entry_id += count
        return b"".join(out)

    def _encode_batches(
        self, sequences: Sequence[int], highests: Sequence[int], first: int
    ) -> bytes:
        out: list[bytes] = []
        for index, (sequence, highest) in enumerate(zip(sequences, highests, strict=True)):
            number, entry = encode_varint(sequence), encode_varint(first + index)
            last = b"\x20" + encode_varint(highest) if highest else b""
            opening, middle = self._spell(len(number), len(entry), len(last))
            out += (opening, number, middle, entry, last)
        return b"".join(out)

    def _spell(self, number_size: int, entry_size: int, last_size: int) -> tuple[bytes, bytes]:
        message_size = len(self._ledger) + entry_size
        body_size = len(self._producer) + number_size + 2 + message_size + last_size
        opening = b"\x08\x07\x3a" + encode_varint(body_size)
        command_size = len(opening) + body_size
        return (
            _SIZES.pack(command_size + 4, command_size) + opening + self._producer,
            b"\x1a" + encode_varint(message_size) + self._ledger,
        )

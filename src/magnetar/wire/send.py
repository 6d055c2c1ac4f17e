"""SEND and its receipt for single messages: what a busy producer spells and reads most."""

from __future__ import annotations

import struct
from typing import Final

from crc32c import crc32c
from google.protobuf.message import DecodeError

from magnetar.errors import ProtocolViolation
from magnetar.wire.command import BaseCommand, CommandSend, CommandSendReceipt, MessageMetadata
from magnetar.wire.entry import CHECKSUM_MAGIC
from magnetar.wire.varint import spell_varint

RECEIPT_HEAD: Final = bytes((0x08, BaseCommand.SEND_RECEIPT))
"""How a SEND_RECEIPT begins: its type stands first."""
_SIZE: Final = struct.Struct(">I")
_SIZES: Final = struct.Struct(">II")
_CHECKSUM_BYTES: Final = 6
_SEQUENCE_ID_TAG: Final = 0x10
"""In SEND as in the metadata of a message."""
_ALONE: Final = [bytes((_SEQUENCE_ID_TAG, n)) for n in range(0x80)]
_FIRST_OF_MANY: Final = [bytes((_SEQUENCE_ID_TAG, n | 0x80)) for n in range(0x80)]
"""How a sequence id begins: by its low bits, whether higher ones follow or not."""
_SEND_HEAD: Final = bytes((0x08, BaseCommand.SEND, BaseCommand.SEND_FIELD_NUMBER << 3 | 2))


class PlainSend:
    """Spells the SENDs of one producer whose messages say nothing but their data.

    What they have in common is spelled once, their publish time once a millisecond.
    """

    __slots__ = ("_command", "_first", "_high", "_last", "_rest", "_time", "_time_ms")

    def __init__(self, producer_id: int, producer_name: str, schema_version: bytes) -> None:
        first = MessageMetadata(producer_name=producer_name)
        last = MessageMetadata(schema_version=schema_version or None)
        self._command = CommandSend(producer_id=producer_id).SerializePartialToString()
        self._first = first.SerializePartialToString()
        self._last = last.SerializePartialToString()
        self._time_ms = self._high = -1
        self._time = self._rest = b""

    def encode(self, sequence_id: int, payload: bytes, *, now_ms: int) -> bytes:
        """The whole frame, for a sequence id that is not negative."""
        if now_ms != self._time_ms:
            self._time_ms = now_ms
            encoded = MessageMetadata(publish_time=now_ms).SerializePartialToString()
            self._time = encoded + self._last
        high = sequence_id >> 7
        if high != self._high:
            self._high, self._rest = high, spell_varint(high) if high else b""
        number = (_FIRST_OF_MANY if high else _ALONE)[sequence_id & 0x7F] + self._rest
        metadata_size = len(self._first) + len(number) + len(self._time)
        metadata = b"".join((_SIZE.pack(metadata_size), self._first, number, self._time))
        body_size = len(self._command) + len(number)
        command_size = len(_SEND_HEAD) + 1 + body_size
        entry_size = _CHECKSUM_BYTES + len(metadata) + len(payload)
        return b"".join(
            (
                _SIZES.pack(command_size + 4 + entry_size, command_size),
                _SEND_HEAD,
                bytes((body_size,)),
                self._command,
                number,
                CHECKSUM_MAGIC,
                _SIZE.pack(crc32c(payload, crc32c(metadata))),
                metadata,
                payload,
            )
        )


def encode_send(producer_id: int, sequence_id: int, entry: bytes) -> bytes:
    """Spell the whole frame of a SEND that carries a single message."""
    body = CommandSend(producer_id=producer_id, sequence_id=sequence_id).SerializeToString()
    size = len(body) + len(_SEND_HEAD) + 1
    sizes = _SIZES.pack(size + 4 + len(entry), size)
    return b"".join((sizes, _SEND_HEAD, bytes((len(body),)), body, entry))


def decode_receipt(data: bytes) -> CommandSendReceipt:
    """Read a SEND_RECEIPT: as `decode_command` does, with no more checks than it needs."""
    try:
        receipt = BaseCommand.FromString(data).send_receipt
    except DecodeError:
        raise ProtocolViolation("an undecodable command") from None
    if not receipt.IsInitialized():
        raise ProtocolViolation("a SEND_RECEIPT without a required field")
    return receipt

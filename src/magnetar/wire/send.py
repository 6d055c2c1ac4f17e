"""SEND and its receipt for single messages: what a busy producer spells and reads most."""

from __future__ import annotations

import struct
from typing import Final

from google.protobuf.message import DecodeError

from magnetar.errors import ProtocolViolation
from magnetar.wire.command import BaseCommand, CommandSend, CommandSendReceipt

RECEIPT_HEAD: Final = bytes((0x08, BaseCommand.SEND_RECEIPT))
"""How a SEND_RECEIPT begins: its type stands first."""
_SIZES: Final = struct.Struct(">II")
_SEND_HEAD: Final = bytes((0x08, BaseCommand.SEND, BaseCommand.SEND_FIELD_NUMBER << 3 | 2))


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
        raise ProtocolViolation("a command that cannot be decoded") from None
    if not receipt.IsInitialized():
        raise ProtocolViolation("a SEND_RECEIPT without a required field")
    return receipt

"""The entries of a compacted ledger: an entry of the topic behind the id that it has there."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final, TypeAlias

from google.protobuf.message import DecodeError

from magnetar.errors import RecordUnreadable
from magnetar.model.position import Position
from magnetar.wire.command import MessageIdData

_SIZE: Final = struct.Struct(">I")
_FORMER_HEAD: Final = struct.Struct(">QQ")

DecodeCompacted: TypeAlias = Callable[[bytes], tuple[Position, bytes]]


def encode_compacted(position: Position, partition: int, entry: bytes) -> bytes:
    """`partition` is -1 for a topic that is no partition."""
    head = MessageIdData(
        ledgerId=position.ledger_id, entryId=position.entry_id, partition=partition
    ).SerializeToString()
    return b"".join((_SIZE.pack(len(head)), head, _SIZE.pack(len(entry)), entry))


def decode_compacted(data: bytes) -> tuple[Position, bytes]:
    try:
        head = 4 + _SIZE.unpack_from(data)[0]
        start = head + 4
        end = start + _SIZE.unpack_from(data, head)[0]
        message = MessageIdData.FromString(data[4:head])
    except (struct.error, DecodeError):
        raise RecordUnreadable("an entry of a compacted ledger cannot be decoded") from None
    if end > len(data) or not message.IsInitialized():
        raise RecordUnreadable("an entry of a compacted ledger is cut short")
    return Position(message.ledgerId, message.entryId), data[start:end]


def decode_former_compacted(data: bytes) -> tuple[Position, bytes]:
    """As versions of this broker before Pulsar's format wrote it: two numbers in front."""
    if len(data) < _FORMER_HEAD.size:
        raise RecordUnreadable("an entry of a compacted ledger is cut short")
    return Position(*_FORMER_HEAD.unpack_from(data)), data[_FORMER_HEAD.size :]

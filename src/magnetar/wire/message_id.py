"""Ids of messages as bytes of their own, as applications keep them."""

from __future__ import annotations

from google.protobuf.message import DecodeError

from magnetar.errors import ProtocolViolation
from magnetar.wire.command import MessageIdData


def decode_message_id(data: bytes) -> MessageIdData:
    try:
        decoded = MessageIdData.FromString(data)
    except DecodeError:
        raise ProtocolViolation("an undecodable message id") from None
    if not decoded.IsInitialized():
        raise ProtocolViolation("a message id without ledger and entry")
    return decoded

"""Answers to the steps of transactions. All have one form, so they are spelled without objects."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

from magnetar.model.transaction import TransactionId
from magnetar.wire.command import BaseCommand
from magnetar.wire.varint import encode_varint, spell_tag, spell_varint

_SIZES: Final = struct.Struct(">II")
_OPENINGS: Final[Mapping[int, bytes]] = {
    number: b"\x08" + spell_varint(number) + spell_tag(number)
    for number in (
        BaseCommand.NEW_TXN_RESPONSE,
        BaseCommand.ADD_PARTITION_TO_TXN_RESPONSE,
        BaseCommand.ADD_SUBSCRIPTION_TO_TXN_RESPONSE,
        BaseCommand.END_TXN_RESPONSE,
        BaseCommand.END_TXN_ON_PARTITION_RESPONSE,
        BaseCommand.END_TXN_ON_SUBSCRIPTION_RESPONSE,
    )
}
"""Each stands in the field of its own number."""


def encode_transaction_answer(kind: int, request_id: int, id_: TransactionId) -> bytes:
    """A whole frame that names the transaction, and nothing else."""
    most, least = id_
    ids = b"\x10" + encode_varint(least) + b"\x18" + encode_varint(most)
    body = b"\x08" + encode_varint(request_id) + ids
    opening = _OPENINGS[kind]
    size = len(opening) + 1 + len(body)  # three numbers of ten bytes at most
    return b"".join((_SIZES.pack(size + 4, size), opening, bytes((len(body),)), body))

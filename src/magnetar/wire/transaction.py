"""The entries of a transaction journal: each holds some records, which are stored together or not
at all.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from magnetar.errors import RecordUnreadable
from magnetar.model.transaction import Record

_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(tuple[Record, ...])


def encode_records(records: Iterable[Record]) -> bytes:
    return _ENCODER.encode(tuple(records))


def decode_records(entry: bytes) -> tuple[Record, ...]:
    try:
        return _DECODER.decode(entry)
    except msgspec.DecodeError as error:
        raise RecordUnreadable(f"An entry of a transaction journal is damaged: {error}") from None

"""The entries of a transaction journal: each holds some records, which are stored together or not
at all. More of them than an entry takes are several entries, of which the last ones may be missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

import msgspec

from magnetar.errors import RecordUnreadable
from magnetar.model.transaction import Acked, Hidden, Joined, Record

T = TypeVar("T")

_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(tuple[Record, ...])


def encode_records(records: Iterable[Record]) -> bytes:
    return _ENCODER.encode(tuple(records))


def encode_entries(records: Sequence[Record], bytes_max: int) -> list[bytes]:
    """As few entries as that takes, in order, of so many bytes each; a record that is larger is cut
    where it lists many things. Also what leads to a part of them is a state that there may be.
    """
    whole = encode_records(records)
    if len(whole) <= bytes_max:
        return [whole]
    if len(records) == 1:
        records = _halve(records[0])
        if len(records) == 1:
            return [whole]
    middle = len(records) // 2
    return [
        *encode_entries(records[:middle], bytes_max),
        *encode_entries(records[middle:], bytes_max),
    ]


def _halve(record: Record) -> Sequence[Record]:
    """Records that say the same one after the other; itself, when it cannot be cut."""
    match record:
        case Acked(id_, name, is_cumulative, entries) if len(entries) > 1:
            return [Acked(id_, name, is_cumulative, some) for some in _cut(entries)]
        case Hidden(id_, ranges) if len(ranges) > 1:
            return [Hidden(id_, some) for some in _cut(ranges)]
        case Joined(least, topics, subscriptions) if topics and subscriptions:
            return [Joined(least, topics, ()), Joined(least, (), subscriptions)]
        case Joined(least, topics, ()) if len(topics) > 1:
            return [Joined(least, some, ()) for some in _cut(topics)]
        case Joined(least, (), subscriptions) if len(subscriptions) > 1:
            return [Joined(least, (), some) for some in _cut(subscriptions)]
        case _:
            return [record]


def _cut(things: tuple[T, ...]) -> tuple[tuple[T, ...], tuple[T, ...]]:
    middle = len(things) // 2
    return things[:middle], things[middle:]


def decode_records(entry: bytes) -> tuple[Record, ...]:
    try:
        return _DECODER.decode(entry)
    except msgspec.DecodeError as error:
        raise RecordUnreadable(f"An entry of a transaction journal is damaged: {error}") from None

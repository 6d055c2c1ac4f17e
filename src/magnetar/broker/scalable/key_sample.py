"""Key sampling: keys of the latest messages of a segment, read on demand, so that nothing is
counted on the way of every message.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from magnetar.broker.persistent import PersistentTopic
from magnetar.errors import ProtocolViolation
from magnetar.model.segment import HashRange
from magnetar.rules.hotspot import MESSAGES_MAX, KeySample, make_key_sample
from magnetar.wire.batch import decode_batch
from magnetar.wire.compression import decompress
from magnetar.wire.entry import count_messages, decode_entry

_READS: Final = 32
_ENTRIES_A_READ: Final = 8
_LATEST: Final = 64
_LATEST_BYTES_MAX: Final = 1 << 17
_ENTRIES_BACK: Final = 8_192
"""How far back a sample goes."""
_BYTES_MAX: Final = 1 << 20
_PAYLOAD_BYTES_MAX: Final = 1 << 24


async def load_key_sample(topic: PersistentTopic, span: HashRange) -> KeySample:
    """Spread over the latest entries; reading stops when there is enough."""
    log = topic.log
    first, end = log.sequence.first_position, log.sequence.end_position
    there = log.sequence.entries_between(first, end)
    back = min(there, _ENTRIES_BACK)
    step = max(_ENTRIES_A_READ, back // _READS)
    keys: list[str | None] = []
    for ago in range(0, back, step):
        at = log.sequence.position_after(first, max(0, there - ago - _ENTRIES_A_READ))
        run = await log.reader.read(at, _ENTRIES_A_READ, _BYTES_MAX)
        for entry in () if run is None else run.data:
            keys += _keys_of(entry)
        if len(keys) >= MESSAGES_MAX:
            break
    return make_key_sample(keys, span)


async def load_latest_keys(topic: PersistentTopic, producers: Collection[str]) -> list[str]:
    """Keys of the latest messages of some producers."""
    log = topic.log
    first, end = log.sequence.first_position, log.sequence.end_position
    there = log.sequence.entries_between(first, end)
    at = log.sequence.position_after(first, max(0, there - _LATEST))
    run = await log.reader.read(at, _LATEST, _LATEST_BYTES_MAX)
    keys: list[str] = []
    for entry in () if run is None else run.data:
        try:
            producer = decode_entry(entry)[0].producer_name
        except ProtocolViolation:
            continue
        if producer in producers:
            keys += [key for key in _keys_of(entry) if key is not None]
    return keys


def _keys_of(entry: bytes) -> Iterator[str | None]:
    """One for each message; what cannot be opened has none."""
    try:
        metadata, payload = decode_entry(entry)
        if metadata.HasField("partition_key") or not metadata.HasField("num_messages_in_batch"):
            key = metadata.partition_key if metadata.HasField("partition_key") else None
            yield from [key] * count_messages(entry)
            return
        if metadata.encryption_keys:
            yield from [None] * count_messages(entry)
            return
        if metadata.compression:
            payload = decompress(
                metadata.compression,
                payload,
                metadata.uncompressed_size,
                bytes_max=_PAYLOAD_BYTES_MAX,
            )
        messages = decode_batch(payload, metadata.num_messages_in_batch)
    except ProtocolViolation:
        return
    for message in messages:
        single = message.metadata
        yield single.partition_key if single.HasField("partition_key") else None

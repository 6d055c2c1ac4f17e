"""Entries on their way to consumers: parsed as far as dispatch asks, and encoded for the wire."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from magnetar.broker.entry import metadata_or_none
from magnetar.rules.dispatch.action import Chunk, Traits
from magnetar.wire.ackset import encode_ack_set
from magnetar.wire.delivery import (
    DELIVER_AT_TAG,
    UUID_TAG,
    encode_message,
    encode_messages,
    may_carry,
)
from magnetar.wire.entry import sticky_key, strip_checksum

_NONE: Final[Collection[int]] = frozenset()
_WHOLE: Final[Mapping[int, int]] = MappingProxyType({})


class EntryView:
    """Entries `first`, `first + 1`, … of one ledger."""

    __slots__ = ("counts", "data", "first", "ledger_id", "remaining", "skipped", "withheld")

    def __init__(
        self,
        ledger_id: int,
        first: int,
        data: list[bytes],
        counts: list[int],
        *,
        skipped: Collection[int] = _NONE,
        withheld: Collection[int] = _NONE,
        remaining: Mapping[int, int] = _WHOLE,
    ) -> None:
        """Of a batch that is acknowledged in part, `remaining` has the bits that are left."""
        self.ledger_id = ledger_id
        self.first = first
        self.data = data
        self.counts = counts
        self.skipped = skipped
        self.withheld = withheld
        self.remaining = remaining

    def special(self) -> Collection[int]:
        return [
            index
            for index, entry in enumerate(self.data)
            if may_carry(entry, UUID_TAG) or may_carry(entry, DELIVER_AT_TAG)
        ]

    def traits(self, index: int) -> Traits:
        metadata = metadata_or_none(self.data[index])
        if metadata is None:
            return Traits()
        chunk = None
        if metadata.HasField("chunk_id"):
            is_last = metadata.chunk_id >= metadata.num_chunks_from_msg - 1
            chunk = Chunk(metadata.uuid, is_last)
        bucket_hash = metadata.entry_hash_min if metadata.HasField("entry_hash_min") else None
        return Traits(sticky_key(metadata), bucket_hash, metadata.deliver_at_time, chunk)

    def encode(
        self,
        indexes: Sequence[int],
        redeliveries: Sequence[int] | None,
        *,
        consumer_id: int,
        partition: int,
        epoch: int | None,
        with_checksums: bool,
    ) -> tuple[list[bytes], int]:
        """MESSAGE frames for some of the entries, and how many bytes the entries have."""
        if type(indexes) is range:
            data = self.data[indexes.start : indexes.stop]
            entry_ids: Sequence[int] = range(self.first + indexes.start, self.first + indexes.stop)
        else:
            data = [self.data[index] for index in indexes]
            entry_ids = [self.first + index for index in indexes]
        size = sum(map(len, data))
        if not with_checksums:
            data = [strip_checksum(entry) for entry in data]
        if redeliveries is None and not self.remaining:
            return encode_messages(
                consumer_id, self.ledger_id, entry_ids, data, partition=partition, epoch=epoch
            ), size
        bits = [self.remaining.get(index) for index in indexes]
        return [
            encode_message(
                consumer_id,
                self.ledger_id,
                entry_ids[at],
                entry,
                partition=partition,
                redelivery_count=0 if redeliveries is None else redeliveries[at],
                ack_set=() if (left := bits[at]) is None else encode_ack_set(left),
                epoch=epoch,
            )
            for at, entry in enumerate(data)
        ], size

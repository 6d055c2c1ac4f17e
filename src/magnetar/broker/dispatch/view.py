"""Entries as dispatch sees them; they are parsed only as far as it asks."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final

from magnetar.broker.entry import metadata_or_none
from magnetar.rules.dispatch.action import Chunk, Traits
from magnetar.wire.entry import sticky_key
from magnetar.wire.run import DELIVER_AT_TAG, UUID_TAG, may_carry

_NONE: Final[Collection[int]] = frozenset()
_WHOLE: Final[Mapping[int, int]] = MappingProxyType({})


class EntryView:
    """Entries `first`, `first + 1`, … of one ledger."""

    __slots__ = ("counts", "data", "first", "ledger_id", "remaining", "skipped")

    def __init__(
        self,
        ledger_id: int,
        first: int,
        data: list[bytes],
        counts: list[int],
        *,
        skipped: Collection[int] = _NONE,
        remaining: Mapping[int, int] = _WHOLE,
    ) -> None:
        """Of a batch that is acknowledged in part, `remaining` has the bits that are left."""
        self.ledger_id = ledger_id
        self.first = first
        self.data = data
        self.counts = counts
        self.skipped = skipped
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

"""Size limit of a layout: every client must be able to open the topic, and the metadata store to
keep its record. Nothing larger is ever written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from magnetar.errors import LayoutTooLarge
from magnetar.model.name import TopicName
from magnetar.model.scalable import BrokerAddress, LayoutView, ScalableTopicMetadata
from magnetar.runtime.configuration import Configuration
from magnetar.wire.frame import FRAME_PADDING_BYTES
from magnetar.wire.layout import estimate_migrated, measure_layout

SizeCheck: TypeAlias = Callable[[ScalableTopicMetadata], None]

_RESERVE_BYTES: Final = 256 << 10
"""What a migration leaves of a frame: hundreds of splits and merges take no more."""
_SEGMENT_BYTES_MAX: Final = 4096
_LINK_BYTES_MAX: Final = 11


class LayoutSize:
    """What one broker can serve: its clients' largest frame and the address that layouts name."""

    def __init__(
        self,
        config: Configuration,
        address: BrokerAddress,
        encode: Callable[[ScalableTopicMetadata], bytes],
        *,
        record_bytes_max: int,
    ) -> None:
        """`encode` makes what is kept of a topic, in a store that takes so much of one."""
        self._config = config
        self._address = address
        self._encode = encode
        self._record_bytes_max = record_bytes_max

    @property
    def frame_bytes_max(self) -> int:
        """The largest frame that clients of this broker take."""
        return self._config.maxMessageSize + FRAME_PADDING_BYTES

    def fits_migrated(self, name: TopicName, partitions: int, segments: int) -> bool:
        """Whether so many segments can follow so many partitions, with room for later changes."""
        longest = name.partition(partitions - 1) if partitions else name
        size = estimate_migrated(
            max(1, partitions),
            longest.full,
            segments,
            self._address,
            bucket_budget=self._config.scalableTopicEntryBucketBudget,
        )
        return size <= self.frame_bytes_max - _RESERVE_BYTES

    def check(self, topic: TopicName, record: ScalableTopicMetadata) -> None:
        """Raise LayoutTooLarge for a record that must not be written."""
        layout, size_max = record.layout, self.frame_bytes_max
        links = sum(len(each.parents) + len(each.children) for each in layout.segments)
        most = len(layout.segments) * _SEGMENT_BYTES_MAX + links * _LINK_BYTES_MAX
        if most < min(size_max, self._record_bytes_max):
            return
        address = self._address
        view = LayoutView(layout, {each.id: address for each in layout.active}, address)
        size = measure_layout(view, topic.full)
        if size > size_max:
            raise LayoutTooLarge(
                f"{len(layout.segments)} segments with {links} links make a layout of {size} bytes;"
                f" clients take {size_max} (maxMessageSize and {FRAME_PADDING_BYTES})"
            )
        size = len(self._encode(record))
        if size > self._record_bytes_max:
            raise LayoutTooLarge(
                f"{len(layout.segments)} segments make a record of {size} bytes;"
                f" the metadata store takes {self._record_bytes_max}"
            )

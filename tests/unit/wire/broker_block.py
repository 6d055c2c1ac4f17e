"""The block that brokers of the peer may put in front of an entry; ours put none."""

from __future__ import annotations

import struct

from magnetar.wire.command import BrokerEntryMetadata


def encode_broker_block(*, timestamp_ms: int | None = None, index: int | None = None) -> bytes:
    """`index` is that of the entry's last message."""
    content = BrokerEntryMetadata(broker_timestamp=timestamp_ms, index=index).SerializeToString()
    return b"\x0e\x02" + struct.pack(">I", len(content)) + content

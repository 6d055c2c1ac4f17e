"""What the broker reads from entries, which their producers may have filled with nonsense."""

from __future__ import annotations

from magnetar.errors import ProtocolViolation
from magnetar.wire.command import MessageMetadata, signed64
from magnetar.wire.entry import count_messages, decode_metadata


def metadata_or_none(entry: bytes) -> MessageMetadata | None:
    try:
        return decode_metadata(entry)
    except ProtocolViolation:
        return None


def count_safely(entry: bytes) -> int:
    """How many messages an entry counts for."""
    try:
        return count_messages(entry)
    except ProtocolViolation:
        return 1


def published_ms(entry: bytes) -> int:
    """When an entry was published; 0 when its metadata is unreadable."""
    metadata = metadata_or_none(entry)
    return 0 if metadata is None else signed64(metadata.publish_time)


def delay_ms(entry: bytes) -> int:
    """How long after its publication an entry wants to be delivered; 0: at once."""
    metadata = metadata_or_none(entry)
    if metadata is None or not metadata.HasField("deliver_at_time"):
        return 0
    return metadata.deliver_at_time - signed64(metadata.publish_time)


def is_encrypted(entry: bytes) -> bool:
    metadata = metadata_or_none(entry)
    return metadata is not None and bool(metadata.encryption_keys)

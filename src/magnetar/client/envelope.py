"""From what an application says about a message to what is sent."""

from __future__ import annotations

from typing import Any, Final

from magnetar.client.choice import check_options
from magnetar.client.error import ConfigurationError, FeatureNotSupportedError
from magnetar.client.kind import check_kinds, check_text, check_texts
from magnetar.client.outgoing import MessageOptions
from magnetar.client.publication import ProducerSettings
from magnetar.client.quantity import parse_duration
from magnetar.client.scalable.moment import to_ms
from magnetar.client.send_option import SendOptions
from magnetar.runtime.clock import Clock

_KNOWN: Final = frozenset(SendOptions.__annotations__)


NO_OPTIONS: Final = MessageOptions()
_SEQUENCE_ID_END: Final = 2**63


def pack_message(
    settings: ProducerSettings, topic: str, value: Any, options: SendOptions, clock: Clock
) -> tuple[bytes | None, MessageOptions]:
    """Encode the value, count times in ms, and let the interceptors see both."""
    data = None if value is None else settings.schema.encode(value)
    kept = None if value is None else settings.schema.encode_key(value)
    if not options and kept is None and not settings.interceptors:
        return data, NO_OPTIONS
    if not options.keys() <= _KNOWN:
        check_options("send", options, _KNOWN)
    if options.get("transaction") is not None:
        raise FeatureNotSupportedError("Transactions are not supported; send without one")
    _check(options)
    event_time, deliver_at = options.get("event_time"), options.get("deliver_at")
    deliver_after = options.get("deliver_after")
    deliver_at_ms = None if deliver_at is None else to_ms("deliver_at", deliver_at)
    if deliver_after is not None:
        if deliver_at is not None:
            raise ConfigurationError("Give one of deliver_after and deliver_at")
        deliver_at_ms = clock.now_ms() + int(parse_duration("deliver_after", deliver_after) * 1000)
    packed = MessageOptions(
        key=options.get("key") if kept is None else kept,
        ordering_key=options.get("ordering_key"),
        properties=options.get("properties") or {},
        event_time_ms=None if event_time is None else to_ms("event_time", event_time, least_ms=1),
        deliver_at_ms=deliver_at_ms,
        replicate_to=options.get("replication_clusters", ()),
        sequence_id=options.get("sequence_id"),
    )
    for interceptor in settings.interceptors:
        data, packed = interceptor.before_send(topic, data, packed)
    return data, packed


def _check(options: SendOptions) -> None:
    """What cannot be written on a message is found here, not among others in a batch."""
    key, ordering_key = options.get("key"), options.get("ordering_key")
    if isinstance(key, str):
        check_text("key", key)
    elif key is not None and not isinstance(key, bytes):
        raise ConfigurationError(f"key is text or bytes, not {key!r}")
    if ordering_key is not None and not isinstance(ordering_key, bytes):
        raise ConfigurationError(f"ordering_key is bytes, not {ordering_key!r}")
    properties = options.get("properties")
    if type(properties) is dict:  # what it is nearly always
        check_texts("properties", properties)
    elif properties is not None:
        check_kinds({"properties": properties})
    sequence_id = options.get("sequence_id")
    if sequence_id is not None and not (
        isinstance(sequence_id, int) and 0 <= sequence_id < _SEQUENCE_ID_END
    ):
        raise ConfigurationError(f"sequence_id is a whole number from 0 on, not {sequence_id!r}")
    clusters = options.get("replication_clusters", ())
    if clusters and (isinstance(clusters, str) or not all(isinstance(c, str) for c in clusters)):
        raise ConfigurationError(f"replication_clusters is a list of names, not {clusters!r}")


def measure(data: bytes | None, options: MessageOptions) -> int:
    """Bytes that the message holds while it waits for its receipt."""
    size = 0 if data is None else len(data)
    if not options:
        return size
    size += len(options.get("key") or b"") + len(options.get("ordering_key") or b"")
    properties = options.get("properties")
    if properties:
        size += sum(len(key) + len(text) for key, text in properties.items())
    return size

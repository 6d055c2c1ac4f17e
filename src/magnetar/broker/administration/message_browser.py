"""Messages of a topic, to be looked at: from a position, a time or either end, of one key or all,
each decoded by its schema. And one message published by hand.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from msgspec import Struct

from magnetar.broker import log_search
from magnetar.broker.administration.message_value import (
    ValueUnreadable,
    encode_value,
    show_value,
)
from magnetar.broker.administration.port import MessageOwners, TopicOwners
from magnetar.broker.administration.registry import Document, carries_out, finds
from magnetar.broker.administration.topic import find_persistent
from magnetar.broker.broker_call import OwnerPort
from magnetar.broker.persistent import PersistentTopic
from magnetar.broker.schema import SchemaRegistry
from magnetar.errors import (
    BadRequest,
    InvalidSchema,
    NotAllowed,
    NotFound,
    ProducerBusy,
    ProtocolViolation,
    TopicTerminated,
)
from magnetar.model.name import TopicDomain, TopicName, parse_topic
from magnetar.model.position import Position
from magnetar.model.schema import SchemaData, decode_version, encode_version
from magnetar.rules.route import KeyHash, route_partition, segment_hash
from magnetar.wire.batch import decode_batch
from magnetar.wire.command import CompressionType, MessageMetadata, SingleMessageMetadata
from magnetar.wire.compression import decompress
from magnetar.wire.entry import decode_entry, decode_key, encode_entry

_READ_ENTRIES: Final = 100
_READ_BYTES: Final = 4 << 20
_LOOKED_AT_MAX: Final = 20_000
"""Entries that one question may read while it looks for a key."""
_PAYLOAD_BYTES_MAX: Final = 64 << 20
_SHOWN_BYTES_MAX: Final = 256 << 10
"""Larger values are not decoded: a page shows the beginning of them."""
_MESSAGES: Final = 50
_MESSAGES_MAX: Final = 200
_WHAT: Final = "Browse messages"


class Start(Struct, frozen=True):
    """Where to begin: the last messages, unless something is said."""

    position: Position | None = None
    time_ms: int | None = None
    is_earliest: bool = False


class Published(Struct):
    """A message that a user writes by hand."""

    value: Any = ""
    key: str | None = None
    properties: dict[str, str] = {}
    encoding: str = "text"
    """`text`, `json` or `base64`, for topics without a schema."""


class StoredMessages:
    """Port of the owner of a log: a regular topic, a partition or a segment."""

    def __init__(self, owners: MessageOwners, topic: TopicName) -> None:
        self._owners = owners
        self._topic = topic

    async def browse(self, start: Start, key: str, count: int) -> dict[str, Any]:
        live = await find_persistent(self._owners, self._topic, _WHAT)
        return await _browse(self._owners.schemas, live, start, key=key, count=count)

    async def publish(self, message: Published) -> dict[str, Any]:
        owners = self._owners
        live = await self._find_writable()
        stored = await owners.schemas.get_latest(self._topic)
        schema = None if stored is None else stored.schema
        metadata = MessageMetadata(
            producer_name=owners.next_producer_name(),
            sequence_id=0,
            publish_time=owners.clock.now_ms(),
        )
        if stored is not None:
            metadata.schema_version = encode_version(stored.version)
        if message.key is not None:
            metadata.partition_key = message.key
        for key, value in message.properties.items():
            metadata.properties.add(key=key, value=value)
        payload = _encode(message, schema)
        metadata.uncompressed_size = len(payload)
        entry = encode_entry(metadata, payload)
        _check_size(live, entry)
        position = await live.log.append_entry(entry)
        live.rate_in.add(1, len(entry))
        live.last_publish_ms = owners.clock.now_ms()
        return {"topic": live.name.full, "position": str(position)}

    async def _find_writable(self) -> PersistentTopic:
        """The topic, if it would take a producer's message now."""
        live = await self._owners.attach_topic(self._topic, may_create=False)
        if not isinstance(live, PersistentTopic):
            raise NotAllowed("Only topics that keep their messages take one by hand")
        if live.termination.is_under_way or live.termination.is_over:
            raise TopicTerminated(f"Topic {self._topic} was terminated")
        if live.quota_refusal is not None:
            raise live.quota_refusal
        if live.policy.encryption_required:
            raise NotAllowed("The topic takes encrypted messages only")
        if live.producers.exclusive is not None:
            raise ProducerBusy("Topic has an existing exclusive producer")
        return live


Logs: TypeAlias = OwnerPort[StoredMessages]


@finds(Logs)
def find_logs(owners: MessageOwners) -> Logs:
    return OwnerPort(owners.calls, StoredMessages, partial(StoredMessages, owners))


@carries_out("console.messages")
async def browse(
    owners: TopicOwners,
    logs: Logs,
    topic: TopicName,
    part: str | None,
    start: str | None,
    key: str | None,
    count: int | None,
) -> Document:
    """Messages of one part of a topic in the order of its log, and where the next ones begin."""
    wanted = min(_MESSAGES_MAX, count or _MESSAGES)
    if wanted < 1:
        raise BadRequest(f"count is from 1 to {_MESSAGES_MAX}")
    begin = _parse_start(start or "")
    name = await _find_part(owners, topic, part or "", key or "")
    found = await logs.at(name).browse(begin, key or "", wanted)
    return {**found, "parts": await list_parts(owners, topic)}


def _parse_start(text: str) -> Start:
    """`earliest`, nothing for the last messages, a position, or a time in milliseconds."""
    if not text or text == "latest":
        return Start()
    if text == "earliest":
        return Start(is_earliest=True)
    if ":" in text:
        return Start(position=parse_position(text))
    if text.isascii() and text.isdigit() and len(text) <= 15:
        return Start(time_ms=int(text))
    raise BadRequest(f"from is earliest, latest, a position or a time in ms, not {text!r}")


def parse_position(text: str) -> Position:
    ledger, _, entry = text.partition(":")
    numbers = (ledger, entry)
    if not all(each.isascii() and each.isdigit() and len(each) <= 18 for each in numbers):
        raise BadRequest(f"A position is a ledger and an entry, as 12:0, not {text!r}")
    return Position(int(ledger), int(entry))


async def _browse(
    schemas: SchemaRegistry, live: PersistentTopic, start: Start, *, key: str, count: int
) -> dict[str, Any]:
    log = live.log
    position = await _find_start(live, start, count)
    found: list[Document] = []
    looked_at, following = 0, position
    while len(found) < count and looked_at < _LOOKED_AT_MAX:
        run = await log.reader.read(following, _READ_ENTRIES, _READ_BYTES)
        if run is None:
            break
        for index, entry in enumerate(run.data):
            looked_at += 1
            at = Position(run.ledger_id, run.first + index)
            following = log.sequence.next_position(at)
            async for message in _show_entry(schemas, live.name, at, entry):
                if not key or message["key"] == key:
                    found.append(message)
            if len(found) >= count:
                break
    return {
        "part": live.name.full,
        "messages": found,
        "next": str(following),
        "isEnd": following > log.sequence.last_position,
        "entries": log.sequence.total_entries,
        "first": str(log.sequence.first_position),
        "last": str(log.sequence.last_position),
    }


async def list_parts(owners: TopicOwners, topic: TopicName) -> Sequence[str]:
    """The topics that hold messages of this one: itself, its partitions, or its segments; those
    that take new ones first.
    """
    if topic.domain is TopicDomain.TOPIC:
        layout = (await owners.scalable.records.require(topic)).layout
        return [each.name_in(topic).full for each in (*layout.active, *reversed(layout.sealed))]
    partitioned = await owners.resources.partitioned.get(topic)
    if partitioned is None:
        return [topic.full]
    return [topic.partition(index).full for index in range(partitioned.partitions)]


@carries_out("console.publish")
async def publish(
    owners: TopicOwners, logs: Logs, topic: TopicName, message: Published
) -> Document:
    """One message, written with the topic's schema, if there is one."""
    name = await _route(owners, topic, message.key)
    return await logs.at(name).publish(message)


def _encode(message: Published, schema: SchemaData | None) -> bytes:
    if message.encoding == "base64":
        try:
            return base64.b64decode(str(message.value), validate=True)
        except ValueError as error:
            raise BadRequest(f"The value is not base64: {error}") from None
    return encode_value(message.value, schema)


def _check_size(live: PersistentTopic, entry: bytes) -> None:
    limits = (live.policy.max_message_size, live.host.config.maxMessageSize)
    limit = min(each for each in limits if each > 0)
    if len(entry) > limit:
        raise NotAllowed(f"A message of {len(entry)} bytes is larger than {limit}")


async def _route(owners: TopicOwners, topic: TopicName, key: str | None) -> TopicName:
    """The part that new messages of a key go to; the first one where there is no key."""
    if topic.domain is TopicDomain.TOPIC:
        layout = (await owners.scalable.records.require(topic)).layout
        return layout.find_active(0 if key is None else segment_hash(key)).name_in(topic)
    partitioned = await owners.resources.partitioned.get(topic)
    if partitioned is None:
        return topic
    count = partitioned.partitions
    return topic.partition(
        0 if key is None else route_partition(key, count, hashing=KeyHash.MURMUR3)
    )


async def _find_part(owners: TopicOwners, topic: TopicName, part: str, key: str) -> TopicName:
    """The one that is named, and no other topic's; else the one that the key's messages go to."""
    if part and part not in await list_parts(owners, topic):
        raise NotFound(f"{topic} has no part {part}")
    return parse_topic(part) if part else await _route(owners, topic, key or None)


async def _find_start(live: PersistentTopic, start: Start, count: int) -> Position:
    sequence = live.log.sequence
    if start.position is not None:
        return max(start.position, sequence.first_position)
    if start.time_ms is not None:
        return await log_search.position_at(live.log, start.time_ms)
    if start.is_earliest:
        return sequence.first_position
    ahead = max(0, sequence.total_entries - count)
    return sequence.position_after(sequence.first_position, ahead)


async def _show_entry(
    schemas: SchemaRegistry, topic: TopicName, at: Position, entry: bytes
) -> AsyncIterator[Document]:
    """Each message of the entry; an unreadable one has its problem instead."""
    shared: dict[str, Any] = {"position": str(at), "entryBytes": len(entry)}
    try:
        metadata, payload = decode_entry(entry)
        shared |= _show_head(metadata)
        if metadata.encryption_keys:
            yield shared | {"key": _key_of(metadata), "problem": "encrypted by its producer"}
            return
        payload = decompress(
            metadata.compression,
            payload,
            metadata.uncompressed_size,
            bytes_max=_PAYLOAD_BYTES_MAX,
        )
        schema = await _find_schema(schemas, topic, metadata)
        if not metadata.HasField("num_messages_in_batch"):
            yield shared | _show_message(metadata, payload, schema)
            return
        messages = decode_batch(payload, metadata.num_messages_in_batch)
    except ProtocolViolation as error:
        yield shared | {"key": None, "problem": error.sentence}
        return
    for index, each in enumerate(messages):
        if not each.metadata.compacted_out:
            fields = _show_message(each.metadata, each.payload, schema)
            yield shared | {"batchIndex": index, "batchSize": len(messages)} | fields


def _show_head(metadata: MessageMetadata) -> dict[str, Any]:
    head: dict[str, Any] = {
        "producer": metadata.producer_name,
        "sequenceId": metadata.sequence_id,
        "publishedMs": metadata.publish_time,
    }
    if metadata.HasField("compression"):
        head["compression"] = CompressionType.Name(metadata.compression)
    if metadata.HasField("deliver_at_time"):
        head["deliverAtMs"] = metadata.deliver_at_time
    if metadata.HasField("num_chunks_from_msg"):
        head["chunk"] = f"{metadata.chunk_id + 1} of {metadata.num_chunks_from_msg}"
    return head


def _show_message(
    metadata: MessageMetadata | SingleMessageMetadata, payload: bytes, schema: SchemaData | None
) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "key": _key_of(metadata),
        "properties": {each.key: each.value for each in metadata.properties},
        "bytes": len(payload),
        "schema": None if schema is None else schema.type.name,
    }
    if metadata.HasField("event_time"):
        fields["eventMs"] = metadata.event_time
    if metadata.null_value:
        return fields | {"value": None}
    if len(payload) > _SHOWN_BYTES_MAX:
        return fields | {"problem": "too large to show"}
    try:
        key = decode_key(metadata.partition_key, is_base64=metadata.partition_key_b64_encoded)
        return fields | {"value": show_value(payload, schema, key)}
    except ValueUnreadable as error:
        return fields | {"value": show_value(payload, None), "problem": str(error)}


def _key_of(metadata: MessageMetadata | SingleMessageMetadata) -> str | None:
    return metadata.partition_key if metadata.HasField("partition_key") else None


async def _find_schema(
    schemas: SchemaRegistry, topic: TopicName, metadata: MessageMetadata
) -> SchemaData | None:
    if not metadata.schema_version:
        return None
    try:
        version = decode_version(metadata.schema_version)
    except InvalidSchema as error:
        raise ProtocolViolation(error.sentence) from None
    stored = await schemas.get(topic, version)
    return None if stored is None else stored.schema

"""Schemas as bytes: in commands, in the list of a topic's versions, in the entry of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from google.protobuf.message import DecodeError, Message

from magnetar.errors import RecordUnreadable
from magnetar.model.position import Position
from magnetar.model.schema import SchemaData, SchemaType
from magnetar.wire.command import Schema
from magnetar.wire.pb import storage_pb2

_WIRE_AUTO_CONSUME = 21
_WIRE_EXTERNAL = 22


@dataclass(frozen=True, slots=True)
class SchemaIndex:
    """Where one version is kept. `digest` is empty for a version that says "deleted"."""

    version: int
    position: Position
    digest: bytes


def decode_schema(message: Schema, *, user: str = "", now_ms: int = 0) -> SchemaData:
    """What a client says about a schema."""
    number = int(message.type)
    if number == _WIRE_AUTO_CONSUME:
        kind = SchemaType.AUTO_CONSUME
    elif number == _WIRE_EXTERNAL:
        kind = SchemaType.EXTERNAL
    else:
        kind = SchemaType(number)
    properties = {pair.key: pair.value for pair in message.properties}
    return SchemaData(kind, message.schema_data, properties, user, now_ms)


def encode_schema(schema: SchemaData, name: str) -> Schema:
    """A schema as it is sent to a client."""
    match schema.type:
        case SchemaType.AUTO_CONSUME:
            number = _WIRE_AUTO_CONSUME
        case SchemaType.EXTERNAL:
            number = _WIRE_EXTERNAL
        case kind:
            number = max(0, int(kind))
    message = Schema(name=name, schema_data=schema.definition, type=Schema.Type.Name(number))
    for key, value in schema.properties.items():
        message.properties.add(key=key, value=value)
    return message


def encode_locator(index: Sequence[SchemaIndex]) -> bytes:
    """The record of a topic's versions, oldest first; there is at least one."""
    entries = [_encode_index(entry) for entry in index]
    return storage_pb2.SchemaLocator(info=entries[-1], index=entries).SerializeToString()


def decode_locator(data: bytes) -> tuple[SchemaIndex, ...]:
    locator = storage_pb2.SchemaLocator()
    _parse(locator, data, "the list of a topic's schemas")
    return tuple(
        SchemaIndex(
            entry.version, Position(entry.position.ledgerId, entry.position.entryId), entry.hash
        )
        for entry in locator.index
    )


def _parse(message: Message, data: bytes, what: str) -> None:
    try:
        message.ParseFromString(data)
    except DecodeError:
        raise RecordUnreadable(f"{what} cannot be decoded") from None
    if not message.IsInitialized():
        raise RecordUnreadable(f"{what} is not complete")


def _encode_index(entry: SchemaIndex) -> storage_pb2.SchemaIndexEntry:
    position = storage_pb2.NestedPositionInfo(
        ledgerId=entry.position.ledger_id, entryId=entry.position.entry_id
    )
    return storage_pb2.SchemaIndexEntry(version=entry.version, position=position, hash=entry.digest)


def encode_stored(schema_id: str, schema: SchemaData, index: Sequence[SchemaIndex]) -> bytes:
    """The ledger entry of a version; it repeats the versions before it."""
    info = storage_pb2.SchemaInfo(
        schema_id=schema_id,
        user=schema.user,
        type=storage_pb2.SchemaInfo.SchemaType.Name(schema.stored_type + 1),
        schema=schema.definition,
        timestamp=schema.timestamp_ms,
        deleted=schema.deleted,
    )
    for key, value in schema.properties.items():
        info.props.add(key=key, value=value)
    return storage_pb2.SchemaEntry(
        schema_data=info.SerializeToString(), index=[_encode_index(entry) for entry in index]
    ).SerializeToString()


def decode_stored(data: bytes) -> SchemaData:
    entry, info = storage_pb2.SchemaEntry(), storage_pb2.SchemaInfo()
    _parse(entry, data, "the ledger entry of a schema")
    _parse(info, entry.schema_data, "the ledger entry of a schema")
    return SchemaData(
        SchemaType(int(info.type) - 1),
        info.schema,
        {pair.key: pair.value for pair in info.props},
        info.user,
        info.timestamp,
        info.deleted,
    )

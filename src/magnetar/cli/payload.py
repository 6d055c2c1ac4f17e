"""Values between the terminal and a topic's schema: read and written as text or JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from magnetar.cli.command import UsageError
from magnetar.client.client import AsyncPulsarClient
from magnetar.client.error import NotFoundError, SchemaError
from magnetar.client.message import Message
from magnetar.client.scalable.message import Message as ScalableMessage
from magnetar.client.schema.key_value import KeyValue
from magnetar.client.schema.schema import Schema
from magnetar.model.schema import SchemaData, SchemaType

KINDS: Final = "topic, string, json:FILE, avro:FILE or bytes"
_NUMBERS: Final[Mapping[SchemaType, Schema[Any]]] = {
    SchemaType.BOOLEAN: Schema.BOOL,
    SchemaType.INT8: Schema.INT8,
    SchemaType.INT16: Schema.INT16,
    SchemaType.INT32: Schema.INT32,
    SchemaType.INT64: Schema.INT64,
    SchemaType.FLOAT: Schema.FLOAT32,
    SchemaType.DOUBLE: Schema.FLOAT64,
}


# What is read
def value_of(message: Message[Any] | ScalableMessage[Any]) -> Any:
    """The value by its schema; what the schema cannot read is shown as it is stored."""
    try:
        return message.value
    except SchemaError:
        return message.data


def format_value(message: Message[Any] | ScalableMessage[Any]) -> bytes:
    """A line: text and bytes as they are, everything else as JSON."""
    match value_of(message):
        case None:
            return b""
        case bytes() as value:
            return value
        case str() as value:
            return value.encode("utf-8", errors="surrogateescape")
        case value:
            return json.dumps(plain(value), ensure_ascii=False).encode()


def plain(value: Any) -> Any:
    """What JSON can say of a value."""
    match value:
        case KeyValue():
            return {"key": plain(value.key), "value": plain(value.value)}
        case Mapping():
            return {str(name): plain(each) for name, each in value.items()}
        case list() | tuple():
            return [plain(each) for each in value]
        case bytes():
            return _text_of(value)
        case datetime() | date() | time():
            return value.isoformat()
        case Decimal() | UUID():
            return str(value)
        case _:
            return value


def _text_of(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return base64.b64encode(data).decode()


# What is written
async def find_schema(client: AsyncPulsarClient, topic: str, kind: str | None) -> Schema[Any]:
    """The schema that `--schema` means."""
    name, _, path = (kind or "bytes").partition(":")
    match name:
        case "bytes":
            return Schema.BYTES
        case "string":
            return Schema.STRING
        case "json" | "avro" if path:
            text = _read_definition(Path(path))
            return Schema.json(text) if name == "json" else Schema.avro(text)
        case "topic":
            try:
                return _schema_of(await client.bulk.newest_schema(topic))
            except NotFoundError:
                raise UsageError(
                    f"magnetar produce: {topic} has no schema; give one as json:FILE or avro:FILE"
                ) from None
    raise UsageError(f"magnetar produce: --schema is {KINDS}, not {kind!r}")


def _read_definition(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not text"
        raise UsageError(f"magnetar produce: cannot read {path}: {reason}") from None


def _schema_of(data: SchemaData) -> Schema[Any]:
    match data.type:
        case SchemaType.JSON:
            return Schema.json(data.definition.decode())
        case SchemaType.AVRO:
            return Schema.avro(data.definition.decode())
        case SchemaType.STRING:
            return Schema.STRING
        case kind if kind in _NUMBERS:
            return _NUMBERS[kind]
        case kind:
            raise UsageError(
                f"magnetar produce: values of a schema of type {kind.name} cannot be written as"
                " JSON; --schema bytes sends them as they are"
            )


def parse_value(data: bytes, schema: Schema[Any]) -> Any:
    """What was typed, as a value of the schema."""
    if schema is Schema.BYTES:
        return data
    try:
        text = data.decode()
        return text if schema is Schema.STRING else json.loads(text)
    except ValueError as error:
        raise UsageError(
            f"magnetar produce: {_text_of(data[:80])!r} is not JSON: {error}"
        ) from None

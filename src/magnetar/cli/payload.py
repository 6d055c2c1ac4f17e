"""Values between the terminal and a topic's schema: read and written as text or JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from datetime import date, time
from decimal import Decimal
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from magnetar import AsyncPulsarClient, KeyValue, Message, NotFoundError, Schema, SchemaError
from magnetar.cli.command import UsageError, read_file
from magnetar.columns import AsyncBulk
from magnetar.model.schema import SchemaData, SchemaType

KINDS: Final = "topic, string, json:FILE, avro:FILE or bytes"
_RECORDS: Final[Mapping[str, Callable[[str], Schema[Any]]]] = {
    "json": Schema.json,
    "avro": Schema.avro,
}


# What is read
def value_of(message: Message[Any]) -> Any:
    """The value by its schema; what the schema cannot read is shown as it is stored."""
    try:
        return message.value
    except SchemaError:
        return message.data


def format_value(message: Message[Any]) -> bytes:
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
        case date() | time():
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
            return _RECORDS[name](_read_definition(Path(path)))
        case "topic":
            try:
                return _schema_of(await AsyncBulk(client).newest_schema(topic))
            except NotFoundError:
                raise UsageError(
                    f"magnetar produce: {topic} has no schema; give one as json:FILE or avro:FILE"
                ) from None
    raise UsageError(f"magnetar produce: --schema is {KINDS}, not {kind!r}")


def _read_definition(path: Path) -> str:
    try:
        return read_file(path, "magnetar produce").decode()
    except UnicodeDecodeError:
        raise UsageError(f"magnetar produce: cannot read {path}: not text") from None


def _schema_of(data: SchemaData) -> Schema[Any]:
    kind = data.type
    if kind.name.lower() in _RECORDS:
        return _RECORDS[kind.name.lower()](data.definition.decode())
    if kind is SchemaType.STRING or SchemaType.BOOLEAN <= kind <= SchemaType.DOUBLE:
        return Schema.of(kind)
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
        return text if schema.schema_type is SchemaType.STRING else json.loads(text)
    except ValueError as error:
        raise UsageError(
            f"magnetar produce: {_text_of(data[:80])!r} is not JSON: {error}"
        ) from None

"""`magnetar consume`."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

from magnetar import ConfigurationError, MessageId, Schema
from magnetar.cli.command import Options, UsageError
from magnetar.cli.payload import format_value, plain, value_of
from magnetar.cli.source import Received, Source, connect, open_source

_UNFLUSHED_MAX: Final = 100
_FIELDS: Final = ("value", "key", "properties", "id", "publish_time", "event_time", "topic")
"""What a line may show of a message."""

Format = Callable[[Received], bytes]


def run(options: Options) -> int:
    if options.reader == (options.subscription is not None):
        raise UsageError("magnetar consume: give one of --subscription and --reader")
    _check_position(options)
    if options.follow and options.timeout is not None:
        raise UsageError("magnetar consume: give one of --follow and --timeout")
    form = _format_json if options.output == "json" else _choose_format(options.format)
    asyncio.run(_consume(options, form))
    return 0


def _check_position(options: Options) -> None:
    if options.position in ("earliest", "latest"):
        return
    try:
        MessageId.parse(options.position)
    except ConfigurationError:
        raise UsageError(
            "magnetar consume: --position is earliest, latest or a message id such as 12:3,"
            f" not {options.position!r}"
        ) from None
    if not options.reader:
        raise UsageError("magnetar consume: only a reader starts at a message id")


async def _consume(options: Options, form: Format) -> None:
    async with connect(options) as client:
        schema = Schema.BYTES if options.raw else Schema.auto()
        source = await open_source(client, options, schema)
        await _print_all(source, options, form)


async def _print_all(source: Source, options: Options, form: Format) -> None:
    """A message is acknowledged after its line has left for good, so that no line is lost."""
    written: list[Received] = []
    count = 0
    while options.num == 0 or count < options.num:
        message = source.receive_nowait()
        if message is None or len(written) >= _UNFLUSHED_MAX:
            await _flush(source, options, written)
        if message is None:
            message = await source.receive(options.timeout)
        if message is None:
            break
        sys.stdout.buffer.write(form(message) + b"\n")
        written.append(message)
        count += 1
    await _flush(source, options, written)


async def _flush(source: Source, options: Options, written: list[Received]) -> None:
    sys.stdout.buffer.flush()
    if not options.no_ack:
        await source.acknowledge(written)
    written.clear()


def _choose_format(text: str) -> Format:
    if text == "{value}":
        return format_value
    pattern = text.replace("\\t", "\t").replace("\\n", "\n")
    try:
        pattern.format(**dict.fromkeys(_FIELDS, ""))
    except (KeyError, IndexError, ValueError, AttributeError):
        known = " ".join(f"{{{name}}}" for name in _FIELDS)
        raise UsageError(f"magnetar consume: --format knows {known}") from None

    def form(message: Received) -> bytes:
        fields = {name: text or "" for name, text in _describe(message).items()}
        fields["properties"] = json.dumps(fields["properties"] or {}, ensure_ascii=False)
        fields["value"] = format_value(message).decode("utf-8", errors="surrogateescape")
        return pattern.format(**fields).encode("utf-8", errors="surrogateescape")

    return form


def _describe(message: Received) -> dict[str, Any]:
    return {
        "id": str(message.id),
        "topic": message.topic,
        "key": message.key,
        "properties": dict(message.properties),
        "publish_time": _format_time(message.publish_time),
        "event_time": _format_time(message.event_time) or None,
        "producer": message.producer_name,
        "sequence_id": message.sequence_id,
        "redelivery_count": message.redelivery_count,
    }


def _format_json(message: Received) -> bytes:
    document = _describe(message)
    value = value_of(message)
    try:
        document["value"] = value.decode() if isinstance(value, bytes) else plain(value)
    except UnicodeDecodeError:
        document["value_base64"] = base64.b64encode(value).decode()
    return json.dumps(document, ensure_ascii=False).encode()


def _format_time(moment: datetime | None) -> str:
    if moment is None:
        return ""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")

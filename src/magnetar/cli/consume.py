"""`magnetar consume`."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from magnetar.cli.command import Options, UsageError
from magnetar.client.authentication import TokenAuthentication
from magnetar.client.client import AsyncPulsarClient
from magnetar.client.consumer import AsyncConsumer
from magnetar.client.message import Message
from magnetar.client.message_id import parse_message_id
from magnetar.client.reader import AsyncReader

_UNFLUSHED_MAX: Final = 100
_RAW: Final = "{value}"

Source = AsyncConsumer[bytes] | AsyncReader[bytes]
Format = Callable[[Message[bytes]], bytes]


def run(options: Options) -> int:
    if options.reader == (options.subscription is not None):
        raise UsageError("magnetar consume: give one of --subscription and --reader")
    if not options.reader and options.position not in ("earliest", "latest"):
        raise UsageError("magnetar consume: only a reader starts at a message id")
    if options.follow and options.timeout is not None:
        raise UsageError("magnetar consume: give one of --follow and --timeout")
    form = _format_json if options.output == "json" else _choose_format(options.format)
    asyncio.run(_consume(options, form))
    return 0


async def _consume(options: Options, form: Format) -> None:
    authentication = TokenAuthentication(options.token) if options.token else None
    async with AsyncPulsarClient(options.url, authentication=authentication) as client:
        await client.connect()
        source: Source
        if options.reader:
            source = await client.classic.reader(
                options.topic,
                parse_message_id(options.position),
                start_included=True,
                receiver_queue_size=options.queue_size,
            )
        else:
            source = await client.classic.subscribe(
                options.topic,
                options.subscription,
                type=options.type,
                initial_position=options.position,
                receiver_queue_size=options.queue_size,
            )
        await _print_all(source, options, form)


async def _print_all(source: Source, options: Options, form: Format) -> None:
    """A message is acknowledged after its line has left for good, so that no line is lost."""
    written: list[Message[bytes]] = []
    count = 0
    while options.num == 0 or count < options.num:
        message = _next_nowait(source)
        if message is None or len(written) >= _UNFLUSHED_MAX:
            await _flush(source, options, written)
        if message is None:
            message = await _next(source, options.timeout)
        if message is None:
            break
        sys.stdout.buffer.write(form(message) + b"\n")
        written.append(message)
        count += 1
    await _flush(source, options, written)


def _next_nowait(source: Source) -> Message[bytes] | None:
    return source.receive_nowait() if isinstance(source, AsyncConsumer) else None


async def _next(source: Source, timeout: float | None) -> Message[bytes] | None:
    if isinstance(source, AsyncConsumer):
        return await source.receive(timeout)
    return await source.read(timeout)


async def _flush(
    source: Source,
    options: Options,
    written: list[Message[bytes]],
) -> None:
    sys.stdout.buffer.flush()
    if isinstance(source, AsyncConsumer) and not options.no_ack:
        for message in written:
            await source.acknowledge(message)
    written.clear()


def _choose_format(text: str) -> Format:
    if text == _RAW:
        return lambda message: message.data or b""
    pattern = text.replace("\\t", "\t").replace("\\n", "\n")
    try:
        pattern.format(**dict.fromkeys(_FIELDS, ""))
    except (KeyError, IndexError, ValueError, AttributeError):
        known = " ".join(f"{{{name}}}" for name in _FIELDS)
        raise UsageError(f"magnetar consume: --format knows {known}") from None

    def form(message: Message[bytes]) -> bytes:
        fields = {name: field(message) for name, field in _FIELDS.items()}
        return pattern.format(**fields).encode("utf-8", errors="surrogateescape")

    return form


def _format_json(message: Message[bytes]) -> bytes:
    document: dict[str, Any] = {
        "id": str(message.id),
        "topic": message.topic,
        "key": message.key,
        "properties": dict(message.properties),
        "publish_time": _format_time(message.publish_time_ms),
        "event_time": _format_time(message.event_time_ms) or None,
        "producer": message.producer_name,
        "sequence_id": message.sequence_id,
        "redelivery_count": message.redelivery_count,
    }
    try:
        document["value"] = None if message.data is None else message.data.decode()
    except UnicodeDecodeError:
        document["value_base64"] = base64.b64encode(message.data or b"").decode()
    return json.dumps(document, ensure_ascii=False).encode()


def _format_time(time_ms: int | None) -> str:
    if time_ms is None:
        return ""
    moment = datetime.fromtimestamp(time_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


_FIELDS: Final[dict[str, Callable[[Message[bytes]], str]]] = {
    "value": lambda message: (message.data or b"").decode("utf-8", errors="surrogateescape"),
    "key": lambda message: message.key or "",
    "properties": lambda message: json.dumps(dict(message.properties), ensure_ascii=False),
    "id": lambda message: str(message.id),
    "publish_time": lambda message: _format_time(message.publish_time_ms),
    "event_time": lambda message: _format_time(message.event_time_ms),
    "topic": lambda message: message.topic,
}

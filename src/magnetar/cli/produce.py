"""`magnetar produce`."""

from __future__ import annotations

import asyncio
import io
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

from magnetar import SendOptions
from magnetar.cli.command import Options, UsageError, read_file
from magnetar.cli.input import read_lines
from magnetar.cli.payload import find_schema, parse_value
from magnetar.cli.progress import Progress
from magnetar.cli.source import connect, open_producer, send_all
from magnetar.runtime.clock import Clock, SystemClock


class Line(NamedTuple):
    key: str | None
    data: bytes


def run(options: Options) -> int:
    if options.message is None and options.file is None and options.times != 1:
        raise UsageError("magnetar: --times repeats -m and -f; standard input is sent once")
    if options.times < 1 or options.rate < 0:
        raise UsageError("magnetar: --times must be above 0 and --rate not below 0")
    if options.event_time not in (None, "now") and not options.event_time.isdigit():
        raise UsageError("magnetar: --event-time is milliseconds since 1970, or 'now'")
    count = asyncio.run(_produce(options, SystemClock()))
    if not options.quiet:
        print(f"{count} message{'' if count == 1 else 's'} sent", file=sys.stderr)
    return 0


async def _produce(options: Options, clock: Clock) -> int:
    async with connect(options) as client:
        schema = await find_schema(client, options.topic, options.schema)

        def encode(line: Line) -> tuple[Any, SendOptions]:
            described = SendOptions(key=line.key, properties=dict(options.properties or []))
            if options.event_time is not None:
                is_now = options.event_time == "now"
                event_time_ms = clock.now_ms() if is_now else int(options.event_time)
                described["event_time"] = datetime.fromtimestamp(event_time_ms / 1000, UTC)
            return parse_value(line.data, schema), described

        producer = await open_producer(client, options, schema=schema, name=options.producer_name)
        shown = io.StringIO() if options.quiet else sys.stderr
        progress = Progress("messages", _count(options), shown, clock.monotonic)
        async with producer:
            with progress:
                return await send_all(
                    producer,
                    _lines(options),
                    encode,
                    rate=options.rate,
                    clock=clock,
                    on_stored=lambda began, ended: progress.add(),
                )


def _count(options: Options) -> int | None:
    """How many will be sent, unless they are read from standard input."""
    if options.message is None and options.file is None:
        return None
    texts = (text.encode("utf-8", errors="surrogateescape") for text in options.message or ())
    pieces = sum(len(_cut(each, options)) for each in texts) + len(options.file or ())
    return pieces * int(options.times)


async def _lines(options: Options) -> AsyncIterator[Line]:
    if options.message is None and options.file is None:
        async for data in read_lines(sys.stdin.fileno()):
            for line in _cut(data, options):
                yield line
        return
    files = [read_file(path) for path in options.file or ()]
    for _ in range(options.times):
        for text in options.message or ():
            for line in _cut(text.encode("utf-8", errors="surrogateescape"), options):
                yield line
        for data in files:
            yield Line(options.key, data)


def _cut(data: bytes, options: Options) -> list[Line]:
    pieces = data.split(options.separator.encode()) if options.separator else [data]
    return [_line(piece, options) for piece in pieces]


def _line(data: bytes, options: Options) -> Line:
    if options.key_separator is None:
        return Line(options.key, data)
    key, separator, value = data.partition(options.key_separator.encode())
    if not separator:
        return Line(options.key, data)
    return Line(key.decode("utf-8", errors="replace"), value)

"""The options of the sink."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from magnetar.spark.option import Broker, InvalidOption, Options, parse_broker, parse_name


class SinkFormat(StrEnum):
    BYTES = "bytes"
    JSON = "json"
    AVRO = "avro"


class RowOrder(StrEnum):
    INPUT = "input"
    """Rows are numbered as they come; a retried task must give them in the same order."""
    SORTED = "sorted"
    """Rows are sorted by their content first, so that any order gives the same numbers."""


class Compression(StrEnum):
    NONE = "none"
    LZ4 = "lz4"
    ZLIB = "zlib"
    ZSTD = "zstd"
    SNAPPY = "snappy"


@dataclass(frozen=True, slots=True)
class SinkOptions:
    broker: Broker
    topic: str | None
    format: SinkFormat
    order: RowOrder
    exactly_once: bool
    enable_deduplication: bool
    compression: Compression
    batch_messages: int
    batch_bytes: int
    pending_max: int
    write_id: str | None


def parse_sink(given: Mapping[str, str], *, is_stream: bool) -> SinkOptions:
    options = Options(given)
    options.text("checkpointLocation")
    topic = options.text("topic")
    if topic:
        parse_name(topic)
    write_id = options.text("writeId")
    exactly_once = options.flag("exactlyOnce", default=True)
    if write_id and is_stream:
        raise InvalidOption(
            "writeId names a batch write; a streaming query is named by its checkpointLocation"
        )
    if write_id and not exactly_once:
        raise InvalidOption("writeId has no meaning with exactlyOnce=false; give one of them")
    parsed = SinkOptions(
        broker=parse_broker(options),
        topic=topic or None,
        format=options.choice("valueFormat", SinkFormat, SinkFormat.BYTES),
        order=options.choice("rowOrder", RowOrder, RowOrder.INPUT),
        exactly_once=exactly_once,
        enable_deduplication=options.flag("enableDeduplication", default=True),
        compression=options.choice("compression", Compression, Compression.NONE),
        batch_messages=options.number("batchMessages", 1000) or 1,
        batch_bytes=options.size("batchBytes", 128 << 10) or 1,
        pending_max=options.number("maxPending", 20_000) or 1,
        write_id=write_id,
    )
    options.check_known()
    return parsed

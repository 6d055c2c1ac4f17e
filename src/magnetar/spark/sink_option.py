"""The options of the sink."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from magnetar.errors import InvalidName
from magnetar.model.name import parse_namespace
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


_OF_SPARK: Final = ("checkpointLocation", "queryName")
"""Options that Spark hands over with ours."""


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
    transactional: bool
    transaction_timeout_s: float
    transaction_namespace: str
    """Where the token of a query is kept."""
    query_place: str | None
    """What tells a streaming query from others on the driver's machine."""


def parse_sink(given: Mapping[str, str], *, is_stream: bool) -> SinkOptions:
    options = Options(given)
    places = [options.text(name) for name in _OF_SPARK]
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
    transactional = options.flag("transactional", default=False)
    if transactional and not exactly_once:
        raise InvalidOption(
            "transactional=true needs deduplication, so that a retried task writes no row twice;"
            " it contradicts exactlyOnce=false"
        )
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
        transactional=transactional,
        transaction_timeout_s=_parse_timeout(options, transactional),
        transaction_namespace=_parse_namespace(options, topic, transactional),
        query_place=next(filter(None, places), None),
    )
    options.check_known()
    return parsed


def _parse_timeout(options: Options, transactional: bool) -> float:
    _check_transactional(options, "transactionTimeout", transactional)
    seconds = options.seconds("transactionTimeout", 600.0)
    if seconds < 1.0:
        raise InvalidOption("transactionTimeout is 1s at least")
    return seconds


def _parse_namespace(options: Options, topic: str | None, transactional: bool) -> str:
    _check_transactional(options, "transactionNamespace", transactional)
    default = str(parse_name(topic).namespace) if topic else "public/default"
    try:
        return str(parse_namespace(options.text("transactionNamespace") or default))
    except InvalidName as error:
        raise InvalidOption(error.sentence) from None


def _check_transactional(options: Options, name: str, transactional: bool) -> None:
    if options.text(name) is not None and not transactional:
        raise InvalidOption(f"{name} has no meaning without transactional=true")

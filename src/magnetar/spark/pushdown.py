"""Filters that a batch query hands down: rows that Spark would drop are not decoded and not sent.

Spark applies every filter once more, so that one which is understood in part may leave too many
rows, and never too few.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from magnetar.spark.slice import Slice

_COLUMNS: Final[dict[tuple[str, ...], str]] = {
    ("key",): "key",
    ("publish_time",): "publish_time",
    ("event_time",): "event_time",
    ("sequence_id",): "sequence_id",
    ("message_id", "ledger"): "ledger",
    ("message_id", "entry"): "entry",
    ("message_id", "batch"): "batch_index",
}
"""By the names of the filter: what the decoder calls it."""
_SIDES: Final[dict[tuple[str, ...], str]] = {("topic",): "label", ("segment",): "segment"}
"""What all rows of a slice have in common."""
_TESTS: Final[dict[type[Filter], tuple[str, Callable[[Any, Any], bool]]]] = {
    EqualTo: ("equal", operator.eq),
    GreaterThan: ("greater", operator.gt),
    GreaterThanOrEqual: ("greater_equal", operator.ge),
    LessThan: ("less", operator.lt),
    LessThanOrEqual: ("less_equal", operator.le),
}


@dataclass(frozen=True, slots=True)
class Test:
    """One comparison; a row must pass all of a query's."""

    column: tuple[str, ...]
    kind: str
    """A function of pyarrow.compute, or is_in."""
    value: Any


def parse_filters(filters: Iterable[Filter]) -> tuple[Test, ...]:
    """Those that can be tested here; of the others nothing is known."""
    return tuple(_parse(filters))


def _parse(filters: Iterable[Filter]) -> Iterator[Test]:
    for each in filters:
        column = getattr(each, "attribute", ())
        if column not in _COLUMNS and column not in _SIDES:
            continue
        if isinstance(each, In):
            yield Test(column, "is_in", [_plain(value) for value in each.value])
        elif type(each) in _TESTS:
            value = getattr(each, "value", None)
            yield Test(column, _TESTS[type(each)][0], _plain(value))


def _plain(value: Any) -> Any:
    """Moments with their zone, bytes as bytes."""
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, datetime) and value.tzinfo is None:
        return value.astimezone(UTC)
    return value


def choose_slices(slices: Iterable[Slice], tests: Iterable[Test]) -> list[Slice]:
    """Those that may have rows: topic and segment are those of the slice."""
    wanted = [each for each in tests if each.column in _SIDES]
    return [piece for piece in slices if all(_may_have(piece, each) for each in wanted)]


def _may_have(piece: Slice, test: Test) -> bool:
    found = getattr(piece, _SIDES[test.column])
    if test.kind == "is_in":
        return found in test.value
    compare = next(each for name, each in _TESTS.values() if name == test.kind)
    return test.value is not None and compare(found, test.value)


def columns_of(tests: Iterable[Test]) -> tuple[str, ...]:
    """What must be decoded for the tests."""
    return tuple(_COLUMNS[each.column] for each in tests if each.column in _COLUMNS)


def filter_rows(batch: pa.RecordBatch, tests: Iterable[Test]) -> pa.RecordBatch:
    """The rows that pass; a comparison with null drops its row, as in SQL."""
    for test in tests:
        name = _COLUMNS.get(test.column)
        if name is None:
            continue
        column = batch.column(name)
        if test.kind == "is_in":
            mask = pc.is_in(column, value_set=pa.array(test.value, column.type))
        else:
            mask = getattr(pc, test.kind)(column, pa.scalar(test.value, column.type))
        batch = batch.filter(mask)
    return batch

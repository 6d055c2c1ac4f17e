"""Filters that a batch query hands down: what Spark would drop is not read, decoded or sent.

Bounds of message ids are bounds of what is read. Times of publishing are those of producers' clocks
and need not rise along a segment: every entry is looked at, and those outside are not unpacked.

Spark applies every filter once more, so that one which is understood in part may leave too many
rows, and never too few.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
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
from magnetar.spark.stretch import Span, count_entries

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


_COMPARE: Final = dict(_TESTS.values())
_IS_IN: Final = "is_in"
_LEDGER: Final = ("message_id", "ledger")
_ENTRY: Final = ("message_id", "entry")
_PUBLISHED: Final = ("publish_time",)
_HIGHEST: Final = 1 << 63
_EPOCH: Final = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class Test:
    """One comparison; a row must pass all of a query's."""

    column: tuple[str, ...]
    kind: str
    """A function of pyarrow.compute, or is_in."""
    value: Any

    def passes(self, found: Any) -> bool:
        if self.kind == _IS_IN:
            return found in self.value
        return self.value is not None and _COMPARE[self.kind](found, self.value)

    @property
    def limits(self) -> tuple[int, int]:
        """Of whole numbers: all that pass stand between these two, both included."""
        values = [n for n in (self.value if self.kind == _IS_IN else [self.value]) if n is not None]
        if not values:
            return _HIGHEST, -_HIGHEST
        least, most = min(values), max(values)
        match self.kind:
            case "greater":
                return least + 1, _HIGHEST
            case "greater_equal":
                return least, _HIGHEST
            case "less":
                return -_HIGHEST, most - 1
            case "less_equal":
                return -_HIGHEST, most
            case _:
                return least, most


def parse_filters(filters: Iterable[Filter]) -> tuple[Test, ...]:
    """Those that can be tested here; of the others nothing is known."""
    return tuple(_parse(filters))


def _parse(filters: Iterable[Filter]) -> Iterator[Test]:
    for each in filters:
        column = getattr(each, "attribute", ())
        if column not in _COLUMNS and column not in _SIDES:
            continue
        if isinstance(each, In):
            yield Test(column, _IS_IN, [_plain(value) for value in each.value])
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


def choose_slices(slices: Iterable[Slice], tests: Sequence[Test]) -> list[Slice]:
    """What may have rows: topic and segment are those of the slice, ids those of its entries."""
    wanted = [each for each in tests if each.column in _SIDES]
    chosen = [piece for piece in slices if all(_may_have(piece, each) for each in wanted)]
    cut = (_cut(piece, tests) for piece in chosen)
    return [piece for piece in cut if piece.spans or not piece.is_counted]


def _may_have(piece: Slice, test: Test) -> bool:
    return test.passes(getattr(piece, _SIDES[test.column]))


def _cut(piece: Slice, tests: Sequence[Test]) -> Slice:
    """The entries whose ids pass."""
    ledgers = [each for each in tests if each.column == _LEDGER]
    entries = [each for each in tests if each.column == _ENTRY]
    if not (ledgers or entries) or not piece.is_counted:
        return piece
    kept = [span for span in piece.spans if all(each.passes(span.ledger) for each in ledgers)]
    for each in entries:
        least, most = each.limits
        kept = [Span(s.ledger, max(s.first, least), min(s.last, most)) for s in kept]
    spans = tuple(span for span in kept if span.first <= span.last)
    size = piece.size * count_entries(spans) // max(1, count_entries(piece.spans))
    return replace(piece, spans=spans, size=size)


def make_wants(tests: Iterable[Test]) -> Callable[[int], bool]:
    """Of which times of publishing, in ms, rows may pass."""
    times = [
        replace(each, value=_micros(each.value)) for each in tests if each.column == _PUBLISHED
    ]
    return lambda published_ms: all(each.passes(1000 * published_ms) for each in times)


def _micros(value: Any) -> Any:
    if isinstance(value, list):
        return [_micros(each) for each in value]
    return None if value is None else (value - _EPOCH) // timedelta(microseconds=1)


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
        if test.kind == _IS_IN:
            mask = pc.is_in(column, value_set=pa.array(test.value, column.type))
        else:
            mask = getattr(pc, test.kind)(column, pa.scalar(test.value, column.type))
        batch = batch.filter(mask)
    return batch

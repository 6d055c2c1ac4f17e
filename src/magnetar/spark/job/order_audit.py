"""Per-key order, loss and repetition over all that a topic holds, across migration, splits, merges.

The order of the topic is that of its segments, parents before children, and within a segment that
of positions. Messages are sorted by it within each line and checked by `spark.job.audit`; what a
task keeps is bounded by the faults it finds.

Lines are keys where messages carry a counter of their own. Otherwise they are producers on one
segment, which number what they send there: a number that is missing is lost, one that is there
twice is duplicated. The messages of different keys may overtake each other, for they travel in
different batches; so order is looked at key by key: on a segment a producer's numbers rise, and
from one segment to the next, where they begin anew, its publish times do not go back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, Observation, Row
from pyspark.sql import functions as F

from magnetar import ConfigurationError
from magnetar.spark.job.audit import FaultKind, Line, LineFault, Numbers

FAULT_SCHEMA: Final = (
    "line binary, kind string, first long, last long, segment long, ledger long, entry long,"
    " batch int, before_segment long, before_ledger long, before_entry long, before_batch int,"
    " messages long"
)
_ARROW: Final = pa.schema(
    [
        ("line", pa.binary()),
        ("kind", pa.string()),
        ("first", pa.int64()),
        ("last", pa.int64()),
        ("segment", pa.int64()),
        ("ledger", pa.int64()),
        ("entry", pa.int64()),
        ("batch", pa.int32()),
        ("before_segment", pa.int64()),
        ("before_ledger", pa.int64()),
        ("before_entry", pa.int64()),
        ("before_batch", pa.int32()),
        ("messages", pa.int64()),
    ]
)
END: Final = "end"
"""The kind of the row that tells how far a line came."""
_PLACE: Final = ("segment", "ledger", "entry", "batch")
_TIMES: Final = b"t:"
"""Before the name of a line of publish times."""
_NUMBERS: Final = b"n:"

Place: TypeAlias = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Counter:
    """Where the numbers are: `sequence`, `property:NAME`, `value`, or `value:FIELD` of JSON."""

    source: str = "sequence"
    name: str = ""

    @property
    def is_sequence(self) -> bool:
        return self.source == "sequence"

    @property
    def columns(self) -> tuple[str, ...]:
        """What must be read of the topic."""
        common = ("key", "segment", "message_id", "sequence_id", "producer", "publish_time")
        own = {"property": ("properties",), "value": ("value",)}.get(self.source, ())
        return (*common, *own)

    def number(self) -> Column:
        match self.source:
            case "property":
                return F.col("properties")[self.name].try_cast("long")
            case "value" if self.name:
                text = F.col("value").cast("string")
                return F.get_json_object(text, f"$.{self.name}").try_cast("long")
            case "value":
                return F.col("value").cast("string").try_cast("long")
            case _:
                return F.col("sequence_id")


def parse_counter(text: str) -> Counter:
    source, _, name = text.partition(":")
    if source == "value" or text == "sequence" or (source == "property" and name):
        return Counter(source, name)
    raise ConfigurationError(
        f"{text!r} is no counter; give sequence, property:NAME, value or value:FIELD"
    )


@dataclass(frozen=True, slots=True)
class Findings:
    messages: int
    lines: int
    lost: int
    duplicated: int
    out_of_order: int
    unnumbered: int
    """Messages without a number or without a line: nothing is said of them."""

    @property
    def is_clean(self) -> bool:
        return not (self.lost or self.duplicated or self.out_of_order)


def find_generations(segments: Mapping[str, Mapping[str, Any]]) -> dict[int, int]:
    """How far each segment of a topic's record is from those without parents, the longest way."""
    parents = {int(number): each["parentIds"] for number, each in segments.items()}
    found: dict[int, int] = {}
    for number in sorted(parents):
        waiting = [number]
        while waiting:
            above = [each for each in parents[waiting[-1]] if each in parents]
            missing = [each for each in above if each not in found]
            if missing:
                waiting += missing
            else:
                found[waiting.pop()] = 1 + max((found[each] for each in above), default=-1)
    return found


def arrange(messages: DataFrame, counter: Counter, generations: Mapping[int, int]) -> DataFrame:
    """A row for each line that a message is in, with its number there and its place."""
    number = counter.number()
    if counter.is_sequence:
        own = F.concat_ws("@", F.col("producer"), F.col("segment").cast("string")).cast("binary")
        own = F.when(F.col("producer").isNotNull(), own)
        sender = F.regexp_replace("producer", r"-seg-\d+$", "").cast("binary")
        times = F.concat(F.lit(_TIMES), F.col("key"), F.lit(b" "), sender)
        lines = [
            _in_line(F.concat(F.lit(_NUMBERS), own), number, turn=number),
            _in_line(times, number, at_ms=F.unix_millis("publish_time")),
        ]
    else:
        lines = [_in_line(F.concat(F.lit(_NUMBERS), F.col("key")), number)]
    ranks = [F.lit(each) for pair in generations.items() for each in pair]
    rank = F.create_map(*ranks)[F.col("segment")] if ranks else F.lit(0)
    return messages.select(
        F.explode(F.array(*lines)).alias("of"),
        F.coalesce(rank, F.lit(0)).alias("rank"),
        F.col("segment").cast("long").alias("segment"),
        *(F.col(f"message_id.{name}").alias(name) for name in _PLACE[1:]),
    ).select("of.*", "rank", *_PLACE)


def _in_line(
    line: Column, number: Column, *, turn: Column | None = None, at_ms: Column | None = None
) -> Column:
    """`turn` comes before the topic's order; `at_ms` is for lines of publish times."""
    nothing = F.lit(None).cast("long")
    return F.struct(
        line.alias("line"),
        number.alias("number"),
        (F.lit(0).cast("long") if turn is None else turn).alias("turn"),
        (nothing if at_ms is None else at_ms).alias("at_ms"),
    )


def check(arranged: DataFrame, *, first: int | None = None) -> DataFrame:
    """Faults, and for each line how far it came; `first` is what every line begins with.

    The input is cut by size, and its sum is as large after the shuffle as before it: as many tasks
    as read it sort it, and not Spark's 200, of which each wakes a Python worker.
    """
    tasks = arranged.rdd.getNumPartitions()
    return (
        arranged.where("line is not null and number is not null")
        .repartition(tasks, "line")
        .sortWithinPartitions("line", "turn", "rank", *_PLACE)
        .drop("rank", "turn")
        .mapInArrow(_make_task(first), FAULT_SCHEMA)
    )


def _make_task(
    first: int | None,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        scan = RowScan(first)
        for batch in batches:
            yield from scan.take(batch)
        yield from scan.finish()

    return run


class RowScan:
    """Goes through the sorted rows of a task, line after line."""

    def __init__(self, first: int | None) -> None:
        self._first = first
        self._name: bytes | None = None
        self._line: Line | _Times = Line()
        self._begun = 0
        self._messages = 0
        self._before: Place | None = None
        self._rows: list[dict[str, Any]] = []

    def take(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        codes = batch.column("line").dictionary_encode()
        indices = codes.indices.to_numpy()
        numbers = batch.column("number").to_numpy().astype(np.int64)
        places = [batch.column(name) for name in _PLACE]
        times = batch.column("at_ms").fill_null(0).to_numpy().astype(np.int64)
        edges = [0, *(np.flatnonzero(np.diff(indices)) + 1).tolist(), len(indices)]
        for start, end in pairwise(edges):
            if start == end:
                continue
            name = codes.dictionary[int(indices[start])].as_py()
            if name != self._name:
                self._end_line()
                self._begin_line(name, int(numbers[start]))
            if isinstance(self._line, Line):
                faults = self._line.take(numbers[start:end])
            else:
                segments = places[0].slice(start, end - start).to_numpy()
                faults = self._line.take(numbers[start:end], times[start:end], segments)
            for fault in faults:
                self._note(fault, places, start)
            self._messages += end - start
            self._before = _place(places, end - 1)
        yield from self._flush()

    def finish(self) -> Iterator[pa.RecordBatch]:
        self._end_line()
        yield from self._flush()

    def _begin_line(self, name: bytes, number: int) -> None:
        self._name, self._messages, self._before = name, 0, None
        self._line = _Times() if name.startswith(_TIMES) else Line(self._first)
        self._begun = number if self._first is None else self._first

    def _end_line(self) -> None:
        if self._name is None:
            return
        for fault in self._line.finish():
            self._note(fault, None, 0)
        if isinstance(self._line, Line):
            reached = (self._line.next or 0) - 1
            self._add(END, self._begun, reached, None, self._before, self._messages)

    def _note(self, fault: LineFault, places: Sequence[pa.Array] | None, start: int) -> None:
        if places is None:
            self._add(fault.kind, fault.first, fault.last, None, None, 0)
            return
        here = start + fault.place
        before = _place(places, here - 1) if fault.place else self._before
        self._add(fault.kind, fault.first, fault.last, _place(places, here), before, 0)

    def _add(
        self,
        kind: str,
        first: int,
        last: int,
        place: Place | None,
        before: Place | None,
        messages: int,
    ) -> None:
        assert self._name is not None
        row: dict[str, Any] = {"line": self._name[len(_TIMES) :], "kind": str(kind)}
        row |= {"first": first, "last": last, "messages": messages}
        row |= dict(zip(_PLACE, place or (None,) * 4, strict=True))
        names = (f"before_{name}" for name in _PLACE)
        self._rows.append(row | dict(zip(names, before or (None,) * 4, strict=True)))

    def _flush(self) -> Iterator[pa.RecordBatch]:
        rows, self._rows = self._rows, []
        if rows:
            yield from pa.Table.from_pylist(rows, schema=_ARROW).to_batches()


class _Times:
    """Messages of one producer and key: numbers rise on a segment, times do not go back from one
    segment to the next. A number that is there twice is not told here.
    """

    def __init__(self) -> None:
        self._last: tuple[int, int, int] | None = None

    def take(self, numbers: Numbers, times: Numbers, segments: Numbers) -> Iterator[LineFault]:
        if self._last is not None:
            number, time, segment = self._last
            numbers, times = np.append(number, numbers), np.append(time, times)
            segments = np.append(segment, segments)
        added = self._last is not None
        is_same = np.diff(segments) == 0
        back = np.where(is_same, np.diff(numbers) < 0, np.diff(times) < 0)
        for place in (np.flatnonzero(back) + 1).tolist():
            number = int(numbers[place])
            yield LineFault(FaultKind.OUT_OF_ORDER, number, number, place - added)
        self._last = int(numbers[-1]), int(times[-1]), int(segments[-1])

    def finish(self) -> Iterator[LineFault]:
        return iter(())


def _place(places: Sequence[pa.Array], index: int) -> Place:
    segment, ledger, entry, batch = (column[index].as_py() for column in places)
    return segment, ledger, entry, -1 if batch is None else batch


def order_audit(
    messages: DataFrame,
    counter: Counter,
    generations: Mapping[int, int],
    *,
    first: int | None = None,
    expected: DataFrame | None = None,
    shown: int = 20,
    output: str | None = None,
) -> tuple[Findings, list[Row]]:
    """What was found, and some of the faults; all of them go to `output` as Parquet if it is given.

    `expected` says how many messages each key must have (`key`, `count`), so that nothing that is
    missing at the end of a line goes unnoticed.
    """
    if expected is not None and (counter.is_sequence or first is None):
        raise ConfigurationError(
            "What to expect is counted by key: give a counter of keys, and the number that is first"
        )
    seen = Observation()
    line = F.col("producer") if counter.is_sequence else F.col("key")
    left_out = F.count_if(line.isNull() | counter.number().isNull())
    observed = messages.observe(seen, F.count(F.lit(1)).alias("all"), left_out.alias("left_out"))
    rows = check(arrange(observed, counter, generations), first=first).persist()
    try:
        faults = rows.where(F.col("kind") != END)
        if expected is not None:
            assert first is not None
            faults = faults.unionByName(_find_missing_end(rows, expected, first))
        lines = rows.where(F.col("kind") == END).count()
        sums = {
            row["kind"]: row["numbers"]
            for row in faults.groupBy("kind")
            .agg(
                F.sum(
                    F.when(F.col("kind") == FaultKind.LOST, F.expr("last - first + 1")).otherwise(1)
                ).alias("numbers")
            )
            .collect()
        }
        examples = faults.orderBy("line", "first", "segment", "ledger", "entry").take(shown)
        if output is not None:
            faults.drop("messages").coalesce(1).write.mode("overwrite").parquet(output)
    finally:
        rows.unpersist()
    told = seen.get
    found = Findings(
        told["all"],
        lines,
        sums.get(FaultKind.LOST, 0),
        sums.get(FaultKind.DUPLICATED, 0),
        sums.get(FaultKind.OUT_OF_ORDER, 0),
        told["left_out"],
    )
    return found, examples


def _find_missing_end(rows: DataFrame, expected: DataFrame, first: int) -> DataFrame:
    """Numbers after the last that is there, and keys that are not there at all."""
    ends = rows.where(F.col("kind") == END).select("line", F.col("last").alias("reached"))
    known = expected.select(
        F.col("key").cast("binary").alias("line"), F.col("count").cast("long").alias("count")
    )
    missing = (
        known.join(ends, "line", "left")
        .withColumn("from", F.coalesce(F.col("reached") + 1, F.lit(first)))
        .where(F.col("from") < F.col("count") + first)
    )
    return missing.select(
        "line",
        F.lit(str(FaultKind.LOST)).alias("kind"),
        F.col("from").alias("first"),
        (F.col("count") + first - 1).alias("last"),
        *(
            F.lit(None).cast(kind).alias(name)
            for prefix in ("", "before_")
            for name, kind in (
                (f"{prefix}segment", "long"),
                (f"{prefix}ledger", "long"),
                (f"{prefix}entry", "long"),
                (f"{prefix}batch", "int"),
            )
        ),
        F.lit(0).cast("long").alias("messages"),
    )

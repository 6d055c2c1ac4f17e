"""Rows to write in runs of a bounded size, cut at the same places however they arrive."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True, slots=True)
class WindowSize:
    """A window ends with the row that makes it so many rows, or so many bytes."""

    rows: int = 10_000
    size: int = 8 << 20


WINDOW: Final = WindowSize()
"""Attempts of one task must agree about it: rows change places within a window."""


def cut_windows(
    batches: Iterable[pa.RecordBatch], limit: WindowSize = WINDOW
) -> Iterator[pa.RecordBatch]:
    """The same rows; batches have the columns of `record.ROWS`."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        edges = np.cumsum(_row_sizes(batch))
        start = 0
        while start < len(edges):
            before = int(edges[start - 1]) if start else 0
            full = int(np.searchsorted(edges, before + limit.size - size)) + 1
            end = min(start + limit.rows - rows, full, len(edges))
            held.append(batch.slice(start, end - start))
            rows, size = rows + end - start, size + int(edges[end - 1]) - before
            start = end
            if rows >= limit.rows or size >= limit.size:
                yield _join(held)
                held, rows, size = [], 0, 0
    if held:
        yield _join(held)


def _row_sizes(batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    sizes = np.zeros(batch.num_rows, np.int64)
    for name in ("key", "value"):
        sizes += pc.binary_length(batch.column(name)).fill_null(0).to_numpy(zero_copy_only=False)
    return sizes


def _join(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def sort_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """All rows by their content, as one batch; none when there are none."""
    held = list(batches)
    if not held:
        return
    whole = _join(held)
    rows = whole.to_pylist(maps_as_pydicts=None)
    order = sorted(range(len(rows)), key=lambda place: _content(rows[place]))
    yield whole.take(pa.array(order, pa.int64()))


def _content(row: dict[str, Any]) -> tuple[Any, ...]:
    key, value = row["key"], row["value"]
    return (
        row["topic"],
        key is not None,
        key or b"",
        value is not None,
        value or b"",
        sorted(row["properties"] or ()),
        row["event_ms"],
    )

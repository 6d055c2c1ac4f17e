"""Windows of rows end at the same places however the rows arrive."""

from __future__ import annotations

import pyarrow as pa
import pytest

from magnetar.spark.record import ROWS
from magnetar.spark.sink_task import plan_sheets
from magnetar.spark.window import WindowSize, cut_windows, sort_rows


def batch(values: list[bytes]) -> pa.RecordBatch:
    rows = [{"topic": "t", "value": value, "event_ms": 0} for value in values]
    return pa.RecordBatch.from_pylist(rows, schema=ROWS)


@pytest.mark.parametrize("step", [1, 2, 5, 100])
@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (WindowSize(rows=4, size=1 << 20), [4, 4, 2]),
        (WindowSize(rows=100, size=6), [4, 3, 1, 1, 1]),
        (WindowSize(rows=3, size=6), [3, 3, 2, 1, 1]),
        (WindowSize(rows=10, size=1 << 20), [10]),
    ],
)
def test_windows_do_not_depend_on_batches(
    limit: WindowSize, expected: list[int], step: int
) -> None:
    values = [b"", b"1", b"22", b"333", b"1", b"1", b"4444", b"666666", b"7777777", b"1"]
    batches = [batch(values[start : start + step]) for start in range(0, len(values), step)]
    windows = list(cut_windows(batches, limit))
    assert [window.num_rows for window in windows] == expected
    found = [value for window in windows for value in window.column("value").to_pylist()]
    assert found == values


def test_sorted_rows_are_one_batch_whatever_their_order() -> None:
    values = [b"c", b"a", b"b"]
    forth = list(sort_rows([batch(values)]))
    back = list(sort_rows(batch([value]) for value in reversed(values)))
    assert forth == back and forth[0].column("value").to_pylist() == [b"a", b"b", b"c"]
    assert list(sort_rows([])) == []


def test_a_window_is_planned_for_the_topics_of_its_own_rows() -> None:
    names = ["topic://public/default/a", "topic://public/default/b"]
    rows = [{"topic": name, "value": b"v", "event_ms": 0} for name in names]
    whole = pa.RecordBatch.from_pylist(rows, schema=ROWS)
    assert [name for name, _ in plan_sheets(whole, 0)] == names
    for place, name in enumerate(names):
        ((found, sheet),) = plan_sheets(whole.slice(place, 1), place)
        assert (found, sheet.numbers.tolist()) == (name, [place])

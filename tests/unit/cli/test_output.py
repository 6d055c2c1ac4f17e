from __future__ import annotations

import json

import pytest

from magnetar.cli.output import format_lines, format_result
from magnetar.client.message_id import MessageId


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (["a", "b"], "a\nb"),
        ([], ""),
        (None, "not set"),
        ("ok", "ok"),
        (5, "5"),
        (True, "true"),
        (8.88920567647335, "8.889"),
        (2.0, "2.0"),
        (1e-9, "0.0"),
        (MessageId(1, 2), "1:2:-1:-1"),
        ({"a": 1, "long": {"b": [2]}}, 'a     1\nlong  {"b": [2]}'),
        ([{"id": 1, "x": "y"}, {"id": 20, "z": None}], "ID  X  Z\n1   y\n20     null"),
        (
            [{"load": {"in": 1.23456, "of": {"a": 1}}, "ids": [1, 2], "waitMs": 50}],
            "LOAD             IDS   WAIT MS\nin=1.235 of=a=1  1, 2  50",
        ),
    ],
)
def test_a_table_is_readable(result: object, expected: str) -> None:
    assert format_result(result, "table") == expected


def test_a_time_in_a_table_is_read_and_not_counted() -> None:
    lines = format_result([{"atMs": 1_800_000_000_000, "kind": "SPLIT"}], "table").splitlines()
    assert lines[0].split() == ["AT", "KIND"]
    assert lines[1].startswith("2027-01-1") and lines[1].endswith("SPLIT")


def test_what_is_too_long_for_a_line_is_set_in_below_its_name() -> None:
    long = "x" * 60
    result = {
        "epoch": 1,
        "segments": {"0": {"name": long, "parents": []}, "10": {"state": "ACTIVE", "name": long}},
        "log": [{"at": 5, "why": long}, long, {}],
    }
    assert format_result(result, "table").splitlines() == [
        "epoch     1",
        "segments",
        "  0",
        f"    name     {long}",
        "    parents  []",
        "  10",
        "    state  ACTIVE",
        f"    name   {long}",
        "log",
        "  - at   5",
        f"    why  {long}",
        f"  - {long}",
        "  - {}",
    ]


@pytest.mark.parametrize("result", [None, [], {"a": [1, {"b": "ü"}]}, "text", 3, False])
def test_json_is_the_result_itself(result: object) -> None:
    assert json.loads(format_result(result, "json")) == result


def test_json_spells_ids_and_bytes_as_text() -> None:
    spelled = format_result({0: MessageId(1, 2), "b": b"x\xff"}, "json")
    assert json.loads(spelled) == {"0": "1:2:-1:-1", "b": "x\\xff"}


@pytest.mark.parametrize("style", ["table", "json"])
@pytest.mark.parametrize("items", [[], ["a"], ["a", "ü", {"b": [1]}]])
def test_items_that_come_one_by_one_look_like_the_whole_list(
    items: list[object], style: str
) -> None:
    assert "\n".join(format_lines(iter(items), style)) == format_result(items, style)


def test_headings_are_words_and_a_time_that_never_was_is_said_so() -> None:
    rows = [{"segmentIds": [1, 2], "atMs": 1_800_000_000_000, "lastPublishTimestamp": 0}]
    head, line = format_result(rows, "table").splitlines()
    assert head.split("  ")[0] == "SEGMENT IDS" and "LAST PUBLISH TIMESTAMP" in head
    assert line.startswith("1, 2") and line.endswith("never")
    assert format_result(
        {"lastAckedTimeStamp": -1, "durationInMills": 0}, "table"
    ).splitlines() == [
        "lastAckedTimeStamp  never",
        "durationInMills     0",
    ]
    assert (
        format_result({"lastAckedTime": "1970-01-01T00:00:00Z"}, "table") == "lastAckedTime  never"
    )

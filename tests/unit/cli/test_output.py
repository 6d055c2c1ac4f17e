from __future__ import annotations

import json

import pytest

from magnetar.cli.output import format_result
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
        (MessageId(1, 2), "1:2:-1:-1"),
        ({"a": 1, "long": {"b": [2]}}, 'a     1\nlong  {"b": [2]}'),
        ([{"id": 1, "x": "y"}, {"id": 20, "z": None}], "ID  X  Z\n1   y\n20     null"),
    ],
)
def test_a_table_is_readable(result: object, expected: str) -> None:
    assert format_result(result, "table") == expected


@pytest.mark.parametrize("result", [None, [], {"a": [1, {"b": "ü"}]}, "text", 3, False])
def test_json_is_the_result_itself(result: object) -> None:
    assert json.loads(format_result(result, "json")) == result


def test_json_spells_ids_and_bytes_as_text() -> None:
    spelled = format_result({0: MessageId(1, 2), "b": b"x\xff"}, "json")
    assert json.loads(spelled) == {"0": "1:2:-1:-1", "b": "x\\xff"}

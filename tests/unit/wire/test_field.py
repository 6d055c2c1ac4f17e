from __future__ import annotations

from enum import StrEnum
from typing import Any

import pytest

from magnetar.errors import RecordUnreadable
from magnetar.wire.field import (
    decode_object,
    member_in,
    number_in,
    numbers_in,
    object_in,
    objects_in,
    rate_in,
    text_in,
    texts_in,
    unknown_fields,
)


class Colour(StrEnum):
    RED = "RED"
    BLUE = "BLUE"


@pytest.mark.parametrize("value", [{}, {"x": None}])
def test_a_null_is_as_good_as_a_missing_field(value: dict[str, Any]) -> None:
    assert number_in(value, "x") == 0
    assert rate_in(value, "x") == 0.0
    assert text_in(value, "x") == ""
    assert object_in(value, "x") == texts_in(value, "x") == {}
    assert numbers_in(value, "x") == []
    assert objects_in(value, "x") == []
    assert member_in(value, "x", Colour, Colour.BLUE) is Colour.BLUE
    with pytest.raises(RecordUnreadable):
        member_in(value, "x", Colour, None)


@pytest.mark.parametrize(
    ("reader", "wrong"),
    [
        (number_in, "1"),
        (number_in, True),
        (number_in, 1.5),
        (rate_in, True),
        (text_in, 1),
        (object_in, []),
        (texts_in, {"a": None}),
        (numbers_in, [1, "2"]),
        (numbers_in, [True]),
        (objects_in, [{}, 1]),
    ],
)
def test_a_field_of_the_wrong_kind_makes_the_record_unreadable(reader: Any, wrong: Any) -> None:
    with pytest.raises(RecordUnreadable, match="x"):
        reader({"x": wrong}, "x")


def test_what_is_not_an_object_is_refused() -> None:
    assert decode_object(b'{"a":1}', "a test") == {"a": 1}
    for data in (b"", b"[]", b'{"a"', b"\xff"):
        with pytest.raises(RecordUnreadable, match="a test"):
            decode_object(data, "a test")


def test_unknown_fields_keep_their_order_and_their_nulls() -> None:
    value = {"b": None, "known": 1, "a": [2]}
    assert list(unknown_fields(value, ["known"]).items()) == [("b", None), ("a", [2])]

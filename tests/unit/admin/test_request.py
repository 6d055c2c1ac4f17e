from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from magnetar.admin.body import decode_body
from magnetar.admin.request import Call, parse_query
from magnetar.errors import BadRequest, BrokerError
from magnetar.model.policy import Policies, RetentionPolicies

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=9,
)


def call(query: str = "", **parts: str) -> Call:
    return Call("/", query, parts, parse_query(query), {})


@pytest.mark.parametrize("body", [b"", b" \n", b"null"])
def test_nothing_is_nothing(body: bytes) -> None:
    assert decode_body(body, int) is None
    assert decode_body(body, Policies) is None


def test_nulls_and_quoted_numbers_are_read() -> None:
    body = b'{"retentionTimeInMinutes": "5", "retentionSizeInMB": null, "other": 1}'
    assert decode_body(body, RetentionPolicies) == RetentionPolicies(retentionTimeInMinutes=5)


@pytest.mark.parametrize(
    "body",
    [b"{", b"\xff", b'"x"', b"[]", b'{"a":' * 5000, b"[" * 100_000, b"1e999"],
)
def test_what_is_not_a_number_is_refused(body: bytes) -> None:
    with pytest.raises(BadRequest):
        decode_body(body, int)


@given(JSON_VALUES)
def test_any_json_is_read_or_refused(value: object) -> None:
    for schema in (int, str, Policies, dict[str, str], list[str]):
        try:
            decode_body(json.dumps(value).encode(), schema)
        except BadRequest:
            continue


@given(st.binary(max_size=40))
@example(b'"\xff"')
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    try:
        decode_body(body, Policies)
    except BadRequest:
        return


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", False), ("f", False), ("f=", False), ("f=true", True), ("f=TRUE", True)],
)
def test_a_flag_is_true_or_false(text: str, expected: bool) -> None:
    assert call(text).flag("f") is expected


def test_a_flag_that_is_neither_is_refused() -> None:
    with pytest.raises(BadRequest):
        call("f=maybe").flag("f")


@pytest.mark.parametrize("text", ["x", "1.5", "", "--1", "９", "9" * 30, str(2**63)])
def test_a_number_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(BadRequest):
        call(number=text).integer("number")


def test_the_largest_numbers_are_read() -> None:
    assert call(number=str(2**63 - 1)).integer("number") == 2**63 - 1
    assert call(number=str(-(2**63))).integer("number") == -(2**63)


@given(st.text(alphabet=st.characters(max_codepoint=255), min_size=1, max_size=20))
def test_any_component_is_a_name_or_refused(component: str) -> None:
    made = call(
        tenant="t", namespace="n", domain="persistent", topic=component, subscription=component
    )
    for read in (lambda: made.topic, lambda: made.subscription, lambda: made.text("topic")):
        try:
            read()
        except BrokerError:
            continue

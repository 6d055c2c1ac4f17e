"""The compatibility of Avro schemas is that of a library which reads the data by them."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.rules.avro import parse_avro
from magnetar.rules.budget import StepBudget
from magnetar.rules.resolution import find_mismatch

VALUES: dict[str, Any] = {
    "null": None,
    "boolean": True,
    "int": 7,
    "long": 7,
    "float": 1.5,
    "double": 1.5,
    "bytes": b"x",
    "string": "x",
}
DEFAULTS = {**VALUES, "bytes": "x"}
PRIMITIVES = st.sampled_from(sorted(VALUES))
SYMBOLS = ["A", "B"]
"""Of every writer and reader: one that a reader lacks fails when it is met, not before."""


@st.composite
def types(draw: st.DrawFn, depth: int = 2) -> Any:
    """Named types have one name for each kind and place, so that they meet. A record under another
    name is read when its fields fit, as Java does; fastavro does not.
    """
    kind = draw(st.sampled_from(("primitive", "array", "map", "enum", "fixed", "union", "record")))
    if kind == "enum":
        return {"type": "enum", "name": "E", "symbols": SYMBOLS}
    if kind == "fixed":
        return {"type": "fixed", "name": "F", "size": draw(st.sampled_from((2, 3)))}
    if kind == "primitive" or not depth:
        return draw(PRIMITIVES)
    if kind == "union":
        return draw(st.lists(PRIMITIVES, min_size=1, max_size=3, unique=True))
    if kind == "record":
        return draw(records(depth=depth - 1, name=f"R{depth}"))
    return {"type": kind, "items" if kind == "array" else "values": draw(types(depth=depth - 1))}


@st.composite
def records(draw: st.DrawFn, depth: int = 2, name: str = "R") -> Any:
    fields = []
    for field in sorted(draw(st.sets(st.sampled_from("abc"), min_size=1))):
        kind = draw(types(depth=depth))
        made: dict[str, Any] = {"name": field, "type": kind}
        if isinstance(kind, str) and draw(st.booleans()):
            made["default"] = DEFAULTS[kind]
        fields.append(made)
    return {"type": "record", "name": name, "fields": fields}


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Any, Any]:
    """A reader, and a writer that differs from it in one field at most, or in all."""
    reader = draw(records())
    if draw(st.booleans()):
        return reader, draw(records())
    fields = list(reader["fields"])
    place = draw(st.integers(0, len(fields)))
    fields[place : place + 1] = draw(records())["fields"][:1]
    names = {field["name"]: field for field in fields}
    return reader, {**reader, "fields": list(names.values())}


def define(schema: Any) -> bytes | None:
    """None where a name is defined twice: no schema at all."""
    text = json.dumps(schema)
    for name in ("E", "F", "R1", "R2"):
        if text.count(f'"name": "{name}"') > 1:
            return None
    return text.encode()


def all_values(schema: Any) -> list[Any]:
    """Values of a type that show each of its branches and symbols."""
    if isinstance(schema, list):
        return [value for branch in schema for value in all_values(branch)]
    if isinstance(schema, str):
        return [VALUES[schema]]
    match schema["type"]:
        case "enum":
            return list(schema["symbols"])
        case "fixed":
            return [b"x" * schema["size"]]
        case "array":
            return [[each] for each in all_values(schema["items"])]
        case "map":
            return [{"k": each} for each in all_values(schema["values"])]
        case _:
            columns = [all_values(field["type"]) for field in schema["fields"]]
            rows = range(max(map(len, columns)))
            names = [field["name"] for field in schema["fields"]]
            return [
                dict(zip(names, (each[row % len(each)] for each in columns), strict=True))
                for row in rows
            ]


def can_read(reader: Any, writer: Any) -> bool:
    """Whether fastavro reads by one schema all that it wrote by another."""
    for value in all_values(writer):
        data = io.BytesIO()
        fastavro.schemaless_writer(data, fastavro.parse_schema(writer), value)
        data.seek(0)
        try:
            fastavro.schemaless_reader(
                data, fastavro.parse_schema(writer), fastavro.parse_schema(reader)
            )
        except (fastavro.read.SchemaResolutionError, ValueError, EOFError):
            return False
    return True


@given(pairs())
def test_a_reader_is_compatible_when_it_reads_all_that_a_writer_may_write(
    pair: tuple[Any, Any],
) -> None:
    reader, writer = pair
    ours, theirs = define(reader), define(writer)
    if ours is None or theirs is None:
        return
    found = find_mismatch(parse_avro(ours), parse_avro(theirs), StepBudget(100_000))
    assert (found is None) == can_read(reader, writer), found


@pytest.mark.parametrize("change", ["none", "default", "missing"])
def test_both_sides_of_the_law_are_met(change: str) -> None:
    writer: Any = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}
    added: dict[str, Any] = {"name": "b", "type": "string"} | (
        {"default": "x"} if change == "default" else {}
    )
    reader = {**writer, "fields": [*writer["fields"], *([] if change == "none" else [added])]}
    assert can_read(reader, writer) is (change != "missing")

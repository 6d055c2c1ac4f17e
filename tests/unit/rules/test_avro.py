from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.rules.avro import AvroUnreadable, parse_avro
from magnetar.rules.budget import StepBudget
from magnetar.rules.resolution import find_mismatch


def record(name: str, *fields: Any, **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def entry(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def enum(name: str, *symbols: str, **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": name, "symbols": list(symbols), **more}


def fixed(name: str, size: int, **more: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": name, "size": size, **more}


def array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def mapping(values: Any) -> dict[str, Any]:
    return {"type": "map", "values": values}


def text(schema: Any) -> bytes:
    return json.dumps(schema).encode()


def mismatch(reader: Any, writer: Any) -> str | None:
    return find_mismatch(parse_avro(text(reader)), parse_avro(text(writer)), StepBudget(100_000))


TREE = record("Tree", entry("value", "int"), entry("children", array("Tree")))
WIDER_TREE = record("Tree", entry("value", "long"), entry("children", array("Tree")))
PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
PROMOTED = {
    ("int", "long"),
    ("int", "float"),
    ("int", "double"),
    ("long", "float"),
    ("long", "double"),
    ("float", "double"),
    ("string", "bytes"),
    ("bytes", "string"),
}


@pytest.mark.parametrize("writer", PRIMITIVES)
@pytest.mark.parametrize("reader", PRIMITIVES)
def test_a_primitive_is_read_as_itself_or_as_a_wider_one(reader: str, writer: str) -> None:
    readable = reader == writer or (writer, reader) in PROMOTED
    assert (mismatch(reader, writer) is None) is readable
    assert (mismatch([array("int"), reader], writer) is None) is readable


@pytest.mark.parametrize(
    ("reader", "writer"),
    [
        (record("A", entry("f", "int", default=1)), record("A")),
        (record("A"), record("A", entry("f", "int"))),
        (record("A", entry("f", "long")), record("A", entry("f", "int"))),
        (record("A", entry("f", "int")), record("B", entry("f", "int"))),
        (record("A", entry("f", ["null", "int"], default=None)), record("A")),
        (record("A", entry("f", ["null", "int"], default=5)), record("A")),
        (record("A", entry("f", ["null", "string"])), record("A", entry("f", "string"))),
        (record("A", entry("g", "int", aliases=["f"])), record("A", entry("f", "int"))),
        (
            record("B", entry("g", "int", aliases=["f"]), aliases=["A"]),
            record("A", entry("f", "int")),
        ),
        (
            record("A", entry("f", "int", aliases=["g"]), entry("g", "string", aliases=["f"])),
            record("A", entry("f", "int"), entry("g", "string")),
        ),
        (
            [record("A", entry("f", "int"), aliases=["B"]), record("B", entry("f", "null"))],
            [record("A", entry("f", "int"), aliases=["B"]), record("B", entry("f", "null"))],
        ),
        (["null", "string", "int"], ["null", "string"]),
        (["string", "null"], ["null", "string"]),
        ("string", ["string"]),
        ([record("A", entry("f", "int"))], record("B", entry("f", "int"))),
        (array("long"), array("int")),
        (mapping(["null", "long"]), mapping("int")),
        (enum("E", "a", "b"), enum("E", "a")),
        (enum("E", "a"), enum("E", "a", "b")),
        (enum("E", "a"), enum("other.E", "a")),
        (enum("F", "a", aliases=["E"]), enum("E", "a")),
        (["null", enum("E", "a")], ["null", enum("other.E", "a")]),
        (fixed("F", 2), fixed("other.F", 2)),
        (TREE, TREE),
        (WIDER_TREE, TREE),
        (record("A", entry("f", fixed("F", 2), default="x")), record("A")),
        (
            record("A", entry("f", record("B", entry("g", "int", default=1)), default={})),
            record("A"),
        ),
        (record("A", entry("f", mapping("int"), default={})), record("A")),
        (record("A", entry("f", mapping("int"), default=None)), record("A")),
        (record("A", entry("f", array("int"), default=None)), record("A")),
        (record("A", entry("f", "double", default="NaN")), record("A")),
        (
            record("A", entry("f", {"type": "int", "logicalType": "date"})),
            record("A", entry("f", "int")),
        ),
    ],
)
def test_what_avro_can_resolve_is_readable(reader: Any, writer: Any) -> None:
    assert mismatch(reader, writer) is None


@pytest.mark.parametrize(
    ("reader", "writer", "reason"),
    [
        (
            record("A", entry("f", "int")),
            record("A"),
            "f: the field has no default and was not written",
        ),
        (
            record("A", entry("f", "int")),
            record("A", entry("f", "long")),
            "f: long cannot be read as int",
        ),
        (
            record("A", entry("g", "int", aliases=["f"])),
            record("B", entry("f", "int")),
            "g: the field has no default and was not written",
        ),
        (
            record("A", entry("f", "string", default=None)),
            record("A"),
            "f: the field's default is not of its type",
        ),
        (
            record("A", entry("f", array("int"), default=["x"])),
            record("A"),
            "f: the field's default is not of its type",
        ),
        (
            record("A", entry("f", mapping("int"), default={"x": "y"})),
            record("A"),
            "f: the field's default is not of its type",
        ),
        (
            record("A", entry("f", record("B", entry("g", "int")), default={})),
            record("A"),
            "f: the field's default is not of its type",
        ),
        (
            record("A", entry("f", enum("E", "a"), default="b")),
            record("A"),
            "f: the field's default is not of its type",
        ),
        (
            record("A", entry("f", "boolean", default=1)),
            record("A"),
            "f: the field's default is not of its type",
        ),
        (["null", "string"], ["null", "string", "int"], "int is none of the union's types"),
        ("string", ["null", "string"], "null cannot be read as string"),
        (["null", record("A", entry("f", "int"))], record("B"), "B is none of the union's types"),
        (
            ["null", record("A", entry("f", "int"))],
            record("A", entry("f", "string")),
            "f: string cannot be read as int",
        ),
        (array("int"), array("string"), "[]: string cannot be read as int"),
        (mapping("int"), mapping("string"), "{}: string cannot be read as int"),
        (array("int"), mapping("int"), "a map cannot be read as an array"),
        ("int", ["int", array("int")], "an array cannot be read as int"),
        (enum("E", "a"), enum("F", "a"), "F cannot be read as E"),
        (fixed("F", 2), fixed("F", 3), "fixed F changed its size"),
        (fixed("F", 2), record("F"), "F cannot be read as F"),
        (["int", array("int")], mapping("int"), "a map is none of the union's types"),
        (TREE, WIDER_TREE, "value: long cannot be read as int"),
        (
            record("A", entry("f", record("B", entry("g", array("int"))))),
            record("A", entry("f", record("B", entry("g", array("null"))))),
            "f.g[]: null cannot be read as int",
        ),
    ],
)
def test_what_avro_cannot_resolve_is_named_with_its_place(
    reader: Any, writer: Any, reason: str
) -> None:
    assert mismatch(reader, writer) == reason


def test_types_used_again_and_again_are_compared_once() -> None:
    """Sixty levels of two fields each would be 2**60 comparisons."""

    def tower(leaf: str) -> dict[str, Any]:
        inner: Any = record("L0", entry("a", leaf))
        for level in range(1, 60):
            inner = record(f"L{level}", entry("a", inner), entry("b", f"L{level - 1}"))
        return inner  # type: ignore[no-any-return]

    assert mismatch(tower("long"), tower("int")) is None
    assert mismatch(tower("int"), tower("long")) is not None


@pytest.mark.parametrize(
    "schema",
    [
        "int",
        {"type": "string"},
        [],
        record("a.b.C"),
        record("C", namespace="a.b"),
        record("A$Inner", entry("_f", "int")),
        record("Größe", entry("straße", "int")),
        record("n.A", entry("f", enum("E", "x")), entry("g", "E"), entry("h", "n.E")),
        record("A", entry("f", enum("E", "x")), entry("g", enum("E", "x"))),
        record("A", entry("later", "B"), entry("now", record("B"))),
        record("A", entry("f", "int", order="IGNORE")),
        record("A", entry("f", "int", default="not an int")),
        {"type": "error", "name": "E", "fields": []},
        {"type": "bytes", "logicalType": "decimal", "precision": 4},
    ],
)
def test_avro_schemas_are_read(schema: Any) -> None:
    assert parse_avro(text(schema)) == parse_avro(text(schema))


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ("integer", "integer is not defined"),
        ({"type": "object", "properties": {}}, "object is not defined"),
        ({}, "a type has no name of a type"),
        ({"type": {"type": "int"}}, "a type has no name of a type"),
        (5, "5 is no type"),
        (None, "null is no type"),
        ({"type": "record", "fields": []}, "a record has no name"),
        ({"type": "record", "name": "A"}, "record A has no list of fields"),
        (record(5), "5 is no name"),  # type: ignore[arg-type]
        (record("A-B"), "'A-B' is no name"),
        (record("1A"), "'1A' is no name"),
        (record("a."), '"" is no name'),
        (record("int"), "int is the name of a primitive type"),
        (record("A", entry("f", "int"), entry("f", "int")), "record A has two fields f"),
        (record("A", entry("f g", "int")), "'f g' is no name"),
        (record("A", {"name": "f"}), "A.f has no type"),
        (record("A", {"type": "int"}), "a field of A has no name"),
        (record("A", "f"), "a field of A is not an object"),
        (record("A", entry("f", "int", order="sideways")), "A.f has an unknown order"),
        (record("A", entry("f", "B")), "B is not defined"),
        (record("A", entry("f", record("A"))), "A is defined twice"),
        (record("A", entry("f", enum("E", "a")), entry("g", enum("E", "b"))), "E is defined twice"),
        (["int", "int"], "int is twice in a union"),
        ([array("int"), array("string")], "array is twice in a union"),
        (["int", ["null"]], "a union stands directly inside a union"),
        (array(None), "null is no type"),
        ({"type": "array"}, "an array has no items"),
        ({"type": "map"}, "a map has no values"),
        ({"type": "fixed", "name": "F"}, "fixed F has no size"),
        (fixed("F", -1), "fixed F has no size"),
        (fixed("F", True), "fixed F has no size"),
        ({"type": "enum", "name": "E"}, "enum E has no list of symbols"),
        (enum("E", "a", "a"), "enum E has a symbol twice"),
        (enum("E", "a b"), "'a b' is no name"),
        (enum("E", "a", default="b"), "the default of enum E is none of its symbols"),
        (enum("E", "a", aliases=True), "the aliases of E are not a list"),
        (record("A", aliases="B"), "the aliases of A are not a list"),
        (record("A", entry("f", "int", aliases=5)), "the aliases of f are not a list"),
    ],
)
def test_what_is_no_avro_schema_is_refused_with_a_reason(schema: Any, reason: str) -> None:
    with pytest.raises(AvroUnreadable) as refusal:
        parse_avro(text(schema))
    assert str(refusal.value) == reason


def test_depth_is_bounded() -> None:
    deep: Any = "int"
    for _ in range(150):
        deep = array(deep)
    with pytest.raises(AvroUnreadable, match="inside each other"):
        parse_avro(text(deep))
    with pytest.raises(AvroUnreadable):
        parse_avro(b"[" * 100_000)


def test_documentation_and_aliases_do_not_make_another_schema() -> None:
    plain = record("n.A", entry("f", enum("n.E", "x")))
    told = record(
        "A",
        entry("f", enum("E", "x", doc="d", aliases=["Z"]), doc="d", aliases=["g"]),
        namespace="n",
        doc="d",
        aliases=["B"],
    )
    assert parse_avro(text(plain)) == parse_avro(text(told))


@pytest.mark.parametrize(
    "other",
    [
        record("B", entry("f", "int", default=1)),
        record("A", entry("f", "int", default=2)),
        record("A", entry("f", "int")),
        record("A", entry("f", {"type": "int", "logicalType": "date"}, default=1)),
        record("A", entry("f", "int", default=1, order="ignore")),
        record("A", entry("f", "int", default=1), color="red"),
    ],
)
def test_everything_else_makes_another_schema(other: Any) -> None:
    assert parse_avro(text(other)) != parse_avro(text(record("A", entry("f", "int", default=1))))


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from([*PRIMITIVES, "A", "x.B", ""]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.fixed_dictionaries(
            {"type": st.sampled_from(["record", "enum", "fixed", "array", "map"]) | inner},
            optional={
                "name": inner,
                "fields": inner,
                "symbols": inner,
                "items": inner,
                "values": inner,
                "size": inner,
                "aliases": inner,
                "default": inner,
                "namespace": inner,
            },
        )
    ),
    max_leaves=12,
)


@given(JSON_VALUES)
@settings(max_examples=300)
def test_any_json_is_read_or_refused_and_reads_what_it_wrote(document: Any) -> None:
    try:
        schema = parse_avro(text(document))
    except AvroUnreadable:
        return
    assert find_mismatch(schema, schema, StepBudget(0)) is None


@given(st.binary())
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(AvroUnreadable):
        parse_avro(data)

"""What a comparison of Avro schemas costs, whatever a client makes them look like."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.errors import InvalidSchema
from magnetar.model.schema import (
    CompatibilityStrategy,
    SchemaData,
    SchemaType,
    StoredSchema,
    parse_key_value,
)
from magnetar.rules.avro import (
    AvroSchema,
    AvroUnreadable,
    Node,
    Primitive,
    RecordType,
    Reference,
    Union,
    parse_avro,
)
from magnetar.rules.budget import StepBudget
from magnetar.rules.resolution import find_mismatch
from magnetar.rules.schema import find_incompatibility, find_same, validate_schema

FULL = CompatibilityStrategy.FULL


def record(name: str, *fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def entry(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def avro(document: Any) -> SchemaData:
    return SchemaData(SchemaType.AVRO, json.dumps(document).encode())


def bomb(depth: int) -> tuple[SchemaData, SchemaData]:
    """A reader with two ways at every level, and a writer that fits none of them in the end."""
    writer: Any = record("W0", entry("a", "string"))
    reader: Any = [record(f"{side}0", entry("a", "int")) for side in "AB"]
    for level in range(1, depth):
        writer = record(f"W{level}", entry("a", writer))
        reader = [
            record(f"A{level}", entry("a", reader)),
            record(f"B{level}", entry("a", [f"A{level - 1}", f"B{level - 1}"])),
        ]
    return avro(record("Root", entry("r", writer))), avro(record("Root", entry("r", reader)))


def steps_of(reader: SchemaData, writer: SchemaData) -> int:
    budget = StepBudget(10_000_000)
    find_mismatch(parse_avro(reader.definition), parse_avro(writer.definition), budget)
    return budget.spent


@pytest.mark.parametrize("depth", [10, 30, 45])
def test_a_mismatch_below_many_ways_is_found_once_for_each_pair(depth: int) -> None:
    writer, reader = bomb(depth)
    assert steps_of(reader, writer) < 30 * depth
    assert find_incompatibility([writer], reader, FULL) is not None


def chooser(depth: int, *, root_leaf: str) -> Any:
    """Records that lead back to the root at every level: every success leans on the root."""
    inner: Any = record("L0", entry("back", ["null", "Root"]))
    for level in range(1, depth):
        inner = record(f"L{level}", entry("a", inner), entry("b", f"L{level - 1}"))
    return avro(record("Root", entry("r", inner), entry("leaf", root_leaf)))


def test_what_leans_on_a_pair_that_fails_later_costs_no_more() -> None:
    steps = [
        steps_of(chooser(depth, root_leaf="int"), chooser(depth, root_leaf="long"))
        for depth in (20, 40, 80)
    ]
    assert steps[2] <= 5 * steps[0]


@pytest.mark.parametrize("make", ["fields", "aliases", "union"])
def test_steps_grow_with_the_size_of_a_schema(make: str) -> None:
    def pair(size: int) -> tuple[SchemaData, SchemaData]:
        match make:
            case "fields":
                fields = [entry(f"f{i}", "int", default=0) for i in range(size)]
                return avro(record("R", *fields)), avro(record("R", *reversed(fields)))
            case "aliases":
                old = [entry(f"f{i}", "int") for i in range(size)]
                new = [entry(f"g{i}", "int", aliases=[f"f{i}"]) for i in range(size)]
                return avro(record("R", *new)), avro(record("R", *old))
            case _:
                kinds = [record(f"K{i}") for i in range(size)]
                one = record("R", entry("u", kinds))
                other = record("R", entry("u", list(reversed(kinds))))
                return avro(one), avro(other)

    steps = [steps_of(*pair(size)) for size in (250, 500, 1000)]
    assert steps[1] <= 2.2 * steps[0]
    assert steps[2] <= 2.2 * steps[1]


def test_a_large_union_is_read() -> None:
    """Comparing every name with every other would be more than 10**9 comparisons."""
    names = [f"K{i}" for i in range(40_000)]
    kinds = [record(name) for name in names[:10]]
    with pytest.raises(AvroUnreadable, match="is not defined"):
        parse_avro(json.dumps([*kinds, *names[10:]]).encode())
    with pytest.raises(AvroUnreadable, match="K7 is twice in a union"):
        parse_avro(json.dumps([*names, "K7"]).encode())


def test_a_check_that_takes_too_many_steps_is_refused_with_a_sentence() -> None:
    # Every record of one side is tried with every one of the other: no order could save that.
    old = avro(record("R", entry("u", [record(f"W{i}", entry("w", "int")) for i in range(300)])))
    new = avro(record("R", entry("u", [record(f"N{i}", entry("n", "int")) for i in range(300)])))
    found = find_incompatibility([old], new, FULL, steps_max=200)
    assert found is not None
    assert "takes more than 200 steps" in found


def test_a_default_with_many_ways_to_fail_ends_with_the_budget() -> None:
    value: Any = {"x": "not an int"}
    for _ in range(40):
        value = {"x": value}
    kinds = [record(f"K{side}", entry("x", ["int", "KA", "KB"])) for side in "AB"]
    old = avro(record("R", entry("k", kinds)))
    new = avro(record("R", entry("k", kinds), entry("d", ["KA", "KB"], default=value)))
    found = find_incompatibility([old], new, FULL, steps_max=10_000)
    assert found is not None
    assert "takes more than 10000 steps" in found


@pytest.mark.parametrize("levels", [99, 2_000])
def test_records_that_refer_to_each_other_may_be_a_hundred_levels_deep(levels: int) -> None:
    def chain(leaf: str) -> SchemaData:
        kinds = [record(f"C{i}", entry("next", f"C{i + 1}")) for i in range(levels - 1)]
        last = record(f"C{levels - 1}", entry("leaf", leaf))
        return avro(record("R", entry("c", [*kinds, last])))

    found = find_incompatibility([chain("int")], chain("long"), CompatibilityStrategy.BACKWARD)
    if levels == 99:
        assert found is None
    else:
        assert found == "types refer to each other through too many levels to be compared"


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({**record("A"), "namespace": "n" * 1024}, "longer than 1024"),
        (record("A", entry("f" * 1025, "int")), "longer than 1024"),
        ("x" * 5_000, "longer than 1024"),
        (["y" * 1_000, "y" * 1_000], "y…"),
        ({"type": "enum", "name": "E", "symbols": ["-" * 1_000]}, "-…"),
    ],
)
def test_long_names_are_refused_in_few_words(document: Any, reason: str) -> None:
    with pytest.raises(AvroUnreadable, match=reason) as caught:
        parse_avro(json.dumps(document).encode())
    assert len(str(caught.value).encode()) < 310


def test_a_refusal_can_be_sent_whatever_the_name() -> None:
    for document in ("\ud800", ["\ud800", "\ud800"]):
        schemas = [SchemaData(SchemaType.AVRO, json.dumps([document]).encode())]
        schemas.append(avro(record("R", entry("f", document))))
        for schema in schemas:
            with pytest.raises(InvalidSchema) as caught:
                validate_schema(schema)
            assert caught.value.sentence.encode()
    kinds = [{**record("A", entry("f", kind)), "namespace": "\ud800"} for kind in ("int", "string")]
    one, other = (avro(record("R", entry("f" * 900, kind))) for kind in kinds)
    reason = find_incompatibility([one], other, FULL)
    assert reason is not None
    assert len(reason.encode()) < 400


NESTED = b"[" * 100_000


@pytest.mark.parametrize(
    ("kind", "definition"),
    [
        (SchemaType.AVRO, NESTED),
        (SchemaType.JSON, NESTED),
        (SchemaType.PROTOBUF_NATIVE, NESTED),
        (SchemaType.JSON, b'{"type":{}}'),
        (
            SchemaType.AVRO,
            json.dumps(record("A", entry("f", "int"))).encode().replace(
                b'"int"', b'"int","default":' + b"[" * 985 + b"]" * 985
            ),
        ),
    ],
)  # fmt: skip
def test_definitions_nested_deeply_are_refused(kind: SchemaType, definition: bytes) -> None:
    schema = SchemaData(kind, definition)
    for legacy_json in (False, True):
        with pytest.raises(InvalidSchema):
            validate_schema(schema, legacy_json=legacy_json)


def test_a_key_value_definition_nested_deeply_is_refused() -> None:
    with pytest.raises(InvalidSchema, match="is a JSON object with key and value"):
        parse_key_value(NESTED.decode())
    properties = {"key.schema.type": "AVRO", "key.schema.properties": NESTED.decode()}
    schema = SchemaData(SchemaType.KEY_VALUE, bytes(8), properties)
    with pytest.raises(InvalidSchema, match="is not a JSON object"):
        validate_schema(schema)


def test_a_definition_of_any_size_is_compared_by_its_meaning() -> None:
    """Large ones are not kept parsed."""
    plain = avro(record("R", *(entry(f"f{i}", "int") for i in range(2_000))))
    told = avro({**record("R", *(entry(f"f{i}", "int") for i in range(2_000))), "doc": "told"})
    assert len(plain.definition) > 16 << 10
    assert find_same([StoredSchema(3, plain)], told) == 3
    assert find_same([StoredSchema(3, plain)], told, steps_max=10) is None


# ---------------------------------------------------------------------- the law

NAMES = ("A", "B", "C")
KINDS = st.one_of(
    st.sampled_from(("int", "long", "string", *NAMES)),
    st.lists(st.sampled_from(("null", "int", *NAMES)), min_size=1, max_size=3, unique=True),
)
RECORDS = st.lists(
    st.lists(st.tuples(st.sampled_from("xyz"), KINDS), max_size=3, unique_by=lambda each: each[0]),
    min_size=len(NAMES),
    max_size=len(NAMES),
)


def schema_of(prefix: str, records: list[list[tuple[str, Any]]]) -> AvroSchema:
    def named(kind: Any) -> Any:
        if isinstance(kind, list):
            return [named(each) for each in kind]
        return prefix + kind if kind in NAMES else kind

    kinds = [
        record(prefix + name, *(entry(field, named(kind)) for field, kind in fields))
        for name, fields in zip(NAMES, records, strict=True)
    ]
    root = record("Root", entry("r", kinds[0]), entry("s", kinds[1:]))
    return parse_avro(json.dumps(root).encode())


def readable_pairs(reader: AvroSchema, writer: AvroSchema) -> Mapping[tuple[str, str], bool]:
    """By definition: the largest set of pairs in which every pair holds if the others do."""
    pairs = {
        (one, other): True
        for one, kind in reader.named.items()
        for other, written in writer.named.items()
        if isinstance(kind, RecordType) and isinstance(written, RecordType)
    }

    def fits(one: Node, other: Node) -> bool:
        if isinstance(other, Union):
            return all(fits(one, branch) for branch in other.branches)
        if isinstance(one, Union):
            same = [branch for branch in one.branches if branch == other]
            return fits(same[0], other) if same else any(fits(b, other) for b in one.branches)
        if isinstance(one, Reference) and isinstance(other, Reference):
            return pairs[one.name, other.name]
        if isinstance(one, Primitive) and isinstance(other, Primitive):
            return one.name == other.name or (other.name, one.name) == ("int", "long")
        return False

    def holds(one: str, other: str) -> bool:
        written = {each.name: each.type for each in writer.named[other].fields}  # type: ignore[union-attr]
        return all(
            each.name in written and fits(each.type, written[each.name])
            for each in reader.named[one].fields  # type: ignore[union-attr]
        )

    while wrong := [pair for pair, held in pairs.items() if held and not holds(*pair)]:
        pairs.update(dict.fromkeys(wrong, False))
    return pairs


@given(RECORDS, RECORDS)
def test_recursive_types_are_readable_exactly_when_the_definition_says_so(
    one: list[list[tuple[str, Any]]], other: list[list[tuple[str, Any]]]
) -> None:
    reader, writer = schema_of("R", one), schema_of("W", other)
    found = find_mismatch(reader, writer, StepBudget(100_000))
    assert (found is None) is readable_pairs(reader, writer)["Root", "Root"]

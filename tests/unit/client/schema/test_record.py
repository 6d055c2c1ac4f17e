"""Records as JSON and as Avro: dataclasses, pydantic models, plain Avro text."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import fastavro
import pytest

from magnetar.client.error import SchemaError
from magnetar.client.schema import Schema
from magnetar.model.schema import SchemaData, SchemaType
from magnetar.rules.schema import validate_schema
from tests.unit.client.schema.sample import ORDER, Address, Colour, Customer, Line, Order, Tree

FORMS = pytest.mark.parametrize("make", [Schema.json, Schema.avro], ids=["json", "avro"])
Make = Callable[[Any], Schema[Any]]


@FORMS
def test_a_dataclass_comes_back_as_it_went(make: Make) -> None:
    schema = make(Order)
    assert schema.decode(schema.encode(ORDER)) == ORDER


@FORMS
def test_a_pydantic_model_comes_back_under_its_aliases(make: Make) -> None:
    schema = make(Customer)
    customer = Customer(name="Ada", address=Address(street="Main", zip="12345"), age=3)
    assert schema.decode(schema.encode(customer)) == customer
    assert b'"zip"' in schema.data.definition and b"zip_code" not in schema.data.definition


@FORMS
def test_a_type_may_contain_itself(make: Make) -> None:
    schema = make(Tree)
    tree = Tree(1, [Tree(2, []), Tree(3, [Tree(4, [])])])
    assert schema.decode(schema.encode(tree)) == tree


@FORMS
@pytest.mark.parametrize("kind", [Order, Customer, Tree], ids=lambda kind: kind.__name__)
def test_the_definition_is_one_that_brokers_take(make: Make, kind: type[Any]) -> None:
    schema = make(kind)
    validate_schema(schema.data)
    fastavro.parse_schema(json.loads(schema.data.definition))


def test_the_definition_says_what_is_optional_and_what_has_a_default() -> None:
    @dataclass
    class Sample:
        required: str
        optional: int | None
        filled: str | None = "x"
        coloured: Colour = Colour.BLUE

    fields = json.loads(Schema.avro(Sample).data.definition)["fields"]
    assert fields[0] == {"name": "required", "type": "string"}
    assert fields[1] == {"name": "optional", "type": ["null", "long"], "default": None}
    assert fields[2] == {"name": "filled", "type": ["string", "null"], "default": "x"}
    assert fields[3]["default"] == "BLUE"


def test_avro_reads_what_an_older_schema_wrote() -> None:
    old = Schema.avro(
        {"type": "record", "name": "Line", "fields": [{"name": "product", "type": "string"}]}
    )
    assert Schema.avro(Line).decode(old.encode({"product": "tea"}), writer=old.data) == Line("tea")


def test_avro_reads_what_a_newer_schema_wrote() -> None:
    fields = [{"name": name, "type": "string"} for name in ("maker", "product")]
    new = Schema.avro({"type": "record", "name": "Line", "fields": fields})
    data = new.encode({"maker": "x", "product": "tea"})
    assert Schema.avro(Line).decode(data, writer=new.data) == Line("tea")


def test_json_reads_records_with_fields_more_and_fields_less() -> None:
    assert Schema.json(Line).decode(b'{"product": "tea", "maker": "x"}') == Line("tea", 1)


def test_json_without_a_required_field_is_refused() -> None:
    with pytest.raises(SchemaError, match=r"Line\.product is missing"):
        Schema.json(Line).decode(b'{"count": 1}')


def test_plain_avro_text_takes_and_gives_mappings() -> None:
    text = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}'
    for schema in (Schema.avro(text), Schema.json(text)):
        assert schema.decode(schema.encode({"a": 1})) == {"a": 1}
        assert schema.data.definition == text.encode()


@FORMS
def test_a_wrong_value_is_refused_with_the_place_it_stands(make: Make) -> None:
    schema = make(Line)
    with pytest.raises(SchemaError, match="takes Line, not str"):
        schema.encode("tea")
    with pytest.raises(SchemaError, match=r"Line\.product: The schema takes str, not int"):
        schema.encode(Line(3))  # type: ignore[arg-type]
    with pytest.raises(SchemaError, match=r"Line\.count: 2147483648 does not fit Avro's int"):
        schema.encode(Line("tea", 2**31))


@FORMS
def test_bytes_that_are_something_else_are_refused(make: Make) -> None:
    with pytest.raises(SchemaError):
        make(Order).decode(b"\x05")


def test_a_model_refuses_received_values_it_does_not_allow() -> None:
    with pytest.raises(SchemaError, match="Customer refuses"):
        Schema.json(Customer).decode(b'{"name": "Ada", "age": -1}')


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (int, "neither a dataclass nor a pydantic model"),
        ("not json", "not JSON"),
        (7, "give a dataclass"),
    ],
)
def test_what_is_no_record_is_refused_at_once(kind: Any, sentence: str) -> None:
    with pytest.raises(SchemaError, match=sentence):
        Schema.json(kind)


def test_a_field_type_without_a_schema_is_refused_by_name() -> None:
    @dataclass
    class Bad:
        both: int | str
        other: object

    with pytest.raises(SchemaError, match=r"Bad\.both: int \| str: of unions only X \| None"):
        Schema.avro(Bad)


def test_avro_refuses_data_of_another_schema_type() -> None:
    with pytest.raises(SchemaError, match=r"type JSON, not AVRO; Schema.auto\(\)"):
        Schema.avro(Line).decode(b"{}", writer=SchemaData(SchemaType.JSON, b"{}"))


def test_a_time_without_a_zone_is_refused() -> None:
    from dataclasses import replace

    naive = replace(ORDER, placed_at=ORDER.placed_at.replace(tzinfo=None))
    for schema in (Schema.json(Order), Schema.avro(Order)):
        with pytest.raises(SchemaError, match=r"Order\.placed_at: .* has no time zone"):
            schema.encode(naive)

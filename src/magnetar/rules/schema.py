"""Whether a schema is well formed, whether two are the same, and whether a new one may follow."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from magnetar.errors import InvalidSchema
from magnetar.model.limit import Limits
from magnetar.model.schema import (
    CompatibilityStrategy,
    SchemaData,
    SchemaType,
    StoredSchema,
    decode_key_value,
)
from magnetar.rules.avro import AvroSchema, AvroUnreadable, Union, parse_avro
from magnetar.rules.budget import StepBudget, StepsExhausted
from magnetar.rules.protobuf import ProtobufUnreadable, parse_root_message
from magnetar.rules.resolution import TypesTooDeep, find_mismatch

SCHEMA_STEPS_MAX: Final = Limits().schema_check_steps
_BYTES_PER_STEP: Final = 100
"""What of a definition is parsed in about the time of a step."""

_AVRO_FORMS: Final = frozenset({SchemaType.AVRO, SchemaType.JSON, SchemaType.PROTOBUF})
_CLIENT_ONLY: Final = frozenset({SchemaType.AUTO, SchemaType.AUTO_CONSUME, SchemaType.AUTO_PUBLISH})
_FREE: Final = frozenset({SchemaType.NONE, SchemaType.BYTES, SchemaType.EXTERNAL})
_JSON_TYPES: Final = frozenset(
    {"any", "array", "boolean", "integer", "null", "number", "object", "string"}
)
_READS_NEW: Final = frozenset(
    {
        CompatibilityStrategy.BACKWARD,
        CompatibilityStrategy.BACKWARD_TRANSITIVE,
        CompatibilityStrategy.FULL,
        CompatibilityStrategy.FULL_TRANSITIVE,
    }
)
_READS_OLD: Final = frozenset(
    {
        CompatibilityStrategy.FORWARD,
        CompatibilityStrategy.FORWARD_TRANSITIVE,
        CompatibilityStrategy.FULL,
        CompatibilityStrategy.FULL_TRANSITIVE,
    }
)


def validate_schema(schema: SchemaData, *, legacy_json: bool = False) -> None:
    """Raise InvalidSchema for a definition that is not of its type.

    With `legacy_json`, a JSON schema may be in the form clients wrote before they took up Avro's.
    """
    if schema.type in _FREE:
        return
    if schema.type in _CLIENT_ONLY:
        raise InvalidSchema(f"{schema.type.name} is a type of clients, not of topics")
    if schema.type in _AVRO_FORMS:
        _validate_avro(schema, legacy_json=legacy_json)
    elif schema.type is SchemaType.PROTOBUF_NATIVE:
        try:
            parse_root_message(schema.definition)
        except ProtobufUnreadable as error:
            raise InvalidSchema(f"invalid PROTOBUF_NATIVE definition: {error}") from None
    elif schema.type is SchemaType.KEY_VALUE:
        for part in decode_key_value(schema):
            validate_schema(part, legacy_json=legacy_json)
    elif schema.definition and not _is_text_null(schema):
        raise InvalidSchema(
            f"{schema.type.name} has no definition, but {len(schema.definition)} bytes came"
        )


def _is_text_null(schema: SchemaData) -> bool:
    """The Python client sends the word null with STRING schemas."""
    return schema.type is SchemaType.STRING and schema.definition == b"null"


def _validate_avro(schema: SchemaData, *, legacy_json: bool) -> None:
    try:
        parsed = parse_avro(schema.definition)
    except AvroUnreadable as error:
        if legacy_json and schema.type is SchemaType.JSON and _is_json_schema(schema.definition):
            return
        raise InvalidSchema(f"invalid {schema.type.name} definition: {error}") from None
    if schema.type is SchemaType.AVRO and isinstance(parsed.root, Union):
        raise InvalidSchema("invalid AVRO definition: the root is a union")


def _is_json_schema(definition: bytes) -> bool:
    try:
        document = json.loads(definition)
    except (ValueError, RecursionError):
        return False
    if not isinstance(document, dict):
        return False
    kind = document.get("type", "any")
    return isinstance(kind, list) or (isinstance(kind, str) and kind in _JSON_TYPES)


def find_same(
    history: Sequence[StoredSchema], schema: SchemaData, *, steps_max: int = SCHEMA_STEPS_MAX
) -> int | None:
    """The first version that is the same schema.

    When reading the definitions takes too many steps, those not read yet count as others.
    """
    for stored in history:
        if stored.schema.is_same(schema):
            return stored.version
    if schema.type not in _AVRO_FORMS:
        return None
    budget = StepBudget(steps_max)
    try:
        meaning = _parse_avro(schema, budget)
        for stored in history:
            if stored.schema.type is schema.type and _means(stored.schema, meaning, budget):
                return stored.version
    except (AvroUnreadable, StepsExhausted):
        pass
    return None


def _means(schema: SchemaData, meaning: AvroSchema, budget: StepBudget) -> bool:
    try:
        return _parse_avro(schema, budget) == meaning
    except AvroUnreadable:
        return False


def _parse_avro(schema: SchemaData, budget: StepBudget) -> AvroSchema:
    budget.spend(1 + len(schema.definition) // _BYTES_PER_STEP)
    return parse_avro(schema.definition)


def find_incompatibility(
    history: Sequence[SchemaData],
    new: SchemaData,
    strategy: CompatibilityStrategy,
    *,
    legacy_json: bool = False,
    steps_max: int = SCHEMA_STEPS_MAX,
) -> str | None:
    """Why `new` may not follow `history` (oldest first), or None when it may.

    A strategy looks at the latest version; a transitive one at all of them.
    """
    if strategy is CompatibilityStrategy.UNDEFINED:
        strategy = CompatibilityStrategy.FULL
    if not history or strategy is CompatibilityStrategy.ALWAYS_COMPATIBLE:
        return None
    check = _Check(strategy, legacy_json, StepBudget(steps_max))
    try:
        for existing in history if strategy.is_transitive else history[-1:]:
            found = check.find(existing, new)
            if found is not None:
                return found
    except StepsExhausted:
        return (
            f"the comparison takes more than {steps_max} steps (maxSchemaCheckSteps);"
            " use fewer record types in unions"
        )
    except (TypesTooDeep, RecursionError):
        return "types refer to each other through too many levels to be compared"
    return None


def find_consumer_incompatibility(
    history: Sequence[SchemaData],
    schema: SchemaData,
    strategy: CompatibilityStrategy,
    *,
    legacy_json: bool = False,
    steps_max: int = SCHEMA_STEPS_MAX,
) -> str | None:
    """Why a consumer with `schema` may not attach, or None when it may.

    A consumer only reads, so whatever looks at the latest version alone asks for BACKWARD; so
    does FORWARD_TRANSITIVE, which says nothing about a reader of old messages.
    """
    match strategy:
        case (
            CompatibilityStrategy.BACKWARD
            | CompatibilityStrategy.FORWARD
            | CompatibilityStrategy.FORWARD_TRANSITIVE
            | CompatibilityStrategy.FULL
            | CompatibilityStrategy.UNDEFINED
        ):
            asked = CompatibilityStrategy.BACKWARD
        case _:
            asked = strategy
    return find_incompatibility(
        history, schema, asked, legacy_json=legacy_json, steps_max=steps_max
    )


@dataclass(frozen=True, slots=True)
class _Check:
    strategy: CompatibilityStrategy
    legacy_json: bool
    budget: StepBudget

    def find(self, existing: SchemaData, new: SchemaData) -> str | None:
        if existing.stored_type is not new.stored_type:
            return f"the topic has a schema of type {existing.type.name}, not {new.type.name}"
        if existing.is_same(new):
            return None
        if self.strategy is CompatibilityStrategy.ALWAYS_INCOMPATIBLE:
            return "the strategy ALWAYS_INCOMPATIBLE allows no other schema"
        match new.type:
            case SchemaType.AVRO | SchemaType.PROTOBUF:
                return self._find_in_avro(existing, new)
            case SchemaType.JSON:
                return self._find_in_json(existing, new)
            case SchemaType.PROTOBUF_NATIVE:
                return self._find_in_protobuf(existing, new)
            case SchemaType.KEY_VALUE:
                return self._find_in_key_value(existing, new)
            case _:
                return None

    def _find_in_avro(self, existing: SchemaData, new: SchemaData) -> str | None:
        try:
            old_form, new_form = (_parse_avro(each, self.budget) for each in (existing, new))
        except AvroUnreadable as error:
            return f"a definition cannot be read: {error}"
        name = self.strategy.value
        if self.strategy in _READS_NEW:
            found = find_mismatch(new_form, old_form, self.budget)
            if found is not None:
                return f"{name}: the new schema cannot read the old one's messages: {found}"
        if self.strategy in _READS_OLD:
            found = find_mismatch(old_form, new_form, self.budget)
            if found is not None:
                return f"{name}: the old schema cannot read the new one's messages: {found}"
        return None

    def _find_in_json(self, existing: SchemaData, new: SchemaData) -> str | None:
        """Definitions in the old form are let through: they say too little to compare."""
        if not self.legacy_json or (self._is_avro(existing) and self._is_avro(new)):
            return self._find_in_avro(existing, new)
        if not self._is_avro(existing) and not _is_json_schema(existing.definition):
            return None
        if self._is_avro(new):
            return None
        if not _is_json_schema(new.definition):
            return "the new definition is neither in Avro's form nor a JSON schema"
        if self._is_avro(existing):
            return None
        if json.loads(existing.definition).get("id") != json.loads(new.definition).get("id"):
            return "two JSON schemas in the old form have different ids"
        return None

    def _is_avro(self, schema: SchemaData) -> bool:
        try:
            _parse_avro(schema, self.budget)
        except AvroUnreadable:
            return False
        return True

    def _find_in_protobuf(self, existing: SchemaData, new: SchemaData) -> str | None:
        """Fields may change as protobuf lets them; another root message may not be."""
        try:
            old_root, new_root = (self._parse_root(each) for each in (existing, new))
        except ProtobufUnreadable as error:
            return f"a definition cannot be read: {error}"
        if old_root == new_root:
            return None
        return f"{self.strategy.value}: the root message is {old_root}, not {new_root}"

    def _parse_root(self, schema: SchemaData) -> str:
        self.budget.spend(1 + len(schema.definition) // _BYTES_PER_STEP)
        return parse_root_message(schema.definition)

    def _find_in_key_value(self, existing: SchemaData, new: SchemaData) -> str | None:
        try:
            pairs = zip(
                ("key", "value"), decode_key_value(existing), decode_key_value(new), strict=True
            )
        except InvalidSchema as error:
            return error.sentence
        for name, old_part, new_part in pairs:
            found = self.find(old_part, new_part)
            if found is not None:
                return f"{name}: {found}"
        return None

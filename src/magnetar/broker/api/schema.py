"""Schemas of topics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from magnetar.errors import IncompatibleSchema, InvalidSchema, SchemaNotFound
from magnetar.model.name import TopicName
from magnetar.model.schema import (
    CompatibilityStrategy,
    SchemaData,
    SchemaType,
    StoredSchema,
    format_key_value,
    parse_key_value,
    parse_schema_type,
)
from magnetar.rules.caution import check_policies_known

if TYPE_CHECKING:
    from magnetar.broker.service import Service


class SchemaPayload(Struct, frozen=True, kw_only=True):
    """A schema as REST writes it: the definition as text."""

    type: str
    schema: str = ""
    properties: dict[str, str] | None = None

    def read(self, now_ms: int) -> SchemaData:
        kind = parse_schema_type(self.type)
        if not kind.is_stored and kind is not SchemaType.NONE:
            raise InvalidSchema(f"a schema of type {self.type} cannot be stored")
        definition = self.schema.encode()
        if kind is SchemaType.KEY_VALUE:
            definition = parse_key_value(self.schema)
        return SchemaData(kind, definition, self.properties or {}, timestamp_ms=now_ms)


class SchemaApi:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._schemas = service.schemas

    async def get(self, topic: TopicName, version: int | None = None) -> Mapping[str, Any]:
        found = (
            await self._schemas.get_latest(topic)
            if version is None
            else await self._schemas.get(topic, version)
        )
        if found is None:
            raise SchemaNotFound("Schema not found")
        return _describe(found)

    async def list(self, topic: TopicName) -> Mapping[str, Any]:
        found = await self._schemas.get_all(topic)
        return {"getSchemaResponses": [_describe(each) for each in found]}

    async def metadata(self, topic: TopicName) -> Mapping[str, Any]:
        ledgers = await self._schemas.ledgers_of(topic)
        if not ledgers:
            raise SchemaNotFound("Schema not found")
        entries = [
            {"ledgerId": ledger, "entryId": 0, "version": index}
            for index, ledger in enumerate(ledgers)
        ]
        return {"info": entries[-1], "index": entries}

    async def add(self, topic: TopicName, payload: SchemaPayload) -> Mapping[str, Any]:
        schema = payload.read(self._service.clock.now_ms())
        strategy = await self._strategy(topic, is_written=True)
        version = await self._schemas.put_if_absent(topic, schema, strategy)
        return {"version": {"version": version}}

    async def delete(self, topic: TopicName, *, force: bool) -> Mapping[str, Any]:
        return {"version": await self._schemas.delete(topic, force=force)}

    async def check(self, topic: TopicName, payload: SchemaPayload) -> Mapping[str, Any]:
        strategy = await self._strategy(topic)
        is_compatible = True
        try:
            schema = payload.read(self._service.clock.now_ms())
            await self._schemas.check_compatibility(topic, schema, strategy)
        except IncompatibleSchema:
            is_compatible = False
        return {"compatibility": is_compatible, "schemaCompatibilityStrategy": strategy.value}

    async def find_version(self, topic: TopicName, payload: SchemaPayload) -> Mapping[str, Any]:
        schema = payload.read(self._service.clock.now_ms())
        version = await self._schemas.find_version(topic, schema)
        return {"version": -1 if version is None else version}

    async def _strategy(
        self, topic: TopicName, *, is_written: bool = False
    ) -> CompatibilityStrategy:
        policy = await self._service.policies.find_effective(topic.base)
        if is_written:
            check_policies_known(policy, topic)
        return policy.schema_compatibility


def _describe(found: StoredSchema) -> Mapping[str, Any]:
    schema = found.schema
    is_pair = schema.type is SchemaType.KEY_VALUE
    text = format_key_value(schema) if is_pair else schema.definition.decode(errors="replace")
    return {
        "version": found.version,
        "type": schema.type.name,
        "timestamp": schema.timestamp_ms,
        "data": text,
        "properties": dict(schema.properties),
    }

"""Schemas of topics."""

from __future__ import annotations

from magnetar.broker.administration.registry import carries_out
from magnetar.broker.policy import PolicyService
from magnetar.broker.schema import SchemaRegistry
from magnetar.errors import IncompatibleSchema, SchemaNotFound
from magnetar.model.answer.schema import (
    SchemaAnswer,
    SchemaAnswers,
    SchemaCompatibility,
    SchemaLedger,
    SchemaMetadata,
    SchemaVersion,
    StoredSchemaVersion,
)
from magnetar.model.name import TopicName
from magnetar.model.schema import (
    CompatibilityStrategy,
    SchemaPayload,
    SchemaType,
    StoredSchema,
    format_key_value,
)
from magnetar.rules.caution import check_policies_known
from magnetar.runtime.clock import Clock


@carries_out("schemas.get")
async def get_schema(
    schemas: SchemaRegistry, topic: TopicName, version: int | None = None
) -> SchemaAnswer:
    """The latest, unless a version is named."""
    if version is None:
        return _describe(await schemas.get_latest(topic))
    return _describe(await schemas.get(topic, version))


@carries_out("schemas.get_all")
async def get_all(schemas: SchemaRegistry, topic: TopicName) -> SchemaAnswers:
    found = await schemas.get_all(topic)
    return {"getSchemaResponses": [_describe(each) for each in found]}


@carries_out("schemas.metadata")
async def get_metadata(schemas: SchemaRegistry, topic: TopicName) -> SchemaMetadata:
    ledgers = await schemas.storage.ledgers_of(topic)
    if not ledgers:
        raise SchemaNotFound("Schema not found")
    entries: list[SchemaLedger] = [
        {"ledgerId": ledger, "entryId": 0, "version": index} for index, ledger in enumerate(ledgers)
    ]
    return {"info": entries[-1], "index": entries}


@carries_out("schemas.upload")
async def add_schema(
    policies: PolicyService,
    schemas: SchemaRegistry,
    clock: Clock,
    topic: TopicName,
    payload: SchemaPayload,
) -> StoredSchemaVersion:
    schema = payload.read(clock.now_ms())
    strategy = await _strategy(policies, topic, is_written=True)
    version = await schemas.put_if_absent(topic, schema, strategy)
    return {"version": {"version": version}}


@carries_out("schemas.delete")
async def delete_schema(schemas: SchemaRegistry, topic: TopicName, force: bool) -> SchemaVersion:
    return {"version": await schemas.delete(topic, force=force)}


@carries_out("schemas.check")
async def check_schema(
    policies: PolicyService,
    schemas: SchemaRegistry,
    clock: Clock,
    topic: TopicName,
    payload: SchemaPayload,
) -> SchemaCompatibility:
    strategy = await _strategy(policies, topic)
    is_compatible = True
    try:
        schema = payload.read(clock.now_ms())
        await schemas.check_compatibility(topic, schema, strategy)
    except IncompatibleSchema:
        is_compatible = False
    return {"compatibility": is_compatible, "schemaCompatibilityStrategy": strategy.value}


@carries_out("schemas.find_version")
async def find_version(
    schemas: SchemaRegistry, clock: Clock, topic: TopicName, payload: SchemaPayload
) -> SchemaVersion:
    schema = payload.read(clock.now_ms())
    version = await schemas.find_version(topic, schema)
    return {"version": -1 if version is None else version}


async def _strategy(
    policies: PolicyService, topic: TopicName, *, is_written: bool = False
) -> CompatibilityStrategy:
    policy = await policies.in_force.find(topic.base)
    if is_written:
        check_policies_known(policy, topic)
    return policy.schema_compatibility


def _describe(found: StoredSchema | None) -> SchemaAnswer:
    if found is None:
        raise SchemaNotFound("Schema not found")
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

"""Schemas as clients bring and fetch them."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass

from magnetar.broker.catalog import AnyTopic, TopicCatalog
from magnetar.broker.connection import Connection
from magnetar.broker.handler.permission import CommandPermissions
from magnetar.broker.persistent import PersistentTopic
from magnetar.broker.schema import SchemaRegistry, schema_id
from magnetar.errors import (
    IncompatibleSchema,
    InvalidSchema,
    SchemaNotFound,
    TopicNotFound,
)
from magnetar.model.name import parse_topic
from magnetar.model.schema import SchemaType, decode_version, encode_version
from magnetar.rules.caution import check_policies_known
from magnetar.wire.command import (
    BaseCommand,
    CommandGetOrCreateSchema,
    CommandGetOrCreateSchemaResponse,
    CommandGetSchema,
    CommandGetSchemaResponse,
    CommandSubscribe,
    make_command,
)
from magnetar.wire.schema import decode_schema, encode_schema


async def check_consumer_schema(
    registry: SchemaRegistry, topic: AnyTopic, request: CommandSubscribe
) -> None:
    """A topic in use must fit the consumer; one that is idle and empty takes the consumer's schema
    for its own.
    """
    if not request.HasField("schema"):
        return
    schema = decode_schema(request.schema)
    if schema.type is SchemaType.AUTO_CONSUME:
        return
    policy = topic.policy
    has_schema = await registry.get_latest(topic.name) is not None
    has_data = isinstance(topic, PersistentTopic) and topic.log.sequence.total_entries > 0
    if has_schema or has_data or topic.has_clients():
        await registry.check_consumer(topic.name, schema, policy.schema_compatibility)
    else:
        check_policies_known(policy, topic.name)
        await registry.put_if_absent(topic.name, schema, policy.schema_compatibility)


@dataclass(frozen=True)
class SchemaCommands:
    permissions: CommandPermissions
    schemas: SchemaRegistry
    catalog: TopicCatalog

    def on_get_schema(self, connection: Connection, command: BaseCommand) -> Awaitable[None]:
        return self._get_schema(connection, command.getSchema)

    async def _get_schema(self, connection: Connection, request: CommandGetSchema) -> None:
        topic = parse_topic(request.topic)
        await self.permissions.check(connection, BaseCommand.GET_SCHEMA, topic=topic)
        async with connection.answering():
            registry = self.schemas
            if request.HasField("schema_version"):
                if not request.schema_version:
                    raise IncompatibleSchema("Empty schema version")
                stored = await registry.get(topic, decode_version(request.schema_version))
            else:
                stored = await registry.get_latest(topic)
            if stored is None:
                raise SchemaNotFound(f"Topic {topic} has no such schema")
            response = CommandGetSchemaResponse(
                request_id=request.request_id,
                schema=encode_schema(stored.schema, schema_id(topic)),
                schema_version=encode_version(stored.version),
            )
            connection.send_command(make_command(response))

    def on_get_or_create_schema(
        self, connection: Connection, command: BaseCommand
    ) -> Awaitable[None]:
        return self._get_or_create_schema(connection, command.getOrCreateSchema)

    async def _get_or_create_schema(
        self, connection: Connection, request: CommandGetOrCreateSchema
    ) -> None:
        name = parse_topic(request.topic)
        await self.permissions.check(connection, BaseCommand.GET_OR_CREATE_SCHEMA, topic=name)
        topic = self.catalog.topics.get(name.full)
        if topic is None:
            raise TopicNotFound(f"Topic {request.topic} not found")
        schema = decode_schema(request.schema)
        if schema.type is SchemaType.AUTO_CONSUME:
            raise InvalidSchema("AUTO_CONSUME is not a schema that can be stored")
        check_policies_known(topic.policy, topic.name)
        version = None
        if schema.type is not SchemaType.NONE:  # which means bytes here
            version = await self.schemas.put_if_absent(
                topic.name,
                schema,
                topic.policy.schema_compatibility,
                allow_auto_update=topic.policy.allow_auto_update_schema,
            )
        response = CommandGetOrCreateSchemaResponse(
            request_id=request.request_id, schema_version=encode_version(version)
        )
        connection.send_command(make_command(response))

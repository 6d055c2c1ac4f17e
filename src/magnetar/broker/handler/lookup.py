"""Where a topic is served, and how many partitions it has."""

from __future__ import annotations

from collections.abc import Awaitable

from magnetar.broker.connection import Connection
from magnetar.broker.handler.permission import authorize
from magnetar.model.name import parse_topic
from magnetar.wire.command import (
    BaseCommand,
    CommandLookupTopic,
    CommandLookupTopicResponse,
    CommandPartitionedTopicMetadata,
    CommandPartitionedTopicMetadataResponse,
    make_command,
)


def on_lookup(connection: Connection, command: BaseCommand) -> Awaitable[None]:
    return _lookup(connection, command.lookupTopic)


async def _lookup(connection: Connection, request: CommandLookupTopic) -> None:
    name = parse_topic(request.topic)
    with connection.service.lookup_limit.counted():
        await authorize(connection, BaseCommand.LOOKUP, topic=name)
        owner = await connection.service.ownership.owner_of(name)
        if owner.is_self:  # the owner knows which clients a migration sent away
            await connection.service.scalable.guard.check_lookup(connection, name)
    address = owner.address_of(request.advertised_listener_name)
    kinds = CommandLookupTopicResponse
    response = CommandLookupTopicResponse(
        request_id=request.request_id,
        response=kinds.Connect if owner.is_self else kinds.Redirect,
        authoritative=True,
        proxy_through_service_url=False,
    )
    if address.url:
        response.brokerServiceUrl = address.url
    if address.url_tls:
        response.brokerServiceUrlTls = address.url_tls
    connection.send_command(make_command(response))


def on_partitioned_metadata(connection: Connection, command: BaseCommand) -> Awaitable[None]:
    return _partitioned_metadata(connection, command.partitionMetadata)


async def _partitioned_metadata(
    connection: Connection, request: CommandPartitionedTopicMetadata
) -> None:
    name = parse_topic(request.topic)
    with connection.service.lookup_limit.counted():
        await authorize(connection, BaseCommand.PARTITIONED_METADATA, topic=name)
        await connection.service.scalable.guard.check_partitions(connection, name)
        partitions = await connection.service.catalog.partitions_of(
            name, may_create=request.metadata_auto_creation_enabled
        )
    response = CommandPartitionedTopicMetadataResponse(
        request_id=request.request_id,
        response=CommandPartitionedTopicMetadataResponse.Success,
        partitions=partitions,
    )
    connection.send_command(make_command(response))

"""Where a topic is served, and how many partitions it has."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from magnetar.broker.catalog import TopicCatalog
from magnetar.broker.client_limit import RequestLimit
from magnetar.broker.connection import Connection
from magnetar.broker.handler.permission import CommandPermissions
from magnetar.broker.ownership import Ownership
from magnetar.model.name import TopicName, parse_topic
from magnetar.model.transaction import ASSIGN_TOPIC
from magnetar.wire.command import (
    BaseCommand,
    CommandLookupTopic,
    CommandLookupTopicResponse,
    CommandPartitionedTopicMetadata,
    CommandPartitionedTopicMetadataResponse,
    make_command,
)


@dataclass(frozen=True)
class LookupCommands:
    permissions: CommandPermissions
    limit: RequestLimit
    ownership: Ownership
    catalog: TopicCatalog
    check_lookup: Callable[[Connection, TopicName], Awaitable[None]]
    check_partitions: Callable[[Connection, TopicName], Awaitable[None]]
    """Both refuse names that belong to scalable topics to clients that cannot use these."""

    def on_lookup(self, connection: Connection, command: BaseCommand) -> Awaitable[None]:
        return self._lookup(connection, command.lookupTopic)

    async def _lookup(self, connection: Connection, request: CommandLookupTopic) -> None:
        name = parse_topic(request.topic)
        with self.limit.counted():
            if name.base != ASSIGN_TOPIC:  # where its owner is tells where a coordinator runs
                await self.permissions.check(connection, BaseCommand.LOOKUP, topic=name)
            found = await self.ownership.locate(name, is_authoritative=request.authoritative)
            if found.broker.is_self:  # the owner knows which clients a migration sent away
                await self.check_lookup(connection, name)
        address = found.broker.address_of(request.advertised_listener_name)
        kinds = CommandLookupTopicResponse
        response = CommandLookupTopicResponse(
            request_id=request.request_id,
            response=kinds.Redirect if found.is_redirect else kinds.Connect,
            authoritative=found.is_authoritative,
            proxy_through_service_url=False,
        )
        if address.url:
            response.brokerServiceUrl = address.url
        if address.url_tls:
            response.brokerServiceUrlTls = address.url_tls
        connection.send_command(make_command(response))

    def on_partitioned_metadata(
        self, connection: Connection, command: BaseCommand
    ) -> Awaitable[None]:
        return self._partitioned_metadata(connection, command.partitionMetadata)

    async def _partitioned_metadata(
        self, connection: Connection, request: CommandPartitionedTopicMetadata
    ) -> None:
        name = parse_topic(request.topic)
        with self.limit.counted():
            if name != ASSIGN_TOPIC:
                await self.permissions.check(
                    connection, BaseCommand.PARTITIONED_METADATA, topic=name
                )
            await self.check_partitions(connection, name)
            partitions = await self.catalog.partitions_of(
                name, may_create=request.metadata_auto_creation_enabled
            )
        response = CommandPartitionedTopicMetadataResponse(
            request_id=request.request_id,
            response=CommandPartitionedTopicMetadataResponse.Success,
            partitions=partitions,
        )
        connection.send_command(make_command(response))

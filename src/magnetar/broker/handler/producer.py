"""Producers come and go."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from magnetar.broker.catalog import AnyTopic
from magnetar.broker.connection import Connection
from magnetar.broker.handler.permission import CommandPermissions
from magnetar.broker.handler.topic import TopicSource
from magnetar.broker.persistent import PersistentTopic
from magnetar.broker.producer import AccessMode, Producer
from magnetar.broker.schema import SchemaRegistry
from magnetar.errors import IncompatibleSchema, NotAllowed, ServiceNotReady, TopicTerminated
from magnetar.model.name import TopicDomain, TopicName, parse_topic
from magnetar.model.position import EARLIEST, Position
from magnetar.model.schema import encode_version
from magnetar.model.subscription import check_subscription_name
from magnetar.rules.caution import check_policies_known
from magnetar.runtime.clock import Clock
from magnetar.runtime.rate import Rate
from magnetar.wire.command import (
    BaseCommand,
    CommandCloseProducer,
    CommandProducer,
    CommandProducerSuccess,
    make_command,
    signed64,
    success,
)
from magnetar.wire.schema import decode_schema
from magnetar.wire.stored import asks_last_stored


@dataclass(frozen=True)
class ProducerCommands:
    permissions: CommandPermissions
    topics: TopicSource
    schemas: SchemaRegistry
    clock: Clock
    check_name: Callable[[Connection, TopicName], Awaitable[None]]
    """Refuses names that belong to scalable topics."""
    adopt_subscription: Callable[[TopicName, str, Position], Awaitable[None]]
    """Gives a segment's subscription to its scalable topic."""
    next_name: Callable[[], str]

    def on_producer(self, connection: Connection, command: BaseCommand) -> Awaitable[None] | None:
        request = command.producer
        existing = connection.producers.get(request.producer_id)
        if existing is not None and existing.is_ready:
            _welcome(connection, request.request_id, existing)
            return None
        if existing is not None or connection.producers.is_coming(request.producer_id):
            refusal = ServiceNotReady("Producer is already present on the connection")
            connection.refuse(command, refusal)
            return None
        return self._create(connection, request, connection.producers.expect(request.producer_id))

    async def _create(
        self, connection: Connection, request: CommandProducer, creation: object
    ) -> None:
        producer: Producer | None = None
        try:
            name = parse_topic(request.topic)
            await self._authorize(connection, name, request)
            is_question = asks_last_stored(request)
            if not is_question:
                await self.check_name(connection, name)
            topic = await self.topics.attach_topic(name, may_create=not is_question)
            check_policies_known(topic.policy, name)
            await self._authorize(connection, name, request)  # loading may have taken long
            if is_question:
                await _tell_last_stored(connection, request, topic)
                return
            await self._add_initial_subscription(topic, request)
            schema_version = await self._check_schema(topic, request)
            producer = self._make_producer(connection, topic, request, schema_version)
            turn = await topic.add_producer(producer)
            try:
                await self._authorize(connection, name, request)
                if producer.closed:
                    raise ServiceNotReady("The producer was sent away while it attached")
            except BaseException:
                producer.detach()
                raise
            if not connection.producers.attach(producer, creation):
                producer.detach()
                return
            if turn is not None:
                _welcome(connection, request.request_id, producer, is_ready=False)
                await asyncio.wait([turn])
                if turn.cancelled():
                    return
                turn.result()
            _welcome(connection, request.request_id, producer)
        except BaseException:
            if producer is not None:
                connection.producers.discard(producer)
            raise
        finally:
            connection.producers.give_up(request.producer_id, creation)

    async def _authorize(
        self, connection: Connection, name: TopicName, request: CommandProducer
    ) -> None:
        """Asked before anything is read or made for the caller, and again after the last wait, just
        before the connection holds the producer: from there on a revocation finds it.
        """
        await self.permissions.check(connection, BaseCommand.PRODUCER, topic=name)
        subscription = request.initial_subscription_name
        if subscription:
            check_subscription_name(subscription)
            await self.permissions.check(
                connection, BaseCommand.SUBSCRIBE, topic=name, subscription=subscription
            )

    def _make_producer(
        self,
        connection: Connection,
        topic: AnyTopic,
        request: CommandProducer,
        schema_version: bytes,
    ) -> Producer:
        now = self.clock.monotonic()
        return Producer(
            topic=topic,
            connection=connection,
            id=request.producer_id,
            name=request.producer_name or self.next_name(),
            epoch=signed64(request.epoch),
            access_mode=AccessMode(request.producer_access_mode),
            user_provided_name=request.user_provided_producer_name,
            encrypted=request.encrypted,
            schema_version=schema_version,
            metadata={each.key: each.value for each in request.metadata},
            connected_since_ms=self.clock.now_ms(),
            rate=Rate(now),
            chunk_rate=Rate(now),
            topic_epoch=signed64(request.topic_epoch) if request.HasField("topic_epoch") else None,
        )

    async def _add_initial_subscription(self, topic: AnyTopic, request: CommandProducer) -> None:
        name = request.initial_subscription_name
        if not name or not isinstance(topic, PersistentTopic) or name in topic.subscriptions:
            return
        if not topic.policy.auto_subscription_creation:
            raise NotAllowed(
                f"The initial subscription {name} cannot be made:"
                f" automatic creation is off for {topic.name}"
            )
        await topic.subscriptions.create(name, position=EARLIEST)
        if topic.name.domain is TopicDomain.SEGMENT:
            await self.adopt_subscription(topic.name, name, EARLIEST)

    async def _check_schema(self, topic: AnyTopic, request: CommandProducer) -> bytes:
        schema = decode_schema(request.schema) if request.HasField("schema") else None
        registry = self.schemas
        if schema is None:
            if (
                topic.policy.schema_validation_enforced
                and await registry.get_latest(topic.name) is not None
            ):
                raise IncompatibleSchema(
                    "Producers cannot connect without a schema to topics with a schema"
                )
            return encode_version(None)
        version = await registry.put_if_absent(
            topic.name,
            schema,
            topic.policy.schema_compatibility,
            allow_auto_update=topic.policy.allow_auto_update_schema,
        )
        return encode_version(version)

    def on_close_producer(self, connection: Connection, command: BaseCommand) -> Awaitable[None]:
        request = command.close_producer
        return self._close(connection, request, connection.producers.pop(request.producer_id))

    async def _close(
        self, connection: Connection, request: CommandCloseProducer, producer: Producer | None
    ) -> None:
        """Everything the producer sent is answered before the goodbye."""
        if producer is not None:
            await producer.wait_idle()
            producer.detach()
        connection.send_command(success(request.request_id))


async def _tell_last_stored(
    connection: Connection, request: CommandProducer, topic: AnyTopic
) -> None:
    """The last sequence id of a producer; final, since the topic is sealed."""
    if not isinstance(topic, PersistentTopic):
        raise NotAllowed(f"{topic.name} stores nothing")
    await topic.termination.wait()
    if not topic.termination.is_over:
        raise ServiceNotReady(f"Topic {topic.name} is not sealed yet: more may be stored")
    topic.check_dedup_open()
    if topic.dedup is None:
        raise TopicTerminated(f"Topic {topic.name} was terminated")
    response = CommandProducerSuccess(
        request_id=request.request_id,
        producer_name=request.producer_name,
        last_sequence_id=topic.last_sequence(request.producer_name),
    )
    connection.send_command(make_command(response))


def _welcome(
    connection: Connection, request_id: int, producer: Producer, *, is_ready: bool = True
) -> None:
    response = CommandProducerSuccess(
        request_id=request_id,
        producer_name=producer.name,
        last_sequence_id=producer.topic.last_sequence(producer.name),
        schema_version=producer.schema_version,
        producer_ready=is_ready,
    )
    if producer.topic_epoch is not None:
        response.topic_epoch = producer.topic_epoch
    connection.send_command(make_command(response))

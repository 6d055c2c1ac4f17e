"""Consumers come and go, ask, acknowledge and move."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from magnetar.broker.catalog import AnyTopic
from magnetar.broker.connection import Connection
from magnetar.broker.consumer import Consumer
from magnetar.broker.consumer_group import ConsumerGroup
from magnetar.broker.handler.permission import CommandPermissions
from magnetar.broker.handler.schema import check_consumer_schema
from magnetar.broker.handler.topic import TopicSource
from magnetar.broker.lag import count_lag
from magnetar.broker.log_search import last_message_id, last_visible
from magnetar.broker.persistent import PersistentTopic
from magnetar.broker.schema import SchemaRegistry
from magnetar.broker.subscription import Subscription, make_ack_response
from magnetar.errors import (
    BadRequest,
    BrokerError,
    ConsumerNotFound,
    LedgerNotFound,
    NotAllowed,
    NotFound,
    ProtocolViolation,
    ResourceBusy,
    ServiceNotReady,
)
from magnetar.model.name import TopicName, parse_topic
from magnetar.model.position import EARLIEST, Position
from magnetar.model.subscription import SubscriptionType, check_subscription_name
from magnetar.rules.dispatch.member import Sharing
from magnetar.runtime.clock import Clock
from magnetar.wire.ackset import decode_ack_set
from magnetar.wire.command import (
    BaseCommand,
    CommandCloseConsumer,
    CommandConsumerStatsResponse,
    CommandGetLastMessageId,
    CommandGetLastMessageIdResponse,
    CommandSeek,
    CommandSubscribe,
    CommandUnsubscribe,
    KeySharedMode,
    make_command,
    message_id,
    position_of,
    signed64,
    success,
)


@dataclass(frozen=True)
class ConsumerCommands:
    permissions: CommandPermissions
    topics: TopicSource
    schemas: SchemaRegistry
    clock: Clock
    check_name: Callable[[Connection, TopicName, CommandSubscribe], Awaitable[None]]
    """Refuses names that belong to scalable topics to clients that cannot use these."""
    attach: Callable[[AnyTopic, Consumer, CommandSubscribe], Awaitable[None]]
    on_left: Callable[[Consumer], None]
    """Called when a client closes a consumer by its own wish."""
    leave_group: Callable[[Connection, int], Awaitable[None] | None]
    """Ends the registration of a consumer with a scalable topic, if there is one of that id."""

    # ------------------------------------------------------------------ subscribing

    def on_subscribe(self, connection: Connection, command: BaseCommand) -> Awaitable[None] | None:
        request = command.subscribe
        if connection.consumers.get(request.consumer_id) is not None:
            connection.send_command(success(request.request_id))
            return None
        if connection.consumers.is_coming(request.consumer_id):
            refusal = ServiceNotReady("Consumer is already present on the connection")
            connection.refuse(command, refusal)
            return None
        connection.consumers.away.pop(request.consumer_id)
        return self._subscribe(
            connection, request, connection.consumers.expect(request.consumer_id)
        )

    async def _subscribe(
        self, connection: Connection, request: CommandSubscribe, creation: object
    ) -> None:
        try:
            kind = SubscriptionType(request.subType)
            _check_request(request, kind)
            name = parse_topic(request.topic)
            await self._authorize(connection, name, request)
            await self.check_name(connection, name, request)
            topic = await self.topics.attach_topic(name, may_create=request.force_topic_creation)
            _check_policy(topic, kind)
            self._check_rate(connection, topic, request)
            await self._authorize(connection, name, request)  # loading may have taken long
            await check_consumer_schema(self.schemas, topic, request)
            consumer = self._make_consumer(connection, request, kind)
            await self.attach(topic, consumer, request)
            try:
                await self._authorize(connection, name, request)
                if consumer.closed:
                    raise ServiceNotReady("The consumer was sent away while it attached")
            except BaseException:
                consumer.detach()
                raise
            if not connection.consumers.attach(consumer, creation):
                consumer.detach()
                return
            consumer.on_writable(connection.writable)
            connection.send_command(success(request.request_id))
        finally:
            connection.consumers.give_up(request.consumer_id, creation)

    async def _authorize(
        self, connection: Connection, name: TopicName, request: CommandSubscribe
    ) -> None:
        """Asked before anything is read or made for the caller, and again after the last wait, just
        before the connection holds the consumer: from there on a revocation finds it.
        """
        subscription = request.subscription
        await self.permissions.check(
            connection, BaseCommand.SUBSCRIBE, topic=name, subscription=subscription
        )

    def _check_rate(
        self, connection: Connection, topic: AnyTopic, request: CommandSubscribe
    ) -> None:
        consumer = (connection.host, request.consumer_name, request.consumer_id)
        now = self.clock.monotonic()
        topic.admission.check(topic.policy.subscribe_rate, consumer, now=now)

    def _make_consumer(
        self, connection: Connection, request: CommandSubscribe, kind: SubscriptionType
    ) -> Consumer:
        meta, sharing = request.keySharedMeta, Sharing(kind)
        if kind is SubscriptionType.KEY_SHARED:
            is_sticky = meta.keySharedMode == KeySharedMode.STICKY
            sharing = Sharing(
                kind, is_sticky, meta.entryBucketDispatch, meta.allowOutOfOrderDelivery
            )
        return Consumer(
            connection,
            request.consumer_id,
            request.consumer_name,
            sharing,
            priority=request.priority_level,
            metadata={each.key: each.value for each in request.metadata},
            connected_since_ms=self.clock.now_ms(),
            now=self.clock.monotonic(),
            epoch=signed64(request.consumer_epoch) if request.HasField("consumer_epoch") else None,
            read_compacted=request.read_compacted,
            hash_ranges=[(each.start, each.end) for each in meta.hashRanges],
        )

    # ------------------------------------------------------------------ permits and acknowledgement

    def on_flow(self, connection: Connection, command: BaseCommand) -> None:
        flow = command.flow
        if flow.messagePermits == 0:
            raise ProtocolViolation("a FLOW of 0 permits")
        consumer = connection.consumers.get(flow.consumer_id)
        if consumer is not None:
            consumer.on_flow(flow.messagePermits, self.clock.now_ms())

    # ------------------------------------------------------------------ leaving

    def on_close_consumer(
        self, connection: Connection, command: BaseCommand
    ) -> Awaitable[None] | None:
        request = command.close_consumer
        consumer = connection.consumers.pop(request.consumer_id)
        leaving: Awaitable[None] | None = None
        if consumer is not None:
            self.on_left(consumer)
            consumer.detach()
        else:
            leaving = self.leave_group(connection, request.consumer_id)
        if leaving is not None:
            return _answer_when_removed(connection, request, leaving)
        connection.send_command(success(request.request_id))
        return None

    def on_unsubscribe(self, connection: Connection, command: BaseCommand) -> Awaitable[None]:
        return self._unsubscribe(connection, command.unsubscribe)

    async def _unsubscribe(self, connection: Connection, request: CommandUnsubscribe) -> None:
        consumer, subscription = await self._find(connection, request.consumer_id)
        if subscription.consumer_count > 1 and not request.force:
            raise ResourceBusy("Unconnected or shared consumer attempting to unsubscribe")
        connection.consumers.discard(consumer)
        connection.consumers.away.pop(request.consumer_id)
        consumer.detach()
        topic = subscription.topic
        if topic.subscriptions.get(subscription.name) is subscription:
            try:
                await topic.subscriptions.delete(subscription.name, force=request.force)
            except BrokerError:
                connection.recall_consumer(request.consumer_id)  # it is still wanted: come back
                raise
        connection.send_command(success(request.request_id))

    async def _find(
        self, connection: Connection, consumer_id: int
    ) -> tuple[Consumer, ConsumerGroup]:
        """A consumer that is attached, or that a seek disconnected: a client may ask for more
        before it has noticed. That one must still be allowed to subscribe again.
        """
        consumer = connection.consumers.get(consumer_id)
        if consumer is None:
            now = self.clock.monotonic()
            consumer = connection.consumers.away.find(consumer_id, now=now)
            if consumer is not None and consumer.subscription is not None:
                place = consumer.subscription
                name, topic = place.name, place.topic.name
                await self.permissions.check(
                    connection, BaseCommand.SUBSCRIBE, topic=topic, subscription=name
                )
        if consumer is None or not isinstance(consumer.subscription, ConsumerGroup):
            raise NotFound("Consumer not found")
        return consumer, consumer.subscription

    # ------------------------------------------------------------------ moving and asking

    def on_seek(self, connection: Connection, command: BaseCommand) -> Awaitable[None]:
        return self._seek(connection, command.seek)

    async def _seek(self, connection: Connection, request: CommandSeek) -> None:
        _, subscription = await self._find(connection, request.consumer_id)
        if not isinstance(subscription, Subscription):
            raise NotAllowed("Seek needs a persistent topic")
        if request.HasField("message_id"):
            position = position_of(request.message_id)
            if position.ledger_id < 0:
                position = EARLIEST
            words = request.message_id.ack_set
            await subscription.seek(position, remaining=decode_ack_set(words) if words else None)
        elif request.HasField("message_publish_time"):
            await subscription.reset_to_time(signed64(request.message_publish_time))
        else:
            raise BadRequest("Message id and message publish time were not present")
        connection.send_command(success(request.request_id))

    def on_get_last_message_id(
        self, connection: Connection, command: BaseCommand
    ) -> Awaitable[None]:
        return self._get_last_message_id(connection, command.getLastMessageId)

    async def _get_last_message_id(
        self, connection: Connection, request: CommandGetLastMessageId
    ) -> None:
        consumer, subscription = await self._find(connection, request.consumer_id)
        topic = subscription.topic
        if not isinstance(subscription, Subscription) or not isinstance(topic, PersistentTopic):
            raise NotAllowed("A non-persistent topic has no last message")
        last, batch_index = await _last_visible(topic, read_compacted=consumer.read_compacted)
        response = CommandGetLastMessageIdResponse(
            last_message_id=message_id(
                last, partition=topic.name.partition_index, batch_index=batch_index
            ),
            request_id=request.request_id,
        )
        mark = subscription.cursor.mark_delete
        if mark.ledger_id >= 0:
            response.consumer_mark_delete_position.CopyFrom(message_id(mark))
        connection.send_command(make_command(response))


def _check_request(request: CommandSubscribe, kind: SubscriptionType) -> None:
    check_subscription_name(request.subscription)
    if request.read_compacted and kind.is_individual:
        raise NotAllowed("readCompacted only allowed on failover or exclusive subscriptions")


def _check_policy(topic: AnyTopic, kind: SubscriptionType) -> None:
    allowed = topic.policy.subscription_types_enabled
    if allowed and kind.label not in allowed:
        raise NotAllowed(f"Topic[{topic.name}] doesn't support {kind.label} sub type!")


def on_ack(connection: Connection, command: BaseCommand) -> None:
    consumer = connection.consumers.get(command.ack.consumer_id)
    if consumer is not None and consumer.subscription is not None:
        consumer.subscription.on_ack(consumer, command.ack)
    elif command.ack.HasField("request_id"):
        # Its topic may have moved while this was on its way; the client waits for an answer.
        gone = ConsumerNotFound("Consumer not found")
        connection.send_command(
            make_ack_response(command.ack.consumer_id, command.ack.request_id, gone)
        )


def on_redeliver(connection: Connection, command: BaseCommand) -> None:
    request = command.redeliverUnacknowledgedMessages
    consumer = connection.consumers.get(request.consumer_id)
    if consumer is not None and consumer.subscription is not None:
        consumer.subscription.on_redeliver(consumer, request)


def on_consumer_stats(connection: Connection, command: BaseCommand) -> Awaitable[None] | None:
    request = command.consumerStats
    consumer = connection.consumers.get(request.consumer_id)
    if consumer is None:
        connection.refuse(command, ConsumerNotFound("Consumer not found"))
        return None
    since = datetime.fromtimestamp(consumer.connected_since_ms / 1000, UTC)
    response = CommandConsumerStatsResponse(
        request_id=request.request_id,
        msgRateOut=consumer.stats.rate.count_per_s,
        msgThroughputOut=consumer.stats.rate.bytes_per_s,
        msgRateRedeliver=consumer.stats.redeliver_rate.count_per_s,
        messageAckRate=consumer.stats.ack_rate.count_per_s,
        consumerName=consumer.name,
        availablePermits=max(0, consumer.member.permits),
        unackedMessages=consumer.member.unacked,
        blockedConsumerOnUnackedMsgs=consumer.member.blocked,
        address=connection.address,
        type=consumer.sharing.kind.label,
        connectedSince=since.isoformat(timespec="milliseconds"),
    )
    if isinstance(consumer.subscription, Subscription):
        response.msgRateExpired = consumer.subscription.expiry.rate.count_per_s
        response.msgBacklog = consumer.subscription.backlog
        if request.with_lag:
            return _send_with_lag(connection, response, consumer.subscription)
    connection.send_command(make_command(response))
    return None


async def _send_with_lag(
    connection: Connection, response: CommandConsumerStatsResponse, subscription: Subscription
) -> None:
    lag = await count_lag(subscription)
    response.lagMessages, response.isLagEstimated = lag.messages, not lag.is_exact
    connection.send_command(make_command(response))


async def _last_visible(topic: PersistentTopic, *, read_compacted: bool) -> tuple[Position, int]:
    """Where the last message stands that the consumer could receive: compaction may have taken the
    end away.
    """
    while True:
        view = topic.compactor.compacted
        last = last_visible(topic.log, topic.buffer)
        if not read_compacted or view is None or last > view.horizon:
            return await last_message_id(topic.log, topic.buffer)
        if not view.positions:
            return EARLIEST, -1
        try:
            return await view.last_message_id()
        except LedgerNotFound:
            if topic.compactor.compacted is view:
                raise


async def _answer_when_removed(
    connection: Connection, request: CommandCloseConsumer, leaving: Awaitable[None]
) -> None:
    """A consumer of a scalable topic: its segments go to the others at once."""
    await leaving
    connection.send_command(success(request.request_id))

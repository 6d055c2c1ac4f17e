"""Consumers come and go, ask, acknowledge and move."""

from __future__ import annotations

from collections.abc import Awaitable
from datetime import UTC, datetime

from magnetar.broker.catalog import AnyTopic
from magnetar.broker.connection import Connection
from magnetar.broker.consumer import Consumer
from magnetar.broker.handler.permission import authorize
from magnetar.broker.handler.schema import check_consumer_schema
from magnetar.broker.log_search import last_message_id
from magnetar.broker.persistent import PersistentTopic
from magnetar.broker.subscription import Subscription
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

# ---------------------------------------------------------------------- subscribing


def on_subscribe(connection: Connection, command: BaseCommand) -> Awaitable[None] | None:
    request = command.subscribe
    if request.consumer_id in connection.consumers:
        connection.send_command(success(request.request_id))
        return None
    if request.consumer_id in connection.consumers_coming:
        refusal = ServiceNotReady("Consumer is already present on the connection")
        connection.refuse(command, refusal)
        return None
    connection.consumers_away.pop(request.consumer_id)
    return _subscribe(connection, request, connection.expect_consumer(request.consumer_id))


async def _subscribe(connection: Connection, request: CommandSubscribe, creation: object) -> None:
    try:
        kind = SubscriptionType(request.subType)
        _check_request(request, kind)
        name = parse_topic(request.topic)
        await _authorize(connection, name, request)
        await connection.service.scalable.guard.check_consumer(connection, name, request)
        topic = await connection.service.attach_topic(name, may_create=request.force_topic_creation)
        _check_policy(topic, kind)
        _check_rate(connection, topic, request)
        await _authorize(connection, name, request)  # loading may have taken long
        await check_consumer_schema(connection.service.schemas, topic, request)
        consumer = _make_consumer(connection, request, kind)
        await connection.service.scalable.readers.attach(topic, consumer, request)
        try:
            await _authorize(connection, name, request)
            if consumer.closed:
                raise ServiceNotReady("The consumer was sent away while it attached")
        except BaseException:
            consumer.detach()
            raise
        if connection.consumers_coming.get(request.consumer_id) is not creation:
            consumer.detach()  # the client left or changed its mind meanwhile
            return
        connection.consumers[request.consumer_id] = consumer
        consumer.on_writable(connection.writable)
        connection.send_command(success(request.request_id))
    finally:
        if connection.consumers_coming.get(request.consumer_id) is creation:
            del connection.consumers_coming[request.consumer_id]


async def _authorize(connection: Connection, name: TopicName, request: CommandSubscribe) -> None:
    """Asked before anything is read or made for the caller, and again after the last wait, just
    before the connection holds the consumer: from there on a revocation finds it.
    """
    subscription = request.subscription
    await authorize(connection, BaseCommand.SUBSCRIBE, topic=name, subscription=subscription)


def _check_request(request: CommandSubscribe, kind: SubscriptionType) -> None:
    check_subscription_name(request.subscription)
    if request.read_compacted and kind.is_individual:
        raise NotAllowed("readCompacted only allowed on failover or exclusive subscriptions")


def _check_policy(topic: AnyTopic, kind: SubscriptionType) -> None:
    allowed = topic.policy.subscription_types_enabled
    if allowed and kind.label not in allowed:
        raise NotAllowed(f"Topic[{topic.name}] doesn't support {kind.label} sub type!")


def _check_rate(connection: Connection, topic: AnyTopic, request: CommandSubscribe) -> None:
    consumer = (connection.host, request.consumer_name, request.consumer_id)
    now = connection.service.clock.monotonic()
    topic.admission.check(topic.policy.subscribe_rate, consumer, now=now)


def _make_consumer(
    connection: Connection, request: CommandSubscribe, kind: SubscriptionType
) -> Consumer:
    clock = connection.service.clock
    meta, sharing = request.keySharedMeta, Sharing(kind)
    if kind is SubscriptionType.KEY_SHARED:
        is_sticky = meta.keySharedMode == KeySharedMode.STICKY
        sharing = Sharing(kind, is_sticky, meta.entryBucketDispatch, meta.allowOutOfOrderDelivery)
    return Consumer(
        connection,
        request.consumer_id,
        request.consumer_name,
        sharing,
        priority=request.priority_level,
        metadata={each.key: each.value for each in request.metadata},
        connected_since_ms=clock.now_ms(),
        now=clock.monotonic(),
        epoch=signed64(request.consumer_epoch) if request.HasField("consumer_epoch") else None,
        read_compacted=request.read_compacted,
        hash_ranges=[(each.start, each.end) for each in meta.hashRanges],
    )


# ---------------------------------------------------------------------- permits and acknowledgement


def on_flow(connection: Connection, command: BaseCommand) -> None:
    flow = command.flow
    if flow.messagePermits == 0:
        raise ProtocolViolation("a FLOW of 0 permits")
    consumer = connection.consumers.get(flow.consumer_id)
    if consumer is not None:
        consumer.on_flow(flow.messagePermits, connection.service.clock.now_ms())


def on_ack(connection: Connection, command: BaseCommand) -> None:
    consumer = connection.consumers.get(command.ack.consumer_id)
    if consumer is not None and consumer.subscription is not None:
        consumer.subscription.on_ack(consumer, command.ack)


def on_redeliver(connection: Connection, command: BaseCommand) -> None:
    request = command.redeliverUnacknowledgedMessages
    consumer = connection.consumers.get(request.consumer_id)
    if consumer is not None and consumer.subscription is not None:
        consumer.subscription.on_redeliver(consumer, request)


# ---------------------------------------------------------------------- leaving


def on_close_consumer(connection: Connection, command: BaseCommand) -> Awaitable[None] | None:
    request = command.close_consumer
    connection.consumers_coming.pop(request.consumer_id, None)
    connection.consumers_away.pop(request.consumer_id)
    consumer = connection.consumers.pop(request.consumer_id, None)
    if consumer is not None:
        connection.service.scalable.readers.on_closed(consumer)
        consumer.detach()
    elif request.consumer_id in connection.scalable.groups:
        return _leave_group(connection, request)
    connection.send_command(success(request.request_id))
    return None


async def _leave_group(connection: Connection, request: CommandCloseConsumer) -> None:
    """A consumer of a scalable topic: its segments go to the others at once."""
    await connection.scalable.leave(connection, request.consumer_id)
    connection.send_command(success(request.request_id))


def on_unsubscribe(connection: Connection, command: BaseCommand) -> Awaitable[None]:
    return _unsubscribe(connection, command.unsubscribe)


async def _unsubscribe(connection: Connection, request: CommandUnsubscribe) -> None:
    consumer, subscription = await _find(connection, request.consumer_id)
    if len(subscription.consumers) > 1 and not request.force:
        raise ResourceBusy("Unconnected or shared consumer attempting to unsubscribe")
    connection.consumers.pop(request.consumer_id, None)
    connection.consumers_away.pop(request.consumer_id)
    consumer.detach()
    topic = subscription.topic
    if topic.subscriptions.get(subscription.name) is subscription:
        try:
            await topic.subscriptions.delete(subscription.name, force=request.force)
        except BrokerError:
            connection.recall_consumer(request.consumer_id)  # it is still wanted: come back
            raise
    connection.send_command(success(request.request_id))


async def _find(connection: Connection, consumer_id: int) -> tuple[Consumer, Subscription]:
    """A consumer that is there, or about to come back from a seek: a client may well ask for more
    before it has noticed that it was sent away. That one must still be allowed to come back.
    """
    consumer = connection.consumers.get(consumer_id)
    if consumer is None:
        now = connection.service.clock.monotonic()
        consumer = connection.consumers_away.find(consumer_id, now=now)
        if consumer is not None and consumer.subscription is not None:
            place = consumer.subscription
            name, topic = place.name, place.topic.name
            await authorize(connection, BaseCommand.SUBSCRIBE, topic=topic, subscription=name)
    if consumer is None or consumer.subscription is None:
        raise NotFound("Consumer not found")
    return consumer, consumer.subscription  # type: ignore[return-value]


# ---------------------------------------------------------------------- moving and asking


def on_seek(connection: Connection, command: BaseCommand) -> Awaitable[None]:
    return _seek(connection, command.seek)


async def _seek(connection: Connection, request: CommandSeek) -> None:
    _, subscription = await _find(connection, request.consumer_id)
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


def on_get_last_message_id(connection: Connection, command: BaseCommand) -> Awaitable[None]:
    return _get_last_message_id(connection, command.getLastMessageId)


async def _get_last_message_id(connection: Connection, request: CommandGetLastMessageId) -> None:
    consumer, subscription = await _find(connection, request.consumer_id)
    topic = subscription.topic
    if not isinstance(topic, PersistentTopic):
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


async def _last_visible(topic: PersistentTopic, *, read_compacted: bool) -> tuple[Position, int]:
    """Where the last message stands that the consumer could receive: compaction may have taken the
    end away.
    """
    while True:
        view = topic.compactor.compacted
        if not read_compacted or view is None or topic.log.sequence.last_position > view.horizon:
            return await last_message_id(topic.log)
        if not view.positions:
            return EARLIEST, -1
        try:
            return await view.last_message_id()
        except LedgerNotFound:
            if topic.compactor.compacted is view:
                raise


def on_consumer_stats(connection: Connection, command: BaseCommand) -> None:
    request = command.consumerStats
    consumer = connection.consumers.get(request.consumer_id)
    if consumer is None:
        connection.refuse(command, ConsumerNotFound("Consumer not found"))
        return
    since = datetime.fromtimestamp(consumer.connected_since_ms / 1000, UTC)
    response = CommandConsumerStatsResponse(
        request_id=request.request_id,
        msgRateOut=consumer.rate.count_per_s,
        msgThroughputOut=consumer.rate.bytes_per_s,
        msgRateRedeliver=consumer.redeliver_rate.count_per_s,
        messageAckRate=consumer.ack_rate.count_per_s,
        consumerName=consumer.name,
        availablePermits=max(0, consumer.member.permits),
        unackedMessages=consumer.member.unacked,
        blockedConsumerOnUnackedMsgs=consumer.member.blocked,
        address=connection.address,
        type=consumer.sharing.kind.label,
        connectedSince=since.isoformat(timespec="milliseconds"),
    )
    if isinstance(consumer.subscription, Subscription):
        response.msgRateExpired = consumer.subscription.expire_rate.count_per_s
        response.msgBacklog = consumer.subscription.backlog
    connection.send_command(make_command(response))

"""Subscriptions of a topic, or of all partitions of one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from magnetar.broker.administration.registry import Document, carries_out
from magnetar.broker.administration.topic import (
    check_exists,
    check_namespace,
    check_not_partitioned,
    existing_parts,
    find_persistent,
    find_topic,
    for_each,
    not_allowed,
    parts_of,
)
from magnetar.broker.persistent import PersistentTopic
from magnetar.broker.scalable.guard import check_regular
from magnetar.broker.service import Service
from magnetar.broker.subscription import Subscription
from magnetar.errors import (
    BadRequest,
    BrokerError,
    Conflict,
    NotFound,
    PreconditionFailed,
    SubscriptionNotFound,
)
from magnetar.model.message_id import MessageId, parse_position
from magnetar.model.name import TopicName
from magnetar.model.position import EARLIEST, LATEST, Position
from magnetar.wire.entry import count_messages

_SCAN_ENTRIES: Final = 500
_SCAN_BYTES: Final = 4 * 1024 * 1024


@carries_out("subscriptions.list")
async def list_subscriptions(service: Service, topic: TopicName) -> Sequence[str]:
    names: dict[str, None] = {}
    for name in await _live_names(service, topic):
        names.update(dict.fromkeys((await find_topic(service, name)).subscriptions))
    return list(names)


@carries_out("subscriptions.create")
async def create_subscription(
    service: Service,
    topic: TopicName,
    subscription: str,
    start: MessageId | str | None,
    replicated: bool,
) -> None:
    """On every partition that lacks it; refused when all have it."""
    position = parse_position(start)
    if not topic.is_persistent:
        raise BadRequest(
            "Create subscription on non-persistent topic can only be done through client"
        )
    if not subscription.strip():
        raise PreconditionFailed("Subscription subscription is not valid")
    await check_regular(service, topic)
    names = await _names_to_subscribe(service, topic)
    existing = 0

    async def create_one(each: TopicName) -> None:
        nonlocal existing
        live = await service.load_topic(each, create=each.is_partition)
        assert isinstance(live, PersistentTopic)
        if subscription in live.subscriptions:
            existing += 1
            return
        await _create_on(live, subscription, position, replicated=replicated)

    await for_each(names, create_one)
    if existing == len(names):
        raise Conflict("Subscription already exists for topic")


async def _create_on(
    topic: PersistentTopic, name: str, start: MessageId, *, replicated: bool
) -> None:
    position = start.position
    is_end = position in (EARLIEST, LATEST)
    made = await topic.create_subscription(
        name,
        position=position if is_end else LATEST,
        properties=start.properties or {},
        replicated=replicated,
    )
    if not is_end:
        await _reset(made, start)


async def _reset(subscription: Subscription, to: MessageId) -> None:
    await subscription.reset_to_position(
        to.position, excluded=to.excluded, batch_index=to.batchIndex
    )


async def _names_to_subscribe(service: Service, topic: TopicName) -> Sequence[TopicName]:
    parts = await parts_of(service, topic)
    if parts != [topic] or await service.topic_exists(topic):
        return parts
    await check_namespace(service, topic.namespace)
    if topic.is_partition or not await service.may_create(topic):
        raise PreconditionFailed(f"Topic {topic} does not exist and may not be created")
    count = await service.partitions_of(topic, may_create=True)
    if count > 0:
        return [topic.partition(index) for index in range(count)]
    await service.load_topic(topic, create=True)
    return [topic]


@carries_out("subscriptions.delete")
async def delete_subscription(
    service: Service, topic: TopicName, subscription: str, force: bool
) -> None:
    """From every partition that has it."""
    await check_regular(service, topic)
    names = await _live_names(service, topic)
    found = False

    async def delete_one(each: TopicName) -> None:
        nonlocal found
        live = await find_topic(service, each)
        if subscription in live.subscriptions:
            found = True
            await live.delete_subscription(subscription, force=force)

    await for_each(names, delete_one)
    if not found:
        raise _missing(topic, subscription)


@carries_out("subscriptions.skip_all")
async def skip_all(service: Service, topic: TopicName, subscription: str) -> None:
    await _each(service, topic, subscription, "Skip all messages", lambda each: each.skip_all())


@carries_out("subscriptions.skip")
async def skip(service: Service, topic: TopicName, subscription: str, count: int) -> None:
    what = "Skip messages"
    await check_not_partitioned(service, topic, f"{what} on a partitioned topic is not allowed")
    if count < 0:
        raise PreconditionFailed(f"The number of messages to skip is not negative: {count}")
    await (await _find(service, topic, subscription, what)).skip(count)


@carries_out("subscriptions.reset_to_time")
async def reset_to_time(
    service: Service, topic: TopicName, subscription: str, timestamp_ms: int
) -> None:
    await _each(
        service, topic, subscription, "Reset-cursor", lambda each: each.reset_to_time(timestamp_ms)
    )


@carries_out("subscriptions.reset_to_id")
async def reset_to_id(
    service: Service, topic: TopicName, subscription: str, target: MessageId
) -> None:
    await check_not_partitioned(
        service, topic, "Reset-cursor at position is not allowed for partitioned-topic"
    )
    await _reset(await _find(service, topic, subscription, "Reset-cursor"), target)


@carries_out("subscriptions.expire")
async def expire(service: Service, topic: TopicName, subscription: str, seconds: int) -> None:
    check_age(seconds)
    await _each(service, topic, subscription, "Expire messages", lambda each: each.expire(seconds))


@carries_out("subscriptions.expire_to")
async def expire_to(
    service: Service, topic: TopicName, subscription: str, target: MessageId
) -> None:
    await check_not_partitioned(
        service, topic, "Expire message at position is not supported for partitioned-topic"
    )
    found = await _find(service, topic, subscription, "Expire messages")
    await found.expire_to(target.position, excluded=target.excluded)


@carries_out("subscriptions.expire_all")
async def expire_all(service: Service, topic: TopicName, seconds: int) -> None:
    check_age(seconds)
    what = "Expire messages"

    async def expire_one(name: TopicName) -> None:
        live = await find_persistent(service, name, what)
        for subscription in list(live.subscriptions.values()):
            await subscription.expire(seconds)

    if not topic.is_persistent:
        raise not_allowed(what)
    await for_each(await _live_names(service, topic), expire_one)


@carries_out("subscriptions.peek")
async def peek(
    service: Service, topic: TopicName, subscription: str, place: int
) -> tuple[Position, bytes]:
    what = "Peek messages"
    await check_not_partitioned(service, topic, f"{what} on a partitioned topic is not allowed")
    if place < 1:
        raise PreconditionFailed(f"Messages are counted from 1, not {place}")
    live = await find_persistent(service, topic, what)
    found = live.subscriptions.get(subscription)
    if found is not None:
        return await found.peek(place)
    # Tools peek before anybody subscribed: they see the topic from its start.
    if place > live.chain.total_entries:
        raise NotFound("Message not found")
    position = live.chain.position_after(live.chain.first_position, place - 1)
    return position, await live.read_entry(position)


@carries_out("subscriptions.properties")
async def get_properties(
    service: Service, topic: TopicName, subscription: str
) -> Mapping[str, str]:
    for each in await _live_names(service, topic):
        found = (await find_topic(service, each)).subscriptions.get(subscription)
        if found is not None:
            return found.properties
    raise _missing(topic, subscription)


@carries_out("subscriptions.set_properties")
async def set_properties(
    service: Service, topic: TopicName, subscription: str, properties: dict[str, str] | None
) -> None:
    await _each(
        service,
        topic,
        subscription,
        "Update properties",
        lambda each: each.set_properties(properties or {}),
    )


@carries_out("subscriptions.replicated_status")
async def replicated_status(
    service: Service, topic: TopicName, subscription: str
) -> Mapping[str, bool]:
    told: dict[str, bool] = {}

    async def tell(each: Subscription) -> None:
        told[each.topic.name.full] = each.replicated

    await _each(service, topic, subscription, "GetReplicatedSubscriptionStatus", tell)
    return told


@carries_out("subscriptions.analyze_backlog")
async def count_backlog(
    service: Service, topic: TopicName, subscription: str, *, entries_max: int | None = None
) -> Document:
    """Read the backlog, up to so many entries of it, and count; nothing filters here, so all of
    it is accepted.
    """
    what = "Analyze backlog"
    await check_not_partitioned(service, topic, f"{what} on a partitioned topic is not allowed")
    found = await _find(service, topic, subscription, what)
    cursor, chain = found.cursor, found.topic.chain
    entries = messages = 0
    position = cursor.first_unacked()
    aborted = False
    while not aborted and (run := await chain.read(position, _SCAN_ENTRIES, _SCAN_BYTES)):
        for index in cursor.unacked_in(run):
            aborted = entries == entries_max
            if aborted:
                break
            entries += 1
            messages += count_messages(run.data[index])
        position = chain.next_position(Position(run.ledger_id, run.last))
    return {
        "entries": entries,
        "messages": messages,
        "markerMessages": 0,
        "filterRejectedEntries": 0,
        "filterAcceptedEntries": entries,
        "filterRescheduledEntries": 0,
        "filterRejectedMessages": 0,
        "filterAcceptedMessages": messages,
        "filterRescheduledMessages": 0,
        "aborted": aborted,
    }


# Finding
async def _live_names(service: Service, topic: TopicName) -> Sequence[TopicName]:
    await check_exists(service, topic)
    return await existing_parts(service, topic)


async def _find(service: Service, topic: TopicName, name: str, what: str) -> Subscription:
    live = await find_persistent(service, topic, what)
    subscription = live.subscriptions.get(name)
    if subscription is None:
        raise _missing(topic, name)
    return subscription


async def _each(
    service: Service,
    topic: TopicName,
    name: str,
    what: str,
    act: Callable[[Subscription], Awaitable[object]],
) -> None:
    if not topic.is_persistent:
        raise not_allowed(what)

    async def act_on(each: TopicName) -> None:
        await act(await _find(service, each, name, what))

    await for_each(await _live_names(service, topic), act_on)


def _missing(topic: TopicName, name: str) -> BrokerError:
    return SubscriptionNotFound(f"Subscription {name} not found for topic {topic}")


def check_age(seconds: int) -> None:
    if seconds < 0:
        raise PreconditionFailed(f"An age in seconds is not negative: {seconds}")

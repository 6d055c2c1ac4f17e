"""Subscriptions of a topic, or of all partitions of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NewType, TypeAlias

from magnetar.broker import log_search
from magnetar.broker.administration.port import TopicOwners
from magnetar.broker.administration.registry import carries_out, finds
from magnetar.broker.administration.topic import (
    NOT_PARTITIONED,
    check_exists,
    check_namespace,
    check_stored,
    existing_parts,
    find_persistent,
    find_topic,
    parts_of,
    read_nth,
)
from magnetar.broker.catalog import AnyTopic
from magnetar.broker.persistent import PersistentTopic
from magnetar.broker.scalable.segment import together
from magnetar.broker.subscription import Subscription
from magnetar.errors import (
    BadRequest,
    BrokerError,
    Conflict,
    NotFound,
    PreconditionFailed,
    SubscriptionNotFound,
)
from magnetar.model.answer.log import BacklogAnalysis
from magnetar.model.message_id import MessageId, parse_position
from magnetar.model.name import TopicName
from magnetar.model.position import EARLIEST, LATEST, Position
from magnetar.wire.entry import count_messages

_SCAN_ENTRIES: Final = 500
_SCAN_BYTES: Final = 4 * 1024 * 1024

Age = NewType("Age", int)
"""Seconds."""
Live: TypeAlias = tuple[AnyTopic, ...]
"""The topic, or those of its partitions that exist."""
Everywhere: TypeAlias = tuple[Subscription, ...]
"""A subscription of each partition."""


# Finding
@finds(Age)
def check_age(seconds: int) -> Age:
    if seconds < 0:
        raise PreconditionFailed(f"An age in seconds is not negative: {seconds}")
    return Age(seconds)


@finds(Live)
async def find_live(owners: TopicOwners, topic: TopicName) -> Live:
    await check_exists(owners, topic)
    names = await existing_parts(owners, topic)
    return tuple(await together(find_topic(owners, name) for name in names))


@finds(Subscription)
async def find_subscription(
    owners: TopicOwners, topic: TopicName, subscription: str, what: str = "", partitioned: str = ""
) -> Subscription:
    live = await find_persistent(owners, topic, what, partitioned)
    if subscription not in live.subscriptions:
        raise _missing(topic, subscription)
    return live.subscriptions[subscription]


@finds(Everywhere)
async def find_everywhere(
    owners: TopicOwners, topic: TopicName, subscription: str, what: str
) -> Everywhere:
    check_stored(topic, what)
    await check_exists(owners, topic)
    names = await existing_parts(owners, topic)
    return tuple(await together(find_subscription(owners, each, subscription) for each in names))


def _missing(topic: TopicName, name: str) -> BrokerError:
    return SubscriptionNotFound(f"Subscription {name} not found for topic {topic}")


@carries_out("subscriptions.list")
async def list_subscriptions(live: Live) -> Sequence[str]:
    return list(dict.fromkeys(name for part in live for name in part.subscriptions))


# Making and removing
@carries_out("subscriptions.create")
async def create_subscription(
    owners: TopicOwners,
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
    await owners.scalable.migrations.check_regular(topic)

    async def create_one(each: TopicName) -> bool:
        live = await owners.catalog.load_topic(each, create=each.is_partition)
        assert isinstance(live, PersistentTopic)
        if subscription in live.subscriptions:
            return False
        await _create_on(live, subscription, position, replicated=replicated)
        return True

    if not any(await together(map(create_one, await _names_to_subscribe(owners, topic)))):
        raise Conflict("Subscription already exists for topic")


async def _create_on(
    topic: PersistentTopic, name: str, start: MessageId, *, replicated: bool
) -> None:
    position = start.position
    is_end = position in (EARLIEST, LATEST)
    made = await topic.subscriptions.create(
        name,
        position=position if is_end else LATEST,
        properties=start.properties or {},
        replicated=replicated,
    )
    if not is_end:
        await reset_to_id(made, start)


async def _names_to_subscribe(owners: TopicOwners, topic: TopicName) -> Sequence[TopicName]:
    parts = await parts_of(owners.resources, topic)
    if parts != [topic] or await owners.catalog.topic_exists(topic):
        return parts
    await check_namespace(owners.resources, topic.namespace)
    if topic.is_partition or not await owners.catalog.may_create(topic):
        raise PreconditionFailed(f"Topic {topic} does not exist and may not be created")
    if await owners.catalog.partitions_of(topic, may_create=True) == 0:
        await owners.catalog.load_topic(topic, create=True)
    return await parts_of(owners.resources, topic)


@carries_out("subscriptions.delete")
async def delete_subscription(
    owners: TopicOwners, topic: TopicName, subscription: str, force: bool
) -> None:
    """From every partition that has it."""
    await owners.scalable.migrations.check_regular(topic)
    parts = [each for each in await find_live(owners, topic) if subscription in each.subscriptions]
    await together(each.subscriptions.delete(subscription, force=force) for each in parts)
    if not parts:
        raise _missing(topic, subscription)


# Moving
@carries_out("subscriptions.skip_all", what="Skip all messages")
async def skip_all(everywhere: Everywhere) -> None:
    await together(each.skip_all() for each in everywhere)


@carries_out("subscriptions.skip")
async def skip(owners: TopicOwners, topic: TopicName, subscription: str, count: int) -> None:
    if count < 0:
        raise PreconditionFailed(f"The number of messages to skip is not negative: {count}")
    found = await find_subscription(owners, topic, subscription, "Skip messages", NOT_PARTITIONED)
    await found.skip(count)


@carries_out("subscriptions.reset_to_time", what="Reset-cursor")
async def reset_to_time(everywhere: Everywhere, timestamp_ms: int) -> None:
    await together(each.reset_to_time(timestamp_ms) for each in everywhere)


@carries_out(
    "subscriptions.reset_to_id",
    what="Reset-cursor",
    partitioned="{what} at position is not allowed for partitioned-topic",
)
async def reset_to_id(subscription: Subscription, target: MessageId) -> None:
    await subscription.reset_to_position(
        target.position, excluded=target.excluded, batch_index=target.batchIndex
    )


@carries_out("subscriptions.expire", what="Expire messages")
async def expire(seconds: Age, everywhere: Everywhere) -> None:
    await together(each.expiry.expire(seconds) for each in everywhere)


@carries_out(
    "subscriptions.expire_to",
    what="Expire messages",
    partitioned="Expire message at position is not supported for partitioned-topic",
)
async def expire_to(subscription: Subscription, target: MessageId) -> None:
    await subscription.expiry.expire_to(target.position, excluded=target.excluded)


@carries_out("subscriptions.expire_all")
async def expire_all(owners: TopicOwners, topic: TopicName, seconds: Age) -> None:
    check_stored(topic, "Expire messages")
    parts = await find_live(owners, topic)
    kept = [part for part in parts if isinstance(part, PersistentTopic)]
    await together(
        each.expiry.expire(seconds) for part in kept for each in part.subscriptions.values()
    )


# Looking
@carries_out("subscriptions.peek")
async def peek(
    owners: TopicOwners, topic: TopicName, subscription: str, place: int
) -> log_search.SeenEntry:
    if place < 1:
        raise PreconditionFailed(f"Messages are counted from 1, not {place}")
    live = await find_persistent(owners, topic, "Peek messages", NOT_PARTITIONED)
    found = live.subscriptions.get(subscription)
    if found is not None:
        position, data = await log_search.peek(live.log, found.cursor, place)
        return log_search.see_entry(live.buffer, position, data)
    # Tools peek before anybody subscribed: they see the topic from its start.
    if place > live.log.sequence.total_entries:
        raise NotFound("Message not found")
    return await read_nth(live, place)


@carries_out("subscriptions.properties")
async def get_properties(topic: TopicName, subscription: str, live: Live) -> Mapping[str, str]:
    for each in live:
        if subscription in each.subscriptions:
            return each.subscriptions[subscription].properties
    raise _missing(topic, subscription)


@carries_out("subscriptions.set_properties", what="Update properties")
async def set_properties(everywhere: Everywhere, properties: dict[str, str] | None) -> None:
    await together(each.set_properties(properties or {}) for each in everywhere)


@carries_out("subscriptions.replicated_status", what="GetReplicatedSubscriptionStatus")
async def replicated_status(everywhere: Everywhere) -> Mapping[str, bool]:
    return {each.topic.name.full: each.replicated for each in everywhere}


@carries_out("subscriptions.analyze_backlog", what="Analyze backlog", partitioned=NOT_PARTITIONED)
async def count_backlog(
    subscription: Subscription, *, entries_max: int | None = None
) -> BacklogAnalysis:
    """Read the backlog, up to so many entries of it, and count; nothing filters here, so all of
    it is accepted.
    """
    cursor, log = subscription.cursor, subscription.topic.log
    entries = messages = 0
    position = cursor.first_unacked()
    aborted = False
    while not aborted and (run := await log.reader.read(position, _SCAN_ENTRIES, _SCAN_BYTES)):
        for index in cursor.unacked_in(run):
            aborted = entries == entries_max
            if aborted:
                break
            entries += 1
            messages += count_messages(run.data[index])
        position = log.sequence.next_position(Position(run.ledger_id, run.last))
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

"""Subscriptions of a topic, or of all partitions of one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from magnetar.broker.administration.message_id import MessageId
from magnetar.broker.administration.topic import (
    check_exists,
    check_namespace,
    check_not_partitioned,
    find_persistent,
    find_topic,
    for_each,
    not_allowed,
    partitions_of,
)
from magnetar.broker.persistent import PersistentTopic
from magnetar.broker.scalable.guard import check_regular
from magnetar.broker.subscription import Subscription
from magnetar.errors import (
    BadRequest,
    BrokerError,
    Conflict,
    NotFound,
    PreconditionFailed,
    SubscriptionNotFound,
)
from magnetar.model.name import TopicName
from magnetar.model.position import EARLIEST, LATEST, Position
from magnetar.wire.entry import count_messages

if TYPE_CHECKING:
    from magnetar.broker.service import Service

_SCAN_ENTRIES: Final = 500
_SCAN_BYTES: Final = 4 * 1024 * 1024


class SubscriptionApi:
    def __init__(self, service: Service) -> None:
        self._service = service

    async def list(self, topic: TopicName) -> Sequence[str]:
        names: dict[str, None] = {}
        for name in await self._live_names(topic):
            names.update(dict.fromkeys((await find_topic(self._service, name)).subscriptions))
        return list(names)

    async def create(
        self, topic: TopicName, name: str, start: MessageId, *, replicated: bool
    ) -> None:
        """On every partition that lacks it; refused when all have it."""
        if not topic.is_persistent:
            raise BadRequest(
                "Create subscription on non-persistent topic can only be done through client"
            )
        if not name.strip():
            raise PreconditionFailed("Subscription name is not valid")
        await check_regular(self._service, topic)
        names = await self._names_to_subscribe(topic)
        existing = 0

        async def create_one(each: TopicName) -> None:
            nonlocal existing
            live = await self._service.load_topic(each, create=each.is_partition)
            assert isinstance(live, PersistentTopic)
            if name in live.subscriptions:
                existing += 1
                return
            await self._create_on(live, name, start, replicated=replicated)

        await for_each(names, create_one)
        if existing == len(names):
            raise Conflict("Subscription already exists for topic")

    async def _create_on(
        self, topic: PersistentTopic, name: str, start: MessageId, *, replicated: bool
    ) -> None:
        position = start.position
        properties = start.properties or {}
        if position in (EARLIEST, LATEST):
            await topic.create_subscription(
                name, position=position, properties=properties, replicated=replicated
            )
            return
        made = await topic.create_subscription(
            name, position=LATEST, properties=properties, replicated=replicated
        )
        await made.reset_to_position(
            position, excluded=start.excluded, batch_index=start.batchIndex
        )

    async def _names_to_subscribe(self, topic: TopicName) -> Sequence[TopicName]:
        metadata = await self._service.resources.partitioned.get(topic)
        if metadata is not None:
            return partitions_of(topic, metadata)
        if await self._service.topic_exists(topic):
            return [topic]
        await check_namespace(self._service, topic.namespace)
        if topic.is_partition or not await self._service.may_create(topic):
            raise PreconditionFailed(f"Topic {topic} does not exist and may not be created")
        count = await self._service.partitions_of(topic, may_create=True)
        if count > 0:
            return [topic.partition(index) for index in range(count)]
        await self._service.load_topic(topic, create=True)
        return [topic]

    async def delete(self, topic: TopicName, name: str, *, force: bool) -> None:
        """From every partition that has it."""
        await check_regular(self._service, topic)
        names = await self._live_names(topic)
        found = False

        async def delete_one(each: TopicName) -> None:
            nonlocal found
            live = await find_topic(self._service, each)
            if name in live.subscriptions:
                found = True
                await live.delete_subscription(name, force=force)

        await for_each(names, delete_one)
        if not found:
            raise _missing(topic, name)

    async def skip_all(self, topic: TopicName, name: str) -> None:
        await self._each(topic, name, "Skip all messages", lambda each: each.skip_all())

    async def skip(self, topic: TopicName, name: str, count: int) -> None:
        what = "Skip messages"
        await check_not_partitioned(
            self._service, topic, f"{what} on a partitioned topic is not allowed"
        )
        if count < 0:
            raise PreconditionFailed(f"The number of messages to skip is not negative: {count}")
        await (await self._find(topic, name, what)).skip(count)

    async def reset_to_time(self, topic: TopicName, name: str, timestamp_ms: int) -> None:
        await self._each(topic, name, "Reset-cursor", lambda each: each.reset_to_time(timestamp_ms))

    async def reset_to_position(self, topic: TopicName, name: str, target: MessageId) -> None:
        await check_not_partitioned(
            self._service, topic, "Reset-cursor at position is not allowed for partitioned-topic"
        )
        subscription = await self._find(topic, name, "Reset-cursor")
        await subscription.reset_to_position(
            target.position, excluded=target.excluded, batch_index=target.batchIndex
        )

    async def expire(self, topic: TopicName, name: str, seconds: int) -> None:
        _check_seconds(seconds)

        async def expire_one(each: Subscription) -> None:
            await each.expire(seconds)

        await self._each(topic, name, "Expire messages", expire_one)

    async def expire_to(self, topic: TopicName, name: str, target: MessageId) -> None:
        await check_not_partitioned(
            self._service,
            topic,
            "Expire message at position is not supported for partitioned-topic",
        )
        subscription = await self._find(topic, name, "Expire messages")
        await subscription.expire_to(target.position, excluded=target.excluded)

    async def expire_all(self, topic: TopicName, seconds: int) -> None:
        _check_seconds(seconds)
        what = "Expire messages"

        async def expire_one(name: TopicName) -> None:
            live = await find_persistent(self._service, name, what)
            for subscription in list(live.subscriptions.values()):
                await subscription.expire(seconds)

        if not topic.is_persistent:
            raise not_allowed(what)
        await for_each(await self._live_names(topic), expire_one)

    async def peek(self, topic: TopicName, name: str, number: int) -> tuple[Position, bytes]:
        what = "Peek messages"
        await check_not_partitioned(
            self._service, topic, f"{what} on a partitioned topic is not allowed"
        )
        if number < 1:
            raise PreconditionFailed(f"Messages are counted from 1, not {number}")
        live = await find_persistent(self._service, topic, what)
        subscription = live.subscriptions.get(name)
        if subscription is not None:
            return await subscription.peek(number)
        # Tools peek before anybody subscribed: they see the topic from its start.
        if number > live.chain.total_entries:
            raise NotFound("Message not found")
        position = live.chain.position_after(live.chain.first_position, number - 1)
        return position, await live.read_entry(position)

    async def properties(self, topic: TopicName, name: str) -> Mapping[str, str]:
        for each in await self._live_names(topic):
            subscription = (await find_topic(self._service, each)).subscriptions.get(name)
            if subscription is not None:
                return subscription.properties
        raise _missing(topic, name)

    async def set_properties(
        self, topic: TopicName, name: str, properties: Mapping[str, str]
    ) -> None:
        await self._each(
            topic, name, "Update properties", lambda each: each.set_properties(properties)
        )

    async def replicated(self, topic: TopicName, name: str) -> Mapping[str, bool]:
        told: dict[str, bool] = {}

        async def tell(each: Subscription) -> None:
            told[each.topic.name.full] = each.replicated

        await self._each(topic, name, "GetReplicatedSubscriptionStatus", tell)
        return told

    async def analyze_backlog(
        self, topic: TopicName, name: str, *, entries_max: int | None = None
    ) -> Mapping[str, Any]:
        """Read the backlog, up to so many entries of it, and count; nothing filters here, so all of
        it is accepted.
        """
        what = "Analyze backlog"
        await check_not_partitioned(
            self._service, topic, f"{what} on a partitioned topic is not allowed"
        )
        subscription = await self._find(topic, name, what)
        cursor, chain = subscription.cursor, subscription.topic.chain
        entries = messages = 0
        position = cursor.first_unacked()
        aborted = False
        while (run := await chain.read(position, _SCAN_ENTRIES, _SCAN_BYTES)) is not None:
            aborted = entries_max is not None and entries >= entries_max
            if aborted:
                break
            for index, entry in enumerate(run.data):
                if not cursor.is_acknowledged(run.ledger_id, run.first + index):
                    entries += 1
                    messages += count_messages(entry)
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
    async def _live_names(self, topic: TopicName) -> Sequence[TopicName]:
        """The topic itself, or those of its partitions that exist."""
        await check_exists(self._service, topic)
        metadata = await self._service.resources.partitioned.get(topic)
        if metadata is None:
            return [topic]
        names = partitions_of(topic, metadata)
        return [name for name in names if await self._service.topic_exists(name)]

    async def _find(self, topic: TopicName, name: str, what: str) -> Subscription:
        live = await find_persistent(self._service, topic, what)
        subscription = live.subscriptions.get(name)
        if subscription is None:
            raise _missing(topic, name)
        return subscription

    async def _each(
        self,
        topic: TopicName,
        name: str,
        what: str,
        act: Callable[[Subscription], Awaitable[None]],
    ) -> None:
        if not topic.is_persistent:
            raise not_allowed(what)

        async def act_on(each: TopicName) -> None:
            await act(await self._find(each, name, what))

        await for_each(await self._live_names(topic), act_on)


def _missing(topic: TopicName, name: str) -> BrokerError:
    return SubscriptionNotFound(f"Subscription {name} not found for topic {topic}")


def _check_seconds(seconds: int) -> None:
    if seconds < 0:
        raise PreconditionFailed(f"An age in seconds is not negative: {seconds}")

"""Partitions of one topic at the brokers that own them: what is done to all of them is done to each
where it is served.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeAlias, get_type_hints

import msgspec

from magnetar.broker.administration.port import PartitionOwners, PeerOwners
from magnetar.broker.administration.registry import FUNCTIONS, Function, finds
from magnetar.broker.administration.topic import existing_parts, find_topic, parts_of
from magnetar.broker.broker_call import OwnerPort
from magnetar.broker.persistent import PersistentTopic
from magnetar.broker.scalable.segment import together
from magnetar.broker.stats import count_stats, topic_internal_stats
from magnetar.errors import BrokerError, Conflict, NotFound, SubscriptionNotFound
from magnetar.model.answer.log import LogStats, MessageIdAnswer
from magnetar.model.answer.topic import TopicStats
from magnetar.model.message_id import describe_position
from magnetar.model.name import TopicName
from magnetar.model.position import EARLIEST

Merge: TypeAlias = Callable[[Sequence[Any]], Any]


def _nothing(answers: Sequence[Any]) -> None:
    return None


def _union(answers: Sequence[Any]) -> list[str]:
    return list(dict.fromkeys(each for answer in answers for each in answer))


def _first(answers: Sequence[Any]) -> Any:
    return answers[0]


def _merged(answers: Sequence[Any]) -> dict[str, Any]:
    return {key: value for answer in answers for key, value in answer.items()}


PER_PARTITION: Final[Mapping[str, tuple[Merge, tuple[type[BrokerError], ...]]]] = {
    "subscriptions.list": (_union, ()),
    "subscriptions.create": (_nothing, (Conflict,)),
    "subscriptions.delete": (_nothing, (SubscriptionNotFound,)),
    "subscriptions.skip_all": (_nothing, ()),
    "subscriptions.reset_to_time": (_nothing, ()),
    "subscriptions.expire": (_nothing, ()),
    "subscriptions.expire_all": (_nothing, ()),
    "subscriptions.properties": (_first, (SubscriptionNotFound,)),
    "subscriptions.set_properties": (_nothing, ()),
    "subscriptions.replicated_status": (_merged, ()),
}
"""Operations on a partitioned topic that are the same on each partition: how their answers become
one, and the refusal that counts only when all partitions give it."""


class TopicPart:
    """One topic, at its owner."""

    def __init__(self, owners: PeerOwners, topic: TopicName) -> None:
        self._owners = owners
        self._topic = topic

    async def create(self) -> None:
        await self._owners.catalog.load_topic(self._topic, create=True)

    async def check_unused(self) -> None:
        (await self._owners.catalog.load_topic(self._topic)).check_unused()

    async def delete(self, force: bool) -> None:
        await self._owners.catalog.delete_topic(self._topic, force=force)

    async def stats(self, options: dict[str, Any]) -> TopicStats:
        return await count_stats(await find_topic(self._owners, self._topic), **options)

    async def internal_stats(self) -> LogStats:
        return topic_internal_stats(await find_topic(self._owners, self._topic))

    async def terminate(self) -> MessageIdAnswer:
        return describe_position(await (await self._load()).termination.run())

    async def list_subscriptions(self) -> dict[str, dict[str, str]]:
        """The durable ones, with their properties."""
        await self.create()
        return {
            name: dict(subscription.properties)
            for name, subscription in (await self._load()).subscriptions.items()
            if subscription.durable
        }

    async def copy_subscriptions(self, subscriptions: dict[str, dict[str, str]]) -> None:
        """Make those that are missing, from the first message on."""
        await self.create()
        live = await self._load()
        for name, properties in subscriptions.items():
            if name not in live.subscriptions:
                await live.subscriptions.create(name, position=EARLIEST, properties=properties)

    async def clear_backlog(self, subscription: str | None) -> None:
        """Acknowledge everything in one subscription, or in all."""
        for each in list((await self._load()).subscriptions.values()):
            if subscription in (None, each.name):
                await each.skip_all()

    async def unsubscribe(self, subscription: str) -> None:
        """Delete a subscription, if it is there."""
        live = await self._owners.catalog.load_topic(self._topic)
        if subscription in live.subscriptions:
            with suppress(SubscriptionNotFound):
                await live.subscriptions.delete(subscription)

    async def carry_out(self, operation: str, arguments: dict[str, Any]) -> Any:
        """An operation of the table, on this topic alone."""
        if operation not in PER_PARTITION:
            raise NotFound(f"{operation} is not an operation on each partition")
        function = FUNCTIONS[operation]
        kinds = get_type_hints(function)
        given = {name: msgspec.convert(value, kinds[name]) for name, value in arguments.items()}
        return await function(self._owners, topic=self._topic, **given)

    async def _load(self) -> PersistentTopic:
        live = await self._owners.catalog.load_topic(self._topic)
        assert isinstance(live, PersistentTopic), "the domain says so"
        return live


TopicParts: TypeAlias = OwnerPort[TopicPart]


@finds(TopicParts)
def find_topic_parts(owners: PeerOwners) -> TopicParts:
    """Brokers that act on all partitions of a topic ask this one too."""
    return OwnerPort(owners.calls, TopicPart, partial(TopicPart, owners))


def on_each_partition(operation: str, function: Function) -> Function:
    """The same operation, on each partition of a topic where it is served. A broker that owns all
    partitions has no need of it.
    """
    merge, ignored = PER_PARTITION[operation]

    async def carry_out(owners: PartitionOwners, topic: TopicName, **given: object) -> object:
        metadata = await owners.resources.partitioned.get(topic)
        if owners.bundles is None or metadata is None:
            return await function(owners, topic=topic, **given)
        if operation == "subscriptions.create":
            names = await parts_of(owners.resources, topic)
        else:
            names = await existing_parts(owners, topic)
        arguments, parts = msgspec.to_builtins(given), find_topic_parts(owners)

        async def ask(name: TopicName) -> object:
            try:
                return await parts.at(name).carry_out(operation, arguments)
            except ignored as refusal:
                return refusal

        answers = await together(map(ask, names))
        given_answers = [each for each in answers if not isinstance(each, BrokerError)]
        for refusal in answers:
            if not given_answers and isinstance(refusal, BrokerError):
                raise refusal
        return merge(given_answers)

    return carry_out

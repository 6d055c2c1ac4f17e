"""The topics that take part in transactions, for the coordinators of this broker."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from functools import partial

from magnetar.broker.broker_call import BrokerCalls, OwnerPort
from magnetar.broker.catalog import TopicCatalog
from magnetar.broker.persistent import PersistentTopic
from magnetar.broker.transaction.participant import Participant
from magnetar.broker.transaction.remote import TransactionTopic
from magnetar.errors import (
    NamespaceNotFound,
    SubscriptionNotFound,
    TopicFenced,
    TopicNotFound,
    TransactionsDisabled,
)
from magnetar.model.name import TopicName, parse_stored_topic
from magnetar.model.transaction import TransactionId
from magnetar.rules.system import check_takes_transactions, takes_transactions


class ParticipantDirectory:
    def __init__(self, catalog: TopicCatalog, calls: BrokerCalls) -> None:
        self._catalog = catalog
        self._ownership = calls.ownership
        self._topics: OwnerPort[TransactionTopic] = OwnerPort(
            calls, TransactionTopic, partial(LocalTopic, self)
        )

    async def join(
        self,
        topic: str,
        id_: TransactionId,
        deadline_ms: int,
        subscriptions: Sequence[str] | None,
        owner: str,
    ) -> None:
        name = parse_stored_topic(topic)
        names = None if subscriptions is None else tuple(subscriptions)
        if await self._is_remote(name):
            await self._topics.at(name).join(id_, deadline_ms, names, owner)
        else:
            await self.join_here(name, id_, deadline_ms, names, owner)

    async def join_here(
        self,
        name: TopicName,
        id_: TransactionId,
        deadline_ms: int,
        subscriptions: Sequence[str] | None,
        owner: str,
    ) -> None:
        check_takes_transactions(name)
        participant = await self._load(name)
        if participant is None:
            raise TransactionsDisabled(f"Transactions are not enabled where {name} is served")
        if subscriptions is None:
            await participant.join_writes(id_, deadline_ms, owner)
        for subscription in subscriptions or ():
            await participant.join_acks(id_, subscription, deadline_ms)

    def find_quiet(self, topic: str, id_: TransactionId) -> Participant | None:
        found = self._catalog.find(parse_stored_topic(topic))
        part = found.transactions if isinstance(found, PersistentTopic) else None
        return part if isinstance(part, Participant) and part.is_quiet(id_) else None

    async def end(
        self, topic: str, id_: TransactionId, *, is_commit: bool
    ) -> Awaitable[None] | None:
        name = parse_stored_topic(topic)
        if takes_transactions(name) and await self._is_remote(name):
            await self._topics.at(name).end(id_, is_commit)
            return None
        return await self.end_here(name, id_, is_commit=is_commit)

    async def end_here(
        self, name: TopicName, id_: TransactionId, *, is_commit: bool
    ) -> Awaitable[None] | None:
        """A topic that is gone, or that no transaction can span, has nothing to end."""
        if not takes_transactions(name):
            return None
        try:
            participant = await self._load(name)
        except (TopicNotFound, NamespaceNotFound, SubscriptionNotFound):
            return None
        return None if participant is None else await participant.end(id_, is_commit=is_commit)

    async def _is_remote(self, name: TopicName) -> bool:
        if not self._ownership.is_shared or self._catalog.find(name) is not None:
            return False
        return not (await self._ownership.owner_of(name)).is_self

    async def _load(self, name: TopicName) -> Participant | None:
        """None where transactions are not enabled and none has left anything."""
        topic = self._catalog.find(name) or await self._catalog.load_topic(name)
        assert isinstance(topic, PersistentTopic), "others take no transactions"
        if topic.closed:
            raise TopicFenced(f"Topic {name} is closing")
        assert topic.transactions is None or isinstance(topic.transactions, Participant)
        return topic.transactions


class LocalTopic:
    """A topic that this broker serves, for coordinators at others."""

    def __init__(self, directory: ParticipantDirectory, name: TopicName) -> None:
        self._directory = directory
        self._name = name

    async def join(
        self,
        id_: TransactionId,
        deadline_ms: int,
        subscriptions: tuple[str, ...] | None = None,
        owner: str = "",
    ) -> None:
        await self._directory.join_here(self._name, id_, deadline_ms, subscriptions, owner)

    async def end(self, id_: TransactionId, is_commit: bool) -> None:
        durable = await self._directory.end_here(self._name, id_, is_commit=is_commit)
        if durable is not None:
            await durable

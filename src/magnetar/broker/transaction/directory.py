"""The topics that take part in transactions, for the coordinators of this broker."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Protocol

from magnetar.broker.catalog import TopicCatalog
from magnetar.broker.ownership import Ownership
from magnetar.broker.persistent import PersistentTopic
from magnetar.broker.transaction.participant import Participant
from magnetar.errors import (
    NamespaceNotFound,
    NotAllowed,
    SubscriptionNotFound,
    TopicFenced,
    TopicNotFound,
)
from magnetar.model.name import TopicName, parse_stored_topic
from magnetar.model.transaction import TransactionId


class RemoteTopics(Protocol):
    """Topics that other brokers serve."""

    async def join(
        self,
        topic: TopicName,
        id_: TransactionId,
        deadline_ms: int,
        subscriptions: Sequence[str] | None,
    ) -> None: ...

    async def end(self, topic: TopicName, id_: TransactionId, *, is_commit: bool) -> None: ...


class ParticipantDirectory:
    def __init__(self, catalog: TopicCatalog, ownership: Ownership, remote: RemoteTopics) -> None:
        self._catalog = catalog
        self._ownership = ownership
        self._remote = remote

    async def join(
        self, topic: str, id_: TransactionId, deadline_ms: int, subscriptions: Sequence[str] | None
    ) -> None:
        name = parse_stored_topic(topic)
        if await self._is_remote(name):
            await self._remote.join(name, id_, deadline_ms, subscriptions)
        else:
            await self.join_here(name, id_, deadline_ms, subscriptions)

    async def join_here(
        self,
        name: TopicName,
        id_: TransactionId,
        deadline_ms: int,
        subscriptions: Sequence[str] | None,
    ) -> None:
        participant = await self._load(name)
        if subscriptions is None:
            await participant.join_writes(id_, deadline_ms)
        for subscription in subscriptions or ():
            await participant.join_acks(id_, subscription, deadline_ms)

    async def end(
        self, topic: str, id_: TransactionId, *, is_commit: bool
    ) -> Awaitable[None] | None:
        """A topic that is gone has nothing to end."""
        name = parse_stored_topic(topic)
        if await self._is_remote(name):
            await self._remote.end(name, id_, is_commit=is_commit)
            return None
        return await self.end_here(name, id_, is_commit=is_commit)

    async def end_here(
        self, name: TopicName, id_: TransactionId, *, is_commit: bool
    ) -> Awaitable[None] | None:
        try:
            participant = await self._load(name)
        except (TopicNotFound, NamespaceNotFound, SubscriptionNotFound):
            return None
        return await participant.end(id_, is_commit=is_commit)

    async def _is_remote(self, name: TopicName) -> bool:
        if not self._ownership.is_shared or self._catalog.find(name) is not None:
            return False
        return not (await self._ownership.owner_of(name)).is_self

    async def _load(self, name: TopicName) -> Participant:
        topic = self._catalog.find(name) or await self._catalog.load_topic(name)
        if not isinstance(topic, PersistentTopic):
            raise NotAllowed(f"{name} keeps nothing, so that no transaction can span it")
        if topic.closed:
            raise TopicFenced(f"Topic {name} is closing")
        if not isinstance(topic.transactions, Participant):
            raise NotAllowed(f"{name} is the broker's own, and no transaction can span it")
        return topic.transactions

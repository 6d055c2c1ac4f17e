"""What jobs over whole topics need of a client: stored entries, holds, and writes that can be
repeated.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from magnetar.client.client import AsyncPulsarClient
from magnetar.client.handle import Opening
from magnetar.client.layout import parse_scalable
from magnetar.client.message_id import EARLIEST_ID, MessageId
from magnetar.client.option import ProducerOptions, build_producer
from magnetar.client.quantity import Duration, Size, parse_duration, parse_size
from magnetar.client.schema.schema import Schema
from magnetar.client.transaction import (
    AsyncTransaction,
    JoinedTransaction,
    join_transaction,
    take_over_transaction,
)
from magnetar.columns.entry_reader import AsyncEntryReader
from magnetar.columns.hold import move_hold
from magnetar.columns.resumable import AsyncResumableProducer
from magnetar.model.migration import MANAGED
from magnetar.model.name import TopicDomain, parse_topic
from magnetar.model.schema import SchemaData
from magnetar.model.transaction import TransactionId
from magnetar.runtime.clock import make_token


class AsyncBulk:
    """What it opens is closed with its client."""

    def __init__(self, client: AsyncPulsarClient) -> None:
        self._client = client
        self._session = client.session
        self._coordinators = client.coordinators

    def entry_reader(
        self,
        topic: str,
        *,
        start: MessageId = EARLIEST_ID,
        window: Size = "32MB",
        paused: bool = False,
    ) -> Opening[AsyncEntryReader]:
        """Stored entries as they are, of one topic, partition or segment; for bulk readers.

        A `paused` one answers questions only.
        """
        name = parse_topic(topic)
        window_bytes = parse_size("window", window)

        async def open() -> AsyncEntryReader:
            self._client.check_open()
            reader = AsyncEntryReader(
                self._session,
                name,
                name=f"reader-{make_token(self._session.clock.chance, 5)}",
                start=start,
                window_bytes=window_bytes,
                properties={} if name.domain is TopicDomain.SEGMENT else {MANAGED: "true"},
            )
            if paused:
                reader.pause()
            await reader.open()
            return reader

        return Opening(open)

    async def hold(self, topic: str, subscription: str, through: MessageId | None) -> bool:
        """Keep what stands after a message, of one topic, partition or segment, from being
        deleted; False when there is no such topic.
        """
        self._client.check_open()
        return await move_hold(self._session, parse_topic(topic), subscription, through)

    async def newest_schema(self, topic: str) -> SchemaData:
        """What is registered for a topic; NotFoundError when it has no schema."""
        self._client.check_open()
        return await self._session.schemas.fetch(parse_topic(topic))

    async def begin_transaction(self, timeout: Duration) -> TransactionId:
        """A transaction that outlives this client, for others to join and to end."""
        self._client.check_open()
        seconds = parse_duration("timeout", timeout, least=0.001)
        return (await self._coordinators.begin(int(seconds * 1000)))[0]

    async def join_transaction(self, id_: TransactionId) -> JoinedTransaction:
        """Send within a transaction that another client began, and will end."""
        self._client.check_open()
        return await join_transaction(self._session, self._coordinators, id_)

    async def take_over_transaction(self, id_: TransactionId) -> AsyncTransaction:
        """Go on with a transaction that another client began, and end it."""
        self._client.check_open()
        return await take_over_transaction(self._session, self._coordinators, id_)

    def resumable_producer(
        self, topic: str, *, schema: Schema[Any] = Schema.BYTES, **options: Any
    ) -> Opening[AsyncResumableProducer[Any]]:
        """A producer whose numbered messages are stored once, however often they are sent."""
        given = ProducerOptions(**options)  # type: ignore[typeddict-item]
        settings, routing, waits_for_room = build_producer(
            schema, given, self._session.clock.chance
        )
        parsed = parse_scalable(topic)

        async def open() -> AsyncResumableProducer[Any]:
            self._client.check_open()
            kept = replace(settings, keeps_sequence=True)
            producer: AsyncResumableProducer[Any] = AsyncResumableProducer(
                self._session, parsed, kept, routing, waits_for_room=waits_for_room
            )
            await producer.open()
            return producer

        return Opening(open)

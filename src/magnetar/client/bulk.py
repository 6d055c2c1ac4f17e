"""What jobs over whole topics need of a client: stored entries, holds, and writes that can be
repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from magnetar.client.entry_reader import AsyncEntryReader
from magnetar.client.hold import move_hold
from magnetar.client.message_id import EARLIEST, MessageId
from magnetar.client.opening import Opening
from magnetar.client.quantity import Size, parse_size
from magnetar.client.scalable.layout import parse_scalable
from magnetar.client.scalable.option import ScalableProducerOptions, build_scalable_producer
from magnetar.client.scalable.resumable import AsyncResumableProducer
from magnetar.client.schema.schema import Schema
from magnetar.client.session import Session
from magnetar.model.migration import MANAGED
from magnetar.model.name import TopicDomain, parse_topic
from magnetar.model.schema import SchemaData
from magnetar.runtime.clock import make_token


class AsyncBulk:
    """Made by a client, as its `bulk`."""

    def __init__(self, session: Session, check_open: Callable[[], None]) -> None:
        self._session = session
        self._check_open = check_open

    def entry_reader(
        self,
        topic: str,
        *,
        start: MessageId = EARLIEST,
        window: Size = "32MB",
        paused: bool = False,
    ) -> Opening[AsyncEntryReader]:
        """Stored entries as they are, of one topic, partition or segment; for bulk readers.

        A `paused` one answers questions only.
        """
        name = parse_topic(topic)
        window_bytes = parse_size("window", window)

        async def open() -> AsyncEntryReader:
            self._check_open()
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
        self._check_open()
        return await move_hold(self._session, parse_topic(topic), subscription, through)

    async def newest_schema(self, topic: str) -> SchemaData:
        """What is registered for a topic; NotFoundError when it has no schema."""
        self._check_open()
        return await self._session.schemas.fetch(parse_topic(topic))

    def resumable_producer(
        self, topic: str, *, schema: Schema[Any] = Schema.BYTES, **options: Any
    ) -> Opening[AsyncResumableProducer[Any]]:
        """A producer whose numbered messages are stored once, however often they are sent."""
        given = ScalableProducerOptions(**options)  # type: ignore[typeddict-item]
        settings, routing, waits_for_room = build_scalable_producer(
            schema, given, self._session.clock.chance
        )
        parsed = parse_scalable(topic)

        async def open() -> AsyncResumableProducer[Any]:
            self._check_open()
            kept = replace(settings, keeps_sequence=True)
            producer: AsyncResumableProducer[Any] = AsyncResumableProducer(
                self._session, parsed, kept, routing, waits_for_room=waits_for_room
            )
            await producer.open()
            return producer

        return Opening(open)

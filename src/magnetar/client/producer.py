"""The producer an application holds: on a topic, whatever number of partitions it has."""

from __future__ import annotations

import asyncio
from typing import Final, Self, Unpack

from magnetar.client.error import AlreadyClosedError
from magnetar.client.message_id import MessageId
from magnetar.client.outgoing import MessageOptions, format_key
from magnetar.client.session import Session
from magnetar.client.topic_producer import ProducerSettings, TopicProducer
from magnetar.model.name import TopicName
from magnetar.rules.route import KeyHash, route_partition, route_turn

PARTITION_CHECK_S: Final = 60.0


class AsyncProducer:
    """Made by `AsyncPulsarClient.create_producer`; use it as an async context manager."""

    def __init__(
        self,
        session: Session,
        topic: TopicName,
        settings: ProducerSettings,
        hashing: KeyHash,
    ) -> None:
        self._session = session
        self._topic = topic
        self._settings = settings
        self._hashing = hashing
        self._parts: list[TopicProducer] = []
        self._turn = 0
        self._is_closed = False
        self._growth: asyncio.Task[None] | None = None

    @property
    def topic(self) -> str:
        return self._topic.full

    @property
    def name(self) -> str:
        """The name the broker knows; each partition may have got its own."""
        return self._parts[0].name

    @property
    def partitions(self) -> int:
        """How many partitions the topic has; 0 for a topic without."""
        return len(self._parts) if self._parts[0].topic.is_partition else 0

    @property
    def last_sequence_id(self) -> int:
        return max(part.last_sequence_id for part in self._parts)

    async def open(self) -> None:
        """Attach to every partition; all or none."""
        count = await self._session.lookup.count_partitions(self._topic)
        names = [self._topic.partition(index) for index in range(count)] or [self._topic]
        self._parts = [TopicProducer(self._session, name, self._settings) for name in names]
        try:
            for part in self._parts:
                await part.open()
        except BaseException:
            await self._close_parts()
            raise
        self._session.made[self] = None
        if count:
            self._growth = self._session.scope.periodic(
                PARTITION_CHECK_S, self._grow, f"partitions of {self._topic}"
            )

    async def send(self, data: bytes | None, **options: Unpack[MessageOptions]) -> MessageId:
        """Publish and return the id once the broker has stored it; waits while too many wait."""
        return await (await self.submit(data, **options))

    async def submit(
        self, data: bytes | None, **options: Unpack[MessageOptions]
    ) -> asyncio.Future[MessageId]:
        """Wait for room only, and return the future of the id: many sends on their way at once."""
        part = self._choose(options.get("key"))
        await part.reserve()
        return part.send_reserved(data, options)

    def send_nowait(
        self, data: bytes | None, **options: Unpack[MessageOptions]
    ) -> asyncio.Future[MessageId]:
        """Publish without waiting for anything; raises QueueFullError when too many wait."""
        part = self._choose(options.get("key"))
        part.reserve_nowait()
        return part.send_reserved(data, options)

    async def flush(self) -> None:
        """Wait for the receipt of everything sent before."""
        for part in self._parts:
            part.flush_batch()
        for part in self._parts:
            await part.flush()

    async def close(self) -> None:
        """Flush and leave; a second close does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._growth is not None:
            self._growth.cancel()
        await self._close_parts()
        self._session.made.pop(self, None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _choose(self, key: str | bytes | None) -> TopicProducer:
        if self._is_closed:
            raise AlreadyClosedError(f"The producer on {self._topic} is closed")
        count = len(self._parts)
        if count == 1:
            return self._parts[0]
        if key is not None:
            return self._parts[route_partition(format_key(key), count, hashing=self._hashing)]
        batching = self._settings.batching
        if batching is None:
            self._turn += 1
        else:  # stay on a partition for the time of a batch, so that there are batches at all
            self._turn = int(self._session.clock.monotonic() / batching.max_delay)
        return self._parts[route_turn(self._turn, count)]

    async def _grow(self) -> None:
        count = await self._session.lookup.count_partitions(self._topic, create=False)
        for index in range(len(self._parts), count):
            part = TopicProducer(self._session, self._topic.partition(index), self._settings)
            await part.open()
            self._parts.append(part)

    async def _close_parts(self) -> None:
        for part in self._parts:
            await part.close()

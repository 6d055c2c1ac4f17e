"""The producer an application holds: on a topic, whatever number of partitions it has."""

from __future__ import annotations

import asyncio
from typing import Final, Generic, TypeVar, Unpack

from magnetar.client.admission import Admission
from magnetar.client.envelope import measure, pack_message
from magnetar.client.error import AlreadyClosedError, PulsarTimeoutError
from magnetar.client.handle import Handle
from magnetar.client.message_id import MessageId
from magnetar.client.outgoing import Outgoing, format_key
from magnetar.client.publication import ProducerSettings
from magnetar.client.send_option import SendOptions
from magnetar.client.session import Session
from magnetar.client.stats import ProducerStats
from magnetar.client.topic_producer import TopicProducer
from magnetar.model.name import TopicName
from magnetar.rules.route import KeyHash, route_partition, route_turn

PARTITION_CHECK_S: Final = 60.0

T = TypeVar("T")


class AsyncProducer(Handle, Generic[T]):
    """Made by `client.classic.create_producer`; use it as an async context manager."""

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
        self._loop = asyncio.get_running_loop()
        self._admission = Admission(
            session,
            settings,
            name=lambda: self._topic.full,
            send=self._send,
            explain=self._explain,
        )
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

    @property
    def stats(self) -> ProducerStats:
        admission = self._admission
        return ProducerStats(admission.sent, admission.failed, admission.pending)

    async def open(self) -> None:
        """Attach to every partition; all or none."""
        count = await self._session.lookup.count_partitions(self._topic)
        names = [self._topic.partition(index) for index in range(count)] or [self._topic]
        self._parts = [
            TopicProducer(self._session, name, self._settings, self._admission) for name in names
        ]
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

    async def send(self, value: T | None, **options: Unpack[SendOptions]) -> MessageId:
        """Publish and return the id once the broker has stored it; waits while too many wait.

        None is a tombstone: on a compacted topic it deletes what its key had.
        """
        return await self.begin_send(value, options)

    def begin_send(self, value: T | None, options: SendOptions) -> asyncio.Future[MessageId]:
        """As `send`, and not to be batched with others if none is on its way."""
        message = self._make(value, options)
        if self._admission.try_enter(message):
            self._hurry()
        else:
            self._admission.enter_later(message)
        return message.sent

    def _hurry(self) -> None:
        for part in self._parts:
            part.hurry()

    async def submit(
        self, value: T | None, **options: Unpack[SendOptions]
    ) -> asyncio.Future[MessageId]:
        """Wait for room only, and return the future of the id: many sends on their way at once.

        One that fails is told by its future, and by `flush`.
        """
        message = self._make(value, options)
        message.is_submitted = True
        if not self._admission.try_enter(message):
            await self._admission.enter(message)
        return message.sent

    def send_nowait(
        self, value: T | None, **options: Unpack[SendOptions]
    ) -> asyncio.Future[MessageId]:
        """Publish without waiting for anything; raises QueueFullError when too many wait."""
        message = self._make(value, options)
        message.is_submitted = True
        if not self._admission.try_enter(message):
            raise self._admission.full()
        return message.sent

    async def flush(self) -> None:
        """Wait until everything sent before is stored or has failed.

        Raises SendFailedError when a message that was submitted since the last flush has failed.
        """
        await self._settle(None)
        if (failures := self._admission.take_failures()) is not None:
            raise failures from failures.first

    async def _settle(self, timeout: float | None) -> None:
        for part in self._parts:
            part.flush_batch()
        await self._admission.drain(timeout)

    async def close(self) -> None:
        """Flush and leave; a second close does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._growth is not None:
            self._growth.cancel()
        if not self._session.is_ending_now:
            await self._settle(self._session.operation_timeout)
        self._admission.close(AlreadyClosedError(f"The producer on {self._topic} is closed"))
        await self._close_parts()
        self._session.made.pop(self, None)

    def _make(self, value: T | None, options: SendOptions) -> Outgoing:
        if self._is_closed:
            raise AlreadyClosedError(f"The producer on {self._topic} is closed")
        data, packed = pack_message(self._settings, self.topic, value, options, self._session.clock)
        sent: asyncio.Future[MessageId] = self._loop.create_future()
        return Outgoing(data, sent, packed.get("key"), packed, measure(data, packed))

    def _send(self, message: Outgoing) -> None:
        self._choose(message.key).send_message(message, message.options.get("sequence_id"))

    def _explain(self, message: Outgoing) -> PulsarTimeoutError:
        return PulsarTimeoutError(f"No receipt from {self._topic} in time")

    def _choose(self, key: str | bytes | None) -> TopicProducer:
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
            name = self._topic.partition(index)
            part = TopicProducer(self._session, name, self._settings, self._admission)
            await part.open()
            self._parts.append(part)

    async def _close_parts(self) -> None:
        for part in self._parts:
            await part.close()

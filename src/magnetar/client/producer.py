"""The producer an application holds, on any topic: keeps the order of every key."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar, Unpack

from magnetar.client.admission import Admission
from magnetar.client.error import (
    AlreadyClosedError,
    PulsarError,
    PulsarTimeoutError,
    SendFailedError,
)
from magnetar.client.handle import Handle, ProducerStats
from magnetar.client.keyword import describe
from magnetar.client.message_id import MessageId
from magnetar.client.outgoing import Outcome
from magnetar.client.producer_set import ProducerSet, Routing
from magnetar.client.publication import (
    NO_OPTIONS,
    ProducerSettings,
    SendOptions,
    follow_send,
    group_values,
    is_plain,
    may_join,
    measure,
    pack_message,
)
from magnetar.client.segment_producer import Item
from magnetar.client.session import Session
from magnetar.model.name import TopicName, parse_topic
from magnetar.runtime.task import yield_to_loop

T = TypeVar("T")


class _Tail:
    """What was submitted last and says nothing but its data: others that do neither join it while
    it waits in a batch, and cost little more than it alone.
    """

    def __init__(self) -> None:
        self._item: Item | None = None

    def begin(self, data: bytes, sent: Outcome) -> Item:
        item = self._item = Item(data, sent, None, NO_OPTIONS, len(data), is_submitted=True)
        return item

    def join(self, payloads: Sequence[bytes], outcomes: Sequence[Outcome]) -> int:
        """Returns how many of them could, from the first on."""
        item = self._item
        if item is None or item.producer is None:
            return 0
        return item.producer.producer.join(item, payloads, outcomes)


class AsyncProducer(Handle, Generic[T]):
    """Made by `client.producer`; use it as an async context manager.

    Every send resolves once: with the id of the stored message, or with the reason why there is
    none. Messages of one key are stored in the order of the calls, also when they are not awaited
    one by one and the topic's segments split, merge or move meanwhile.
    """

    def __init__(
        self,
        session: Session,
        topic: TopicName,
        settings: ProducerSettings,
        routing: Routing,
        *,
        waits_for_room: bool = True,
    ) -> None:
        self._session = session
        self._settings = settings
        self._waits_for_room = waits_for_room
        self._loop = asyncio.get_running_loop()
        self._admission: Admission[Item] = Admission(
            session,
            settings,
            name=self._get_topic,
            send=self._route,
            explain=self._explain,
            on_late=lambda: self._producers.drop_ended(),
        )
        self._producers = ProducerSet(
            session, topic, settings, routing, self._admission, resend=self._route
        )
        self._ended: asyncio.Event | None = None
        """Set once it is closed, for others that close it meanwhile."""
        self._tail = _Tail()
        self._joins, self._is_plain = may_join(settings), is_plain(settings)

    @property
    def topic(self) -> str:
        """The `topic://` name of a scalable topic; of a regular one its own."""
        return self._producers.topic

    def _get_topic(self) -> str:
        return self.topic

    @property
    def name(self) -> str:
        assert self._settings.name is not None
        return self._settings.name

    @property
    def partitions(self) -> int:
        """How many partitions a regular topic has; 0 for a topic without."""
        active = self._producers.layout.active
        return sum(parse_topic(each.legacy_topic).is_partition for each in active if each.is_legacy)

    @property
    def last_sequence_id(self) -> int:
        """The highest one confirmed; -1, or the initial one, before that."""
        return self._producers.last_sequence_id

    @property
    def stats(self) -> ProducerStats:
        admission = self._admission
        segments = tuple(sorted(self._producers.by_segment))
        return ProducerStats(admission.sent, admission.failed, admission.pending, segments)

    async def open(self) -> None:
        """Learn the layout; raises at once where a regular topic or its schema is refused."""
        try:
            await self._producers.open()
        except BaseException:
            await self._close_all(self._closed())
            raise
        self._session.made[self] = None

    @describe(SendOptions)
    async def send(self, value: T | None, **options: Unpack[SendOptions]) -> MessageId:
        """Publish, and return the id once the broker has stored it; waits while too many wait.

        None is a tombstone: on a compacted topic it deletes what its key had.
        """
        sent: asyncio.Future[MessageId] = self._loop.create_future()
        self.begin_send(value, options, sent)
        return await sent

    @describe(SendOptions)
    async def submit(
        self, value: T | None, **options: Unpack[SendOptions]
    ) -> asyncio.Future[MessageId]:
        """Wait for room only, and return the future of the id: many sends on their way at once.

        One that fails is reported by its future, and by `flush`.
        """
        sent: asyncio.Future[MessageId] = self._loop.create_future()
        if (item := self._begin(value, options, sent)) is not None:
            await self._wait_for_room(item)
        return sent

    async def send_many(self, values: Iterable[T | None]) -> None:
        """Publish all of them, in order as `submit` does, and return once the broker has stored
        them. They have no options, no futures and no ids: this is the way to send very many.

        Raises SendFailedError when some are not stored.
        """
        sends: list[tuple[asyncio.Future[MessageId], int]] = []
        for group, value in group_values(self._settings, values):
            sent: asyncio.Future[MessageId] = self._loop.create_future()
            item = self._prepare(value, {}, sent, group)
            if not self._admission.try_enter(item):
                await self._wait_for_room(item)
            sends.append((sent, item.count))
            await yield_to_loop()
        failed, first = 0, None
        for sent, count in sends:
            try:
                await sent
            except PulsarError as error:
                failed, first = failed + count, first or error
        if first is not None:
            raise SendFailedError(self.topic, failed, first) from first

    def begin_send(self, value: T | None, options: SendOptions, sent: Outcome) -> None:
        """As `send`, and not to be batched with others if none is on its way."""
        item = self._prepare(value, options, sent)
        if self._admission.try_enter(item):
            if item.producer is not None:
                item.producer.producer.hurry()
        elif self._waits_for_room:
            self._admission.enter_later(item)
        else:
            raise self._admission.full(item)

    @describe(SendOptions)
    def send_nowait(
        self, value: T | None, **options: Unpack[SendOptions]
    ) -> asyncio.Future[MessageId]:
        """Publish without waiting for anything; raises QueueFullError when too many wait."""
        sent: asyncio.Future[MessageId] = self._loop.create_future()
        if (item := self._begin(value, options, sent)) is not None:
            raise self._admission.full(item)
        return sent

    def _begin(self, value: T | None, options: SendOptions, sent: Outcome) -> Item | None:
        """Submit; returns what there is no room for."""
        if options or value is None or not self._is_plain:
            item = self._prepare(value, options, sent)
            item.is_submitted = True
        else:
            data = self._encode_plain(value)
            if self._joins and self._tail.join((data,), (sent,)):
                return None
            item = self._tail.begin(data, sent)
        return None if self._admission.try_enter(item) else item

    def _encode_plain(self, value: T) -> bytes:
        """The data of a message that says nothing else; any thread may call it."""
        if self._producers.failure is not None:
            raise self._producers.failure
        return self._settings.schema.encode(value)

    def _enter_plain(self, submitted: Sequence[tuple[bytes, Outcome]]) -> None:
        """In their order, each as soon as there is room; closing meanwhile fails them."""
        payloads, outcomes = zip(*submitted, strict=True)
        at = 0
        while at < len(payloads):
            joined = self._tail.join(payloads[at:], outcomes[at:])
            if not joined:
                item = self._tail.begin(payloads[at], outcomes[at])
                self._admission.enter_all_later((item,))
            at += joined or 1

    async def flush(self) -> None:
        """Wait until everything sent before is stored or has failed.

        Raises SendFailedError when a message that was submitted since the last flush has failed.
        """
        await self._settle(None)
        self._admission.check_failures()

    async def close(self) -> None:
        """Flush and leave; what is not confirmed by the operation timeout fails.

        Raises SendFailedError when a message that was submitted since the last flush has failed.
        """
        if self._ended is not None:
            if self._session.is_ending_now:
                self._admission.close(self._closed())  # which ends the flush of the other
            else:
                await self._ended.wait()
            return
        self._ended = asyncio.Event()
        producers = self._producers
        try:
            if producers.failure is None:
                producers.failure = self._closed()
                if not self._session.is_ending_now:
                    await self._settle(self._session.operation_timeout)
            producers.failure = self._closed()
            self._session.made.pop(self, None)
            await self._close_all(producers.failure)
        finally:
            self._ended.set()
        self._admission.check_failures()

    def _closed(self) -> AlreadyClosedError:
        return AlreadyClosedError(f"The producer on {self.topic} is closed")

    async def _settle(self, timeout: float | None) -> None:
        self._producers.flush()
        await self._admission.drain(timeout)

    async def _close_all(self, failure: PulsarError) -> None:
        closing = self._producers.close(failure)
        self._admission.close(failure)
        await closing

    def _prepare(
        self, value: T | None, options: SendOptions, sent: Outcome, group: Sequence[bytes] = ()
    ) -> Item:
        """A message to send, or a group of them; any thread may call it if there is no
        transaction.
        """
        if self._producers.failure is not None:
            raise self._producers.failure
        if group:
            size = sum(map(len, group))
            return Item(None, sent, None, NO_OPTIONS, size, count=len(group), group=group)
        data, packed = pack_message(
            self._settings, self._get_topic, value, options, self._session.clock
        )
        item = Item(data, sent, packed.get("key"), packed, measure(data, packed))
        follow_send(self._session, item)
        return item

    async def _wait_for_room(self, item: Item) -> None:
        if not self._waits_for_room:
            raise self._admission.full(item)
        await self._admission.enter(item)

    def _explain(self, item: Item) -> PulsarError:
        """Why it is late."""
        seal = item.producer.seal if item.producer is not None else None
        return seal or PulsarTimeoutError(f"No receipt from {self.topic} in time")

    def _route(self, item: Item) -> None:
        self._producers.route(None if item.key is None else item.route).send(item)

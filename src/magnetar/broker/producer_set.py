"""Which producers a topic has: names are unique, and an access mode may keep others out."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator

from magnetar.broker.producer import AccessMode, Producer
from magnetar.errors import BrokerError, ProducerBusy, ProducerFenced


class ProducerSet:
    """`store_epoch` makes a new topic epoch durable before its producer is let in."""

    def __init__(self, epoch: int | None, store_epoch: Callable[[int], Awaitable[None]]) -> None:
        self.epoch = epoch
        self.exclusive: Producer | None = None
        self._store_epoch = store_epoch
        self._members: dict[str, Producer] = {}
        self._waiting: deque[tuple[Producer, asyncio.Future[None]]] = deque()
        self._granting = asyncio.Lock()
        self._refusal: BrokerError | None = None

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[Producer]:
        return iter(list(self._members.values()))

    @property
    def waiting_count(self) -> int:
        return len(self._waiting)

    async def add(self, producer: Producer) -> asyncio.Future[None] | None:
        """Let a producer in, or raise; a future means it waits until the topic is its own."""
        await self._make_room(producer)
        async with self._granting:
            if self._refusal is not None:
                raise self._refusal
            match producer.access_mode:
                case AccessMode.SHARED:
                    if self.exclusive is not None or self._waiting:
                        raise ProducerBusy("Topic has an existing exclusive producer")
                    if producer.name in self._members:
                        raise ProducerBusy(
                            f"Producer with name '{producer.name}' is already connected to topic"
                        )
                    self._members[producer.name] = producer
                    producer.is_ready = True
                case AccessMode.EXCLUSIVE:
                    if self._is_taken():
                        raise ProducerFenced("Fenced out: Topic has existing producers")
                    await self._grant(producer)
                case AccessMode.WAIT_FOR_EXCLUSIVE:
                    if self._is_taken():
                        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                        self._waiting.append((producer, turn))
                        return turn
                    await self._grant(producer)
                case AccessMode.EXCLUSIVE_WITH_FENCING:
                    self._check_epoch(producer)
                    self.fail_waiting(
                        ProducerFenced("Fenced by a producer with fencing access mode")
                    )
                    for member in self:
                        member.disconnect()
                    await self._grant(producer)
        return None

    async def _make_room(self, producer: Producer) -> None:
        """Who is in the way may be this producer's own past, or gone without a word."""
        is_patient = producer.access_mode in (
            AccessMode.WAIT_FOR_EXCLUSIVE,
            AccessMode.EXCLUSIVE_WITH_FENCING,
        )
        for rival in {self._members.get(producer.name), self.exclusive} - {None}:
            assert rival is not None
            if rival.connection is producer.connection:
                if rival.id == producer.id and rival.epoch < producer.epoch:
                    rival.detach()
            elif not is_patient and not await rival.connection.is_alive():
                rival.detach()

    def _is_taken(self) -> bool:
        return self.exclusive is not None or bool(self._members) or bool(self._waiting)

    def _check_epoch(self, producer: Producer) -> None:
        asked = producer.topic_epoch
        if asked is not None and self.epoch is not None and asked < self.epoch:
            raise ProducerFenced(
                f"Topic epoch has already moved: it is {self.epoch}, the producer has {asked}"
            )

    async def _grant(self, producer: Producer) -> None:
        self._check_epoch(producer)
        asked = producer.topic_epoch
        epoch = asked if asked is not None else (-1 if self.epoch is None else self.epoch) + 1
        if epoch != self.epoch:
            await self._store_epoch(epoch)
        self.epoch = producer.topic_epoch = epoch
        if self._refusal is not None:
            raise self._refusal
        if not producer.closed:  # it may have left while the epoch was stored
            self.exclusive = producer
            self._members[producer.name] = producer
            producer.is_ready = True

    def remove(self, producer: Producer) -> None:
        if self._members.get(producer.name) is producer:
            del self._members[producer.name]
        if self.exclusive is producer:
            self.exclusive = None
        for item in [each for each in self._waiting if each[0] is producer]:
            self._waiting.remove(item)
            item[1].cancel()

    async def promote(self) -> None:
        """Give the topic to the next one that waits, when no producer has it."""
        async with self._granting:
            while self._waiting and not self._members and self.exclusive is None:
                producer, turn = self._waiting.popleft()
                if turn.done():
                    continue
                try:
                    await self._grant(producer)
                except BrokerError as refusal:
                    turn.set_exception(refusal)
                else:
                    turn.set_result(None) if producer.is_ready else turn.cancel()

    def fail_waiting(self, refusal: BrokerError) -> None:
        while self._waiting:
            _, turn = self._waiting.popleft()
            if not turn.done():
                turn.set_exception(refusal)

    def close(self, refusal: BrokerError) -> None:
        """Let no more producers in."""
        self._refusal = refusal
        self.fail_waiting(refusal)

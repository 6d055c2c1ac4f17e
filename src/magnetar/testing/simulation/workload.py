"""Clients that send, receive, acknowledge and rewind, and write down what they saw."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import Any, Final

from magnetar.client.checkpoint import Checkpoint
from magnetar.client.client import AsyncPulsarClient
from magnetar.client.error import ConsumerBusyError, PulsarError
from magnetar.client.message_id import EARLIEST_ID, MessageId
from magnetar.client.policy import BackoffPolicy, BatchingPolicy, ConnectionPolicy
from magnetar.testing.simulation.history import (
    Acknowledged,
    Confirmed,
    Fault,
    History,
    NotSent,
    Received,
    Refused,
    Rewound,
    Sent,
)
from magnetar.testing.simulation.loop import START_MS, Process, VirtualClock, VirtualLoop
from magnetar.testing.simulation.plan import ProducerPlan, Reading, TopicPlan
from magnetar.testing.simulation.rewind import Message, Rewinds

_RETRY_S: Final = 0.5
_PAUSE_S: Final = 0.3
_SEND_TIMEOUT_S: Final = 30.0
_PAUSE_SHARE: Final = 0.2
_LEAVING_SHARE: Final = 0.05
_REWIND_SHARE: Final = 0.01
_REWINDS: Final = 1
"""How often a client sets its subscription back: all that follows may be redelivered."""
_ONE_BY_ONE: Final = frozenset((Reading.EXCLUSIVE, Reading.FAILOVER))
"""Who has a message has had all that are before it."""


@dataclass(slots=True)
class Traffic:
    """What has been sent and what each subscription has, to know when all has arrived."""

    confirmed: set[tuple[str, str, int]] = field(default_factory=set)
    received: dict[tuple[str, str], set[tuple[str, int]]] = field(default_factory=dict)
    acknowledged: set[tuple[str, str, str]] = field(default_factory=set)
    """By message id, as soon as it is asked for: one that is refused may have taken effect, and
    outweighs a negative acknowledgement of another delivery.
    """
    refused: dict[tuple[str, str, str], Message] = field(default_factory=dict)
    """By message id, not received since: they are to be redelivered."""
    rewinds: Rewinds = field(default_factory=Rewinds)

    def missing(self, topic: str, subscription: str) -> int:
        has = self.received.get((topic, subscription), set())
        absent = sum(t == topic and (key, number) not in has for t, key, number in self.confirmed)
        absent += self.rewinds.missing(topic, subscription)
        return absent + sum(each[:2] == (topic, subscription) for each in self.refused)

    def on_received(self, topic: str, subscription: str, key: str, number: int, id_: str) -> None:
        self.received.setdefault((topic, subscription), set()).add((key, number))
        self.refused.pop((topic, subscription, id_), None)
        self.rewinds.on_received(topic, subscription, (key, number), id_)

    def on_acknowledging(self, topic: str, subscription: str, id_: str) -> None:
        self.acknowledged.add((topic, subscription, id_))
        self.refused.pop((topic, subscription, id_), None)

    def on_refused(self, topic: str, subscription: str, message: Message, id_: str) -> None:
        is_ahead = self.rewinds.on_refused(topic, subscription, message, id_)
        if is_ahead and (topic, subscription, id_) not in self.acknowledged:
            self.refused[topic, subscription, id_] = message

    def on_rewinding(
        self, topic: str, subscription: str, at_s: float, *, time_s: float, only: Message | None
    ) -> None:
        self.rewinds.begin(topic, subscription, at_s, time_s=time_s, only=only)
        for (t, s, id_), message in list(self.refused.items()):
            is_here = (t, s) == (topic, subscription)
            if is_here and not self.rewinds.is_ahead(topic, subscription, message):
                del self.refused[t, s, id_]


class Application:
    """A process with a client of its own."""

    def __init__(
        self,
        loop: VirtualLoop,
        history: History,
        traffic: Traffic,
        name: str,
        service_url: str,
        random: Random,
        on_burst: Callable[[TopicPlan, Process], None],
    ) -> None:
        self.process = Process(name)
        self.name = name
        self._loop = loop
        self._history = history
        self._traffic = traffic
        self._url = service_url
        self._random = random
        self._on_burst = on_burst
        self._bodies: list[asyncio.Task[Any]] = []
        self._rewinds = _REWINDS

    def run(self, body: Callable[[AsyncPulsarClient], Any]) -> asyncio.Task[Any]:
        """Do `body` again with a new client whenever it fails."""
        task = self._loop.spawn(self.process, self._run(body), self.name)
        self._bodies.append(task)
        return task

    @property
    def failures(self) -> list[str]:
        """What ended the application, and is no error of the SDK's."""
        return [
            f"unexpected failure: {self.name}: {error!r}"
            for task in self._bodies
            if task.done() and not task.cancelled() and (error := task.exception()) is not None
        ]

    async def _run(self, body: Callable[[AsyncPulsarClient], Any]) -> None:
        while True:
            client = AsyncPulsarClient(
                self._url,
                clock=VirtualClock(self._loop, self.process),
                operation_timeout=15.0,
                connection=ConnectionPolicy(
                    keep_alive=5.0, backoff=BackoffPolicy(initial=0.1, maximum=2.0)
                ),
            )
            try:
                await body(client)
                return
            except PulsarError as error:
                self._history.add(Fault(f"{self.name} starts again: {error}"))
                await asyncio.sleep(_RETRY_S)
            finally:
                await client.close(immediate=True)

    # ------------------------------------------------------------------ producing

    def produce(self, topic: TopicPlan, plan: ProducerPlan) -> asyncio.Task[Any]:
        """Messages carry their key and number; what one attempt did not send the next leaves out:
        it may be stored.
        """
        numbers = dict.fromkeys(plan.keys, 0)
        left = plan.messages

        async def body(client: AsyncPulsarClient) -> None:
            nonlocal left
            producer = await client.producer(
                topic.name,
                name=plan.name,
                # A batch has one key, or the consumer of its first key would get the others too.
                batching=BatchingPolicy(by_key=True) if plan.is_batching else False,
                send_timeout=0.0 if topic.has_deduplication else _SEND_TIMEOUT_S,
            )
            while left:
                left -= 1
                key = self._random.choice(plan.keys)
                number = numbers[key]
                numbers[key] += 1
                self._history.add(Sent(topic.name, key, number))
                self._traffic.rewinds.on_sent(topic.name, (key, number), self._loop.time())
                try:
                    sent = await producer.submit(
                        f"{key}#{number}".encode(), key=key if plan.is_keyed else None
                    )
                except PulsarError as error:
                    self._history.add(NotSent(topic.name, key, number, str(error)))
                    raise
                sent.add_done_callback(self._on_sent(topic.name, key, number))
                # In bursts, so that several are on their way when something breaks.
                if self._random.random() < 0.2:
                    self._on_burst(topic, self.process)
                    await asyncio.sleep(self._random.uniform(0, 10 * plan.pause_s))
            await producer.flush()
            await producer.close()

        return self.run(body)

    def _on_sent(self, topic: str, key: str, number: int) -> Callable[[Any], None]:
        def note(outcome: asyncio.Future[Any]) -> None:
            if outcome.cancelled():
                self._history.add(NotSent(topic, key, number, "cancelled"))
            elif (error := outcome.exception()) is not None:
                self._history.add(NotSent(topic, key, number, str(error)))
            else:
                self._history.add(Confirmed(topic, key, number, str(outcome.result())))
                self._traffic.confirmed.add((topic, key, number))
            self._traffic.rewinds.on_answered(topic, (key, number), self._loop.time())

        return note

    # ------------------------------------------------------------------ consuming

    def consume(self, topic: TopicPlan, reading: Reading) -> asyncio.Task[Any]:
        match reading:
            case Reading.STREAM:
                return self.run(lambda client: self._consume_stream(client, topic.name))
            case Reading.QUEUE:
                return self.run(lambda client: self._consume_queue(client, topic.name))
            case Reading.CHECKPOINT:
                return self._read_checkpoint(topic.name)
            case _:
                return self.run(lambda client: self._consume_classic(client, topic.name, reading))

    async def _consume_stream(self, client: AsyncPulsarClient, topic: str) -> None:
        consumer = await client.stream_consumer(
            topic,
            subscription=Reading.STREAM,
            initial_position="earliest",
            name=self.name,
            ack_receipts=True,
        )
        unacknowledged: list[Any] = []
        while True:
            message = await consumer.receive(timeout=_PAUSE_S)
            if message is not None:
                self._note_received(topic, Reading.STREAM, message)
                # A segment that begins again: its earlier messages are not covered any more.
                known = [str(each.id) for each in unacknowledged]
                if str(message.id) in known:
                    del unacknowledged[known.index(str(message.id)) :]
                unacknowledged.append(message)
            # The last one must not stay open: what follows its segment waits for it.
            if unacknowledged and (message is None or self._random.random() < 0.5):
                await consumer.acknowledge_cumulative(unacknowledged[-1])
                for each in unacknowledged:
                    self._note_acknowledged(topic, Reading.STREAM, each)
                unacknowledged.clear()
                await self._rewind(consumer, topic, Reading.STREAM)

    async def _consume_queue(self, client: AsyncPulsarClient, topic: str) -> None:
        consumer = await client.queue_consumer(
            topic,
            subscription=Reading.QUEUE,
            initial_position="earliest",
            name=self.name,
            ack_receipts=True,
            nack_delay=1.0,
        )
        while True:
            message = await consumer.receive()
            assert message is not None
            self._note_received(topic, Reading.QUEUE, message)
            chance = self._random.random()
            if chance < 0.05:
                self._note_refused(topic, Reading.QUEUE, message)
                consumer.negative_acknowledge(message)
                continue
            self._traffic.on_acknowledging(topic, Reading.QUEUE, _id_of(message))
            await consumer.acknowledge(message)
            self._note_acknowledged(topic, Reading.QUEUE, message)
            await self._rewind(consumer, topic, Reading.QUEUE)

    def _read_checkpoint(self, topic: str) -> asyncio.Task[Any]:
        """A reader that goes on where it was when it failed."""
        checkpoint = Checkpoint.EARLIEST

        async def body(client: AsyncPulsarClient) -> None:
            nonlocal checkpoint
            consumer = await client.checkpoint_consumer(topic, start=checkpoint, name=self.name)
            while True:
                message = await consumer.receive()
                assert message is not None
                self._note_received(topic, Reading.CHECKPOINT, message)
                if self._random.random() < 0.3:
                    checkpoint = consumer.checkpoint()

        return self.run(body)

    async def _consume_classic(
        self, client: AsyncPulsarClient, topic: str, reading: Reading
    ) -> None:
        """Now and then it is slow, so that it has more than it has seen, or leaves and comes back:
        what others get meanwhile is the interesting part of a shared subscription.
        """
        while True:
            consumer = await client.consumer(
                topic,
                reading,
                type=reading,
                initial_position="earliest",
                name=self.name,
                ack_receipts=True,
            )
            while self._random.random() > _LEAVING_SHARE:
                message = await consumer.receive()
                assert message is not None
                self._note_received(topic, reading, message)
                if self._random.random() < _PAUSE_SHARE:
                    await asyncio.sleep(self._random.uniform(0, _PAUSE_S))
                await consumer.acknowledge(message)
                self._note_acknowledged(topic, reading, message)
                await self._rewind(consumer, topic, reading, message)
            await consumer.close()
            await asyncio.sleep(self._random.uniform(0, _PAUSE_S))

    async def _rewind(
        self, consumer: Any, topic: str, reading: Reading, message: Any = None
    ) -> None:
        """Now and then: to the earliest, to a time in the middle, or to `message`."""
        if not self._rewinds or self._random.random() > _REWIND_SHARE:
            return
        self._rewinds -= 1
        traffic, time_s, only = self._traffic, 0.0, None
        target: MessageId | datetime = EARLIEST_ID
        word = "the earliest"
        received = traffic.received[topic, reading]
        limit_s = traffic.rewinds.find_limit(topic, reading, received, self._loop.time())
        chance = self._random.random()
        if message is not None and reading in _ONE_BY_ONE and chance < 0.4:
            target, only, word = message.id, parse(message), f"message {message.id}"
        elif limit_s is not None and chance < 0.7:
            time_s = self._random.uniform(0, limit_s)
            target, word = datetime.fromtimestamp(START_MS / 1000 + time_s, UTC), f"{time_s:.3f} s"
        traffic.on_rewinding(topic, reading, self._loop.time(), time_s=time_s, only=only)
        self._history.add(Rewound(topic, reading, False, word))
        try:
            await consumer.seek(target)
            is_done = True
        except ConsumerBusyError:  # some segments have moved, and no other will
            is_done = False
        traffic.rewinds.end(topic, reading, is_done=is_done)
        self._history.add(Rewound(topic, reading, True, word))

    def _note_received(self, topic: str, subscription: str, message: Any) -> None:
        key, number = parse(message)
        id_ = _id_of(message)
        self._history.add(Received(topic, subscription, self.name, key, number, id_))
        self._traffic.on_received(topic, subscription, key, number, id_)

    def _note_acknowledged(self, topic: str, subscription: str, message: Any) -> None:
        key, number = parse(message)
        id_ = _id_of(message)
        self._history.add(Acknowledged(topic, subscription, key, number, id_))
        self._traffic.rewinds.on_acknowledged(topic, subscription, (key, number), id_)

    def _note_refused(self, topic: str, subscription: str, message: Any) -> None:
        self._history.add(Refused(topic, subscription, _id_of(message)))
        self._traffic.on_refused(topic, subscription, parse(message), _id_of(message))


def parse(message: Any) -> tuple[str, int]:
    """Its key, and its number among those of the key."""
    key, _, number = message.data.decode().partition("#")
    return key, int(number)


def _id_of(message: Any) -> str:
    """Begins with where the message is stored, its segment or partition."""
    place = getattr(message, "segment_id", message.topic.rpartition("/")[2])
    return f"{place}@{message.id}"

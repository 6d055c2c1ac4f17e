"""Producers and consumers that work until the broker is gone and remember what it promised."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from random import Random

from magnetar.wire.ackset import encode_ack_set, full_ack_set
from magnetar.wire.command import (
    CommandSendError,
    CommandSendReceipt,
    MessageIdData,
    message_id,
    position_of,
)
from tests.crash.link import Delivery, Link, LinkLost, encode_send, make_ack
from tests.crash.promise import Key, Reading, Sent, Writing, keys_of

WINDOW = 100
PERMITS = 2000
BURST_MAX = 20
BATCH_MAX = 6
NOWHERE = -1

Note = Callable[[str], None]
"""Told of each receipt, acknowledgement and request, so that a kill can follow it closely."""


class Publisher:
    """Sends what a Writing makes and notes each receipt; the order of receipts is checked."""

    def __init__(self, link: Link, producer_id: int, writing: Writing, note: Note) -> None:
        self._link = link
        self._id = producer_id
        self._writing = writing
        self._note = note
        self._waiting: deque[Sent] = deque()
        self._answered = asyncio.Event()
        self.refusals: list[int] = []
        link.on_receipt[producer_id] = self._on_receipt
        link.on_send_error[producer_id] = self._on_send_error
        link.on_lost.append(self._answered.set)

    async def open(self) -> int:
        """Return the last sequence id the broker knows of this name."""
        answer = await self._link.create_producer(self._id, self._writing.topic, self._writing.name)
        return answer.last_sequence_id

    def send(self, entries: Sequence[Sent]) -> None:
        self._waiting.extend(entries)
        writing = self._writing
        self._link.write(
            b"".join(
                encode_send(
                    self._id, writing.name, sent.sequence, sent.payloads, batch=writing.batch
                )
                for sent in entries
            )
        )

    async def await_answers(self, left_max: int = 0) -> None:
        """Return when no more than so many are unanswered."""
        while len(self._waiting) > left_max:
            if self._link.lost.is_set():
                raise LinkLost("the receipts do not come any more")
            self._answered.clear()
            await self._answered.wait()

    async def run(self, random: Random) -> None:
        await self.open()
        while not self._link.lost.is_set():
            size_max = BATCH_MAX if self._writing.batch else 1
            sizes = [random.randint(1, size_max) for _ in range(random.randint(1, BURST_MAX))]
            self.send([self._writing.make(size) for size in sizes])
            await self.await_answers(WINDOW)
            await asyncio.sleep(random.choice((0, 0.001, 0.004)))

    def _on_receipt(self, receipt: CommandSendReceipt) -> None:
        sent = self._waiting.popleft()
        assert receipt.sequence_id == sent.sequence, "a receipt out of order"
        position = position_of(receipt.message_id)
        sent.position = None if position.ledger_id == NOWHERE else position
        sent.is_promised = True
        self._note("receipt")
        self._answered.set()

    def _on_send_error(self, error: CommandSendError) -> None:
        sent = self._waiting.popleft()
        assert error.sequence_id == sent.sequence + len(sent.payloads) - 1, "refused out of order"
        self.refusals.append(int(error.error))
        self._answered.set()


class Reader:
    """Receives, and acknowledges as its subscription's kind allows."""

    def __init__(self, link: Link, consumer_id: int, reading: Reading, note: Note) -> None:
        self._link = link
        self._id = consumer_id
        self._reading = reading
        self._note = note
        self._received: list[Delivery] = []
        self._came = asyncio.Event()
        link.on_delivery[consumer_id] = self._on_delivery
        link.on_lost.append(self._came.set)

    async def open(self, *, durable: bool = True) -> None:
        reading = self._reading
        await self._link.subscribe(
            self._id, reading.topic, reading.name, reading.kind, durable=durable
        )
        self._link.flow(self._id, PERMITS)

    async def read_until(self, payload: bytes) -> list[Delivery]:
        """Everything up to and including the message with this payload."""
        received: list[Delivery] = []
        while True:
            received += await self._take()
            if payload in received[-1].payloads.values():
                return received

    async def acknowledge_all(self, deliveries: Sequence[Delivery]) -> None:
        keys = {key for each in deliveries for key in keys_of(each)}
        self._reading.asked |= keys
        await self._link.acknowledge(self._id, [message_id(each.position) for each in deliveries])
        self._reading.promised |= keys

    async def run(self, random: Random) -> None:
        await self.open()
        seen: list[Delivery] = []
        async with asyncio.TaskGroup() as tasks:
            while not self._link.lost.is_set():
                seen += await self._take()
                if self._reading.cumulative:
                    target = random.randrange(len(seen))
                    ids, keys = self._through(seen[: target + 1], random)
                    # Of a batch a part may be left; the next acknowledgement covers it too.
                    seen = seen[target if seen[target].is_batch else target + 1 :]
                else:
                    chosen = [each for each in seen if random.random() < 0.7]
                    seen = []
                    ids, keys = self._each(chosen, random)
                if not ids:
                    continue
                self._reading.asked |= keys
                if random.random() < 0.5:
                    tasks.create_task(self._confirm(ids, keys))
                else:
                    self._link.send(make_ack(self._id, ids, cumulative=self._reading.cumulative))
                await asyncio.sleep(random.choice((0, 0.002, 0.01)))

    async def _confirm(self, ids: list[MessageIdData], keys: set[Key]) -> None:
        await self._link.acknowledge(self._id, ids, cumulative=self._reading.cumulative)
        self._reading.promised |= keys
        self._note("ack")

    def _each(
        self, chosen: Sequence[Delivery], random: Random
    ) -> tuple[list[MessageIdData], set[Key]]:
        ids, keys = [], set()
        for delivery in chosen:
            data = message_id(delivery.position)
            indexes = list(delivery.payloads)
            if delivery.is_batch:
                indexes = random.sample(indexes, random.randint(1, len(indexes)))
                left = full_ack_set(delivery.count)
                for index in indexes:
                    left &= ~(1 << index)
                data.ack_set.extend(encode_ack_set(left))
            ids.append(data)
            keys |= {(*delivery.position, index) for index in indexes}
        return ids, keys

    def _through(
        self, passed: Sequence[Delivery], random: Random
    ) -> tuple[list[MessageIdData], set[Key]]:
        last = passed[-1]
        data = message_id(last.position)
        keys = {key for each in passed for key in keys_of(each)}
        if last.is_batch:
            index = random.choice(list(last.payloads))
            left = full_ack_set(last.count) >> (index + 1) << (index + 1)
            data.ack_set.extend(encode_ack_set(left))
            keys -= {key for key in keys_of(last) if key[2] > index}
        return [data], keys

    async def _take(self) -> list[Delivery]:
        while not self._received:
            if self._link.lost.is_set():
                raise LinkLost("nothing comes any more")
            self._came.clear()
            await self._came.wait()
        taken, self._received = self._received, []
        self._link.flow(self._id, sum(each.count for each in taken))
        return taken

    def _on_delivery(self, delivery: Delivery) -> None:
        self._received.append(delivery)
        self._came.set()

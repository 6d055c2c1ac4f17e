"""How a topic comes to take no more messages, without any being sent twice or lost on the way:
because it ends, or is closed and served elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from magnetar.broker.producer_set import ProducerSet
from magnetar.broker.subscription import Subscription
from magnetar.errors import TopicTerminated
from magnetar.ledger.log import Log
from magnetar.model.name import TopicName
from magnetar.model.position import Position


class Termination:
    """A client sends again, elsewhere, what it has no receipt for when its producer is sent away.

    So everything taken is answered first, and what comes meanwhile is not taken. Producers get the
    reason when they come back: an error for a message on its way would leave some clients waiting.
    """

    def __init__(
        self,
        topic: TopicName,
        log: Log,
        producers: ProducerSet,
        subscriptions: Mapping[str, Subscription],
    ) -> None:
        self._topic = topic
        self._log = log
        self._producers = producers
        self._subscriptions = subscriptions
        self._over: asyncio.Event | None = None
        self._quiet = asyncio.Event()
        self._is_closing = False
        self.is_under_way = False
        """Whether what producers send is dropped: they are about to be sent away."""
        self.is_over = log.record.terminated is not None
        """Whether the topic takes no more messages, for ever."""

    async def wait(self) -> None:
        """Until it is known whether the topic takes messages."""
        while self._over is not None:
            await self._over.wait()

    def on_quiet(self) -> None:
        """A producer has its answers, or has left."""
        self._quiet.set()

    async def suspend(self) -> None:
        """Take nothing, and let no client in, until that ends. What comes is not answered, so
        the producers must be sent away.
        """
        await self.wait()
        self._over = asyncio.Event()
        self.is_under_way = True

    async def quiesce(self) -> None:
        """Take nothing more, since the topic is about to close, and answer what was taken."""
        self._is_closing = self.is_under_way = True
        await self._answer_all()

    async def disconnect_clients(self) -> None:
        await self._answer_all()
        for producer in self._producers:
            producer.disconnect()

    def resume(self) -> None:
        """Let those in who waited, if they may come in.

        Producers that were not sent away, because the end was given up half-way, may have lost what
        they sent meanwhile: nothing more is taken of them until they come anew.
        """
        assert self._over is not None, "it is suspended"
        for producer in self._producers:
            producer.fail()
        self._over.set()
        self._over = None
        self.is_under_way = self._is_closing

    async def run(self) -> Position:
        """Again is the same as once."""
        await self.suspend()
        try:
            await self.disconnect_clients()
            last = await self._log.terminate()
            self.is_over = True
        finally:
            self.resume()
        terminated = TopicTerminated(f"Topic {self._topic} was terminated")
        self._producers.fail_waiting(terminated)
        for subscription in list(self._subscriptions.values()):
            subscription.on_end_reached()
        return last

    async def _answer_all(self) -> None:
        while any(not producer.is_idle for producer in self._producers):
            self._quiet.clear()
            await self._quiet.wait()

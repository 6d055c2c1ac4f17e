"""Connections to brokers that a worker of Spark keeps from one task to the next.

Spark hands tasks to one worker after another, and ends a worker that was idle for a minute. A task
borrows what an earlier one has left, and gives it back when all that it opened there is closed or
left: connecting, TLS, authentication, and learning the layouts of topics, are paid for once.
Producers go on under another name: under it, what an earlier attempt has stored is recognized, so a
task must leave it to its next attempt, wherever that runs.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Final, TypeVar

from magnetar import Admin, AsyncPulsarClient
from magnetar.columns import AsyncResumableProducer
from magnetar.spark.access import open_admin
from magnetar.spark.client_option import make_keywords
from magnetar.spark.option import Broker

T = TypeVar("T")

_TURNS: Final = 3
"""Rounds of a loop in which it gets to know what became of its sockets."""
_IDLE_MAX: Final = 4
"""A worker reads from one broker and writes to another one, mostly."""
_PRODUCERS_MAX: Final = 32
_PRODUCER_S: Final = 60.0
"""As long as Spark keeps a worker that is idle."""


def make_client(broker: Broker) -> AsyncPulsarClient:
    """Inside a running loop."""
    return AsyncPulsarClient(
        broker.service_url,
        authentication=broker.access.authentication,
        tls=broker.access.tls,
        operation_timeout=broker.timeout_s,
        **make_keywords(broker.client),
    )


class ProducerPool:
    """What tasks have left of producers, each without a name; those used last are kept, for a
    while.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._idle: OrderedDict[Hashable, tuple[AsyncResumableProducer[Any], float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._idle)

    async def borrow(self, key: Hashable) -> AsyncResumableProducer[Any] | None:
        """One that knows its topic as it is."""
        await self._expire(_PRODUCERS_MAX)
        producer, _ = self._idle.pop(key, (None, 0.0))
        if producer is not None and not producer.is_current:
            await producer.close()
            return None
        return producer

    async def give_back(self, key: Hashable, producer: AsyncResumableProducer[Any]) -> None:
        await self._expire(_PRODUCERS_MAX - 1)
        if key in self._idle:
            await self._idle.pop(key)[0].close()
        self._idle[key] = producer, self._now()

    async def _expire(self, most: int) -> None:
        """Those used first come first."""
        oldest = self._now() - _PRODUCER_S
        while self._idle:
            key, (producer, used) = next(iter(self._idle.items()))
            if len(self._idle) <= most and used > oldest:
                return
            del self._idle[key]
            await producer.close()


class Link:
    """A client of each kind, made when first needed, for one thread. Its loop runs in steps.

    Steps run on the runner's loop and not by the runner, which has each task's result spelled out
    when it takes its handler of signals away: that costs more than reading a large entry.
    """

    def __init__(self, broker: Broker) -> None:
        self.broker: Final = broker
        self.process: Final = os.getpid()
        self.producers: Final = ProducerPool()
        self._runner = asyncio.Runner()
        self._client: AsyncPulsarClient | None = None
        self._admin: Admin | None = None

    @property
    def admin(self) -> Admin:
        if self._admin is None:
            broker = self.broker
            self._admin = open_admin(broker.admin_url, broker.access, timeout_s=broker.timeout_s)
        return self._admin

    def step(self, body: Coroutine[Any, Any, T]) -> T:
        """Go on with what is open."""
        return self._runner.get_loop().run_until_complete(body)

    def run(self, body: Callable[[AsyncPulsarClient], Coroutine[Any, Any, T]]) -> T:
        """Begin something, knowing of connections that were closed while the loop stood still."""

        async def call() -> T:
            if self._client is None:
                self._client = make_client(self.broker)
            for _ in range(_TURNS):
                await asyncio.sleep(0)
            return await body(self._client)

        return self.step(call())

    def close(self) -> None:
        if self._admin is not None:
            self._admin.close()
        if self._client is not None:
            self.step(self._client.close(immediate=True))
        self._runner.close()


class LinkPool:
    """What tasks of one process have left, last one last."""

    def __init__(self) -> None:
        self._idle: list[Link] = []

    def __len__(self) -> int:
        return len(self._idle)

    def borrow(self, broker: Broker) -> Link:
        """For the caller alone, until it is given back."""
        for link in reversed(self._idle):
            # A process that was forked off has its own, not those of its parent.
            if link.broker == broker and link.process == os.getpid():
                self._idle.remove(link)
                return link
        return Link(broker)

    def give_back(self, link: Link) -> None:
        """Nothing of the borrower's is open there any more."""
        self._idle.append(link)
        while len(self._idle) > _IDLE_MAX:
            self._idle.pop(0).close()

    def close(self) -> None:
        """What a parent has open is not closed by a process that it forked off."""
        idle, self._idle = self._idle, []
        for link in idle:
            if link.process == os.getpid():
                link.close()


POOL: Final = LinkPool()
atexit.register(POOL.close)

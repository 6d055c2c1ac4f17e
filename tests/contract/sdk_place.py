"""Where the SDK's suites run: the asyncio client and the blocking one, on each kind of broker.

The suites speak asyncio. The blocking client answers them from threads, so that one body tests
both. One kind of broker keeps its data in files, the other is two brokers on bookies. A real Apache
Pulsar takes part when MAGNETAR_PEER_URL and MAGNETAR_PEER_ADMIN name one.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import Any, Final

from magnetar import AsyncPulsarClient, PulsarClient
from magnetar.client.admin import AdminClient
from magnetar.runtime.clock import SystemClock

PEER_URL: Final = os.environ.get("MAGNETAR_PEER_URL", "")
PEER_ADMIN: Final = os.environ.get("MAGNETAR_PEER_ADMIN", "")

PATIENCE_S: Final = 20.0
"""How long something that must come may take; SILENCE_S: how long one waits for nothing."""
SILENCE_S: Final = 0.3


class Flavour(StrEnum):
    ASYNC = "async"
    SYNC = "sync"


class Kind(StrEnum):
    MAGNETAR = "magnetar"
    APACHE = "apache"
    CLUSTER = "cluster"


KINDS: Final = [each for each in Kind if each is not Kind.APACHE or (PEER_URL and PEER_ADMIN)]

_FACTORIES: Final = frozenset(
    {
        "producer",
        "queue_consumer",
        "stream_consumer",
        "checkpoint_consumer",
        "consumer",
        "reader",
        "table_view",
        "transaction",
    }
)
_PLAIN: Final = frozenset(
    {
        "receive_nowait",
        "negative_acknowledge",
        "checkpoint",
        "pause",
        "resume",
        "stop",
    }
)
"""Methods that do not wait in either client."""


class ThreadedOpening:
    """To be awaited or entered, as what the asyncio client's factories return."""

    def __init__(self, open: Callable[[], Any]) -> None:
        self._open = open
        self._handle: Threaded | None = None

    def __await__(self) -> Generator[Any, Any, Threaded]:
        return self._run().__await__()

    async def _run(self) -> Threaded:
        return Threaded(await asyncio.to_thread(self._open))

    async def __aenter__(self) -> Threaded:
        self._handle = await self._run()
        return self._handle

    async def __aexit__(self, *raised: object) -> None:
        assert self._handle is not None
        await asyncio.to_thread(self._handle.inner.__exit__, *raised)


class Threaded:
    """A blocking client, producer or consumer, seen from an event loop."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        if name in _FACTORIES:
            return lambda *given, **named: ThreadedOpening(lambda: found(*given, **named))
        if name == "layout_changes":
            return lambda topic: Threaded(found(topic))
        if name == "processing":
            return lambda message: _processing(found(message))
        if not callable(found) or name in _PLAIN:
            return found
        if name in ("submit", "send_nowait"):
            return self._submitting(found, is_plain=name == "send_nowait")
        return lambda *given, **named: asyncio.to_thread(
            found, *map(_bare, given), **{word: _bare(each) for word, each in named.items()}
        )

    @staticmethod
    def _submitting(found: Callable[..., Any], *, is_plain: bool) -> Callable[..., Any]:
        def plain(*given: Any, **named: Any) -> asyncio.Future[Any]:
            return asyncio.wrap_future(found(*given, **named))

        async def waiting(*given: Any, **named: Any) -> asyncio.Future[Any]:
            bare = {word: _bare(each) for word, each in named.items()}
            return asyncio.wrap_future(await asyncio.to_thread(found, *given, **bare))

        return plain if is_plain else waiting

    async def __aenter__(self) -> Threaded:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __aiter__(self) -> Threaded:
        return self

    async def __anext__(self) -> Any:
        found = await asyncio.to_thread(next, self.inner, None)
        if found is None:
            raise StopAsyncIteration
        return found


def _bare(given: Any) -> Any:
    """What a blocking call takes: transactions of the blocking client."""
    return given.inner if isinstance(given, Threaded) else given


@asynccontextmanager
async def _processing(scope: Any) -> AsyncIterator[Any]:
    entered = await asyncio.to_thread(scope.__enter__)
    try:
        yield entered
    except BaseException as error:
        await asyncio.to_thread(scope.__exit__, type(error), error, error.__traceback__)
        raise
    await asyncio.to_thread(scope.__exit__, None, None, None)


class Place:
    """One broker and one client."""

    def __init__(self, kind: Kind, flavour: Flavour, url: str, admin_url: str) -> None:
        self.kind = kind
        self.flavour = flavour
        self.url = url
        self.admin_url = admin_url
        self.admin = AdminClient(admin_url)

    @property
    def is_apache(self) -> bool:
        return self.kind is Kind.APACHE

    @asynccontextmanager
    async def client(self, **options: Any) -> AsyncIterator[Any]:
        if self.flavour is Flavour.ASYNC:
            async with AsyncPulsarClient(self.url, **options) as client:
                yield client
        else:
            threaded = Threaded(PulsarClient(self.url, **options))
            async with threaded:
                yield threaded

    def name_topic(self, namespace: str = "public/default") -> str:
        """A name nobody has used."""
        return f"topic://{namespace}/t-{uuid.uuid4().hex[:12]}"

    def create_topic(
        self,
        segments: int = 1,
        properties: Mapping[str, str] | None = None,
        *,
        namespace: str = "public/default",
    ) -> str:
        topic = self.name_topic(namespace)
        self.admin.scalable_topics.create(topic, segments=segments, properties=properties)
        return topic

    def create_topic_named(self, topic: str) -> None:
        self.admin.scalable_topics.create(topic)

    def create_namespace(self) -> str:
        namespace = f"public/n-{uuid.uuid4().hex[:12]}"
        self.admin.namespaces.create(namespace)
        return namespace

    @property
    def grace_s(self) -> float:
        """How long others may wait for the segments of a consumer that left.

        Apache Pulsar does not tell leaving from being cut off, and waits a minute for it.
        """
        return 90.0 if self.is_apache else PATIENCE_S

    def now_ms(self) -> int:
        return SystemClock().now_ms()

    async def cut(self, client: Any) -> None:
        """End all connections of a client as a broken network does, with nobody saying goodbye."""
        if isinstance(client, AsyncPulsarClient):
            _abort(client)
        else:
            facade = client.inner
            await asyncio.to_thread(facade._loop.call, lambda: _abort(facade._inner))

    async def unfence(self, namespace: str) -> None:
        """Apache Pulsar leaves a segment that was sealed under load closed to readers."""
        if self.is_apache:
            await asyncio.to_thread(self.admin.namespaces.unload, namespace)

    async def split(self, topic: str, segment: int) -> None:
        await asyncio.to_thread(self.admin.scalable_topics.split, topic, segment)

    async def merge(self, topic: str, left: int, right: int) -> None:
        await asyncio.to_thread(self.admin.scalable_topics.merge, topic, left, right)


def _abort(client: AsyncPulsarClient) -> None:
    pool = client._session.pool
    for connection in (*pool._open.values(), *pool._own):
        if connection.is_open and connection._transport is not None:
            connection._transport.abort()


async def take(consumer: Any, count: int) -> list[Any]:
    """Exactly so many messages, however long each may take within reason."""
    messages = []
    while len(messages) < count:
        message = await consumer.receive(PATIENCE_S)
        assert message is not None, f"{len(messages)} of {count} messages came"
        messages.append(message)
    return messages


async def until(condition: Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
    async with asyncio.timeout(patience_s):
        while not condition():
            await asyncio.sleep(0.01)


async def until_equal(observe: Callable[[], Awaitable[Any]], expected: Any) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while await observe() != expected:
            await asyncio.sleep(0.05)

"""What an application opens: `async with` closes it.

With what producers and consumers ask of a transaction, whichever face of the client opened it.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

from magnetar.client.error import ConfigurationError, PulsarError
from magnetar.model.name import TopicName
from magnetar.model.segment import SegmentId
from magnetar.model.transaction import TransactionId
from magnetar.runtime.log import Logger

_log = Logger(__name__)


@dataclass(frozen=True, slots=True)
class ProducerStats:
    """Of a producer on a scalable or a regular topic."""

    sent: int
    """Messages that the broker has stored."""
    failed: int
    pending: int
    """Those whose end is not known yet."""
    segments: tuple[SegmentId, ...] = ()
    """Where it has a producer now; of a regular topic, the partitions, or 0."""


@dataclass(frozen=True, slots=True)
class ConsumerStats:
    """Of a consumer or a reader, of scalable or regular topics."""

    received: int
    acknowledged: int
    """Calls; one cumulative acknowledgement may cover many messages."""
    refused: int
    """Negative acknowledgements."""
    waiting: int
    """Messages that are here already and were not received."""
    segments: Mapping[str, tuple[SegmentId, ...]]
    """Each topic it consumes, and which segments of it; of a regular one, which partitions."""


class Closable(Protocol):
    async def close(self) -> None: ...


H = TypeVar("H", bound=Closable)


class Opening(Generic[H]):
    """`handle = await opening`, or `async with opening as handle`, which closes it at the end."""

    def __init__(self, open: Callable[[], Awaitable[H]]) -> None:
        self._open = open
        self._handle: H | None = None

    async def open(self) -> H:
        """The same as a coroutine, for `create_task`."""
        return await self._open()

    if not TYPE_CHECKING:  # to mypy it has nothing but what stands here

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(
                f"It is not open yet and has no {name!r}: await it first, or enter it with"
                " `async with`"
            )

    def __await__(self) -> Generator[Any, Any, H]:
        return self._open().__await__()

    async def __aenter__(self) -> H:
        self._handle = await self._open()
        return self._handle

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._handle is not None:
            with behind(error):
                await self._handle.close()


class FirstFailure:
    """What went wrong after its caller had gone on: the first, until it is raised."""

    __slots__ = ("error",)

    def __init__(self) -> None:
        self.error: PulsarError | None = None

    def note(self, error: PulsarError) -> None:
        self.error = self.error or error

    def check(self) -> None:
        """Raise it, once."""
        if self.error is not None:
            error, self.error = self.error, None
            raise error


@contextmanager
def behind(error: BaseException | None) -> Iterator[None]:
    """What closing raises must not hide the error that a body has ended with: it is logged."""
    try:
        yield
    except PulsarError as failure:
        if error is None:
            raise
        _log.warning(failure.sentence)


class Handle(ABC):
    def __repr__(self) -> str:
        return f"<{type(self).__name__}{summarize(self)}>"

    def _tell_state(self) -> str:
        """In a word, for `repr`."""
        session = getattr(self, "_session", None)
        return "" if session is None else "open" if self in session.made else "closed"

    @abstractmethod
    async def close(self) -> None: ...

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with behind(error):
            await self.close()


def summarize(handle: object) -> str:
    """On what, whether it is open, and what is pending; any thread may ask."""
    topics = getattr(handle, "topic", None) or ", ".join(getattr(handle, "topics", ()))
    parts = [topics] if topics else []
    subscription = getattr(handle, "subscription", None)
    if subscription:
        parts.append(f"subscription {subscription}")
    state = handle._tell_state() if isinstance(handle, Handle) else ""
    if state:
        parts.append(state)
    admission, inbox = getattr(handle, "_admission", None), getattr(handle, "_inbox", None)
    if admission is not None:
        parts.append(f"{admission.pending} pending")
    if inbox is not None:
        parts.append(f"{len(inbox)} waiting")
    return " " + ", ".join(parts) if parts else ""


class Enlisting(Protocol):
    """A transaction, seen by what takes part in it."""

    @property
    def id(self) -> TransactionId: ...

    def follow(self, client: object, operation: asyncio.Future[Any]) -> None:
        """Let the commit wait for it; raise unless the transaction is open, and of this client."""

    def enlist_topic(self, topic: TopicName) -> asyncio.Future[None] | None:
        """To be awaited before the first message to a topic; None once that is done."""

    def enlist_subscription(
        self, topic: TopicName, subscription: str
    ) -> asyncio.Future[None] | None:
        """To be awaited before the first acknowledgement on a subscription."""

    def when_undone(self, call: Callable[[], None]) -> None:
        """Call it if the transaction ends in any other way than by its commit."""


class TransactionHandle(ABC):
    """What `transaction=` takes: a transaction of the asyncio client, or of the blocking one."""

    @property
    @abstractmethod
    def enlisting(self) -> Enlisting: ...


def find_enlisting(given: object) -> Enlisting | None:
    if given is None:
        return None
    if not isinstance(given, TransactionHandle):
        raise ConfigurationError(f"transaction is what client.transaction() makes, not {given!r}")
    return given.enlisting

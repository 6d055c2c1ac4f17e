"""A metadata server with sessions, as simulated processes reach it over the network.

The server is a tree in memory. A session has one stream of answers and changes, in order: the
changes that a client's own write made come before its answer. A client that does not
reach the server for the length of a session loses it, with its ephemeral records.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from random import Random
from typing import Any, Final, TypeVar

from magnetar.errors import StoreClosed, StoreUnavailable
from magnetar.metadata.backends.memory import MemoryTree
from magnetar.metadata.path import check_directory, check_path, child_of
from magnetar.metadata.sequence import check_deltas
from magnetar.metadata.store import (
    EMBEDDED_RECORD_BYTES_MAX,
    Cancel,
    Change,
    ChangeListener,
    Record,
    SessionEvent,
    SessionListener,
    Stat,
)
from magnetar.metadata.watch import Watchers
from magnetar.runtime.clock import Clock
from magnetar.testing.simulation.loop import Process

T = TypeVar("T")

SESSION_S: Final = 10.0
_DELAY_S: Final = (0.0002, 0.004)
_LOST_AFTER: Final = 5 / 6
"""When a client gives its session up, as a share of its length."""
_KEPT_MOST: Final = 2.0
"""How long the server may keep it: its time begins anew when a server comes back."""


class MetadataServer:
    """The one that all processes share. It does not fail; links to it do."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        random: Random,
        clock: Clock,
        session_s: float = SESSION_S,
    ) -> None:
        self.tree = MemoryTree(clock)
        self.session_s: Final = session_s
        self._numbers: Counter[str] = Counter()
        self._loop = loop
        self._random = random

    def open(self, process: Process) -> SimulatedStore:
        store = SimulatedStore(self, self._loop, self._random)
        # The server learns of a death by silence alone.
        process.on_killed.append(lambda: store.on_killed())
        return store

    def take_number(self, prefix: str) -> int:
        self._numbers[prefix] += 1
        return self._numbers[prefix]

    def expire_later(self, store: SimulatedStore, session: int, length: float = 1.0) -> None:
        """Unless the client reports within the length of a session, or some more."""
        context = contextvars.Context()
        after_s = self.session_s * length
        self._loop.call_later(after_s, self._expire, store, session, context=context)

    def _expire(self, store: SimulatedStore, session: int) -> None:
        if store.session == session and not store.is_heard:
            store.is_expired = True
            self.tree.drop_session(session)


class SimulatedStore:
    """A client of the server, with one session at a time."""

    record_bytes_max = EMBEDDED_RECORD_BYTES_MAX

    def __init__(
        self, server: MetadataServer, loop: asyncio.AbstractEventLoop, random: Random
    ) -> None:
        self._server = server
        self._tree = server.tree
        self._loop = loop
        self._random = random
        self._context = contextvars.copy_context()
        self._watchers = Watchers()
        self.session = self._tree.open_session()
        self.is_heard = True
        """Whether the client reaches the server."""
        self.is_expired = False
        """Whether the server has ended the session."""
        self.has_session = True
        """Until the client gives it up: it does so a little earlier, and the server may keep it."""
        self._is_unaware = False
        """Whether the client has yet to learn that the connection was lost."""
        self._is_closing = self._is_closed = False
        self._asked: list[asyncio.Future[Any]] = []
        self._arrives_at_s = 0.0
        self._link = 0
        """Counts connections: what one had on its way does not arrive over the next."""
        self._tree.attach(self)  # type: ignore[arg-type]

    # ------------------------------------------------------------------ the link

    def disconnect(self, *, is_noticed: bool = True) -> None:
        """The client and the server lose each other. One that is paused does not notice."""
        if self.is_heard and not self._is_closed:
            self.is_heard = False
            self._is_unaware = not is_noticed
            self._link += 1
            kept = self._random.uniform(1.0, _KEPT_MOST) if is_noticed else 1.0
            self._server.expire_later(self, self.session, kept)
            if is_noticed:
                self._tell(SessionEvent.CONNECTION_LOST)
                patience_s = self._server.session_s * _LOST_AFTER
                self._loop.call_later(patience_s, self._give_up, self._link, context=self._context)

    def _give_up(self, link: int) -> None:
        if link == self._link and not self.is_heard and self.has_session:
            self.has_session = False
            self._tell(SessionEvent.SESSION_LOST)

    def reconnect(self) -> None:
        if self.is_heard or self._is_closed:
            return
        if self._is_unaware:
            self._is_unaware = False
            self._tell(SessionEvent.CONNECTION_LOST)
        self.is_heard = True
        is_lost = self.is_expired or not self.has_session
        if self.is_expired:
            self.session = self._tree.open_session()
        if is_lost and self.has_session:
            self._tell(SessionEvent.SESSION_LOST)
        self.is_expired, self.has_session = False, True
        self._tell(SessionEvent.RECONNECTED)
        if is_lost:
            self._tell(SessionEvent.SESSION_REESTABLISHED)

    def on_killed(self) -> None:
        self.is_heard = False
        self._is_closing = self._is_closed = True
        self._tree.detach(self)  # type: ignore[arg-type]
        self._server.expire_later(self, self.session)

    def _tell(self, event: SessionEvent) -> None:
        self._loop.call_soon(self._watchers.tell_session, event, context=self._context)

    def on_changes(self, changes: Iterable[Change]) -> None:
        """The tree has changed: the session is notified of it in order."""
        if self.is_heard:
            self._arrive(self._watchers.tell, list(changes))

    def _arrive(self, callback: Callable[..., object], *args: object) -> None:
        delay_s = self._random.uniform(*_DELAY_S)
        self._arrives_at_s = max(self._arrives_at_s, self._loop.time() + delay_s)
        link = self._link

        def arrive() -> None:
            if link == self._link:
                callback(*args)

        self._loop.call_at(self._arrives_at_s, arrive, context=self._context)

    async def _ask(self, operation: Callable[[], T]) -> T:
        """The request may be lost before the server has it, and the answer after."""
        if self._is_closing:
            raise StoreClosed("The metadata store is closed")
        if not self.is_heard:
            raise StoreUnavailable("The metadata store cannot be reached")
        link = self._link
        answered: asyncio.Future[T] = self._loop.create_future()
        self._asked.append(answered)

        def answer(result: T) -> None:
            if not answered.done():
                answered.set_result(result)

        def refuse(error: Exception) -> None:
            if not answered.done():
                answered.set_exception(error)

        def serve() -> None:
            if link != self._link or self._is_closed:
                return
            try:
                result = operation()
            except Exception as error:
                self._arrive(refuse, error)
            else:
                self._arrive(answer, result)

        self._loop.call_later(self._random.uniform(*_DELAY_S), serve, context=contextvars.Context())
        lost = self._watchers.add_session(
            lambda event: (
                refuse(StoreUnavailable("The link to the metadata store was lost"))
                if event is SessionEvent.CONNECTION_LOST
                else None
            )
        )
        try:
            return await answered
        finally:
            lost()
            self._asked.remove(answered)

    # ------------------------------------------------------------------ the contract

    async def get(self, path: str) -> Record | None:
        check_path(path)
        return await self._ask(lambda: self._record(path))

    async def exists(self, path: str) -> bool:
        check_directory(path)
        return await self._ask(lambda: self._tree.exists(path))

    async def children(self, path: str) -> tuple[str, ...]:
        check_directory(path)
        return await self._ask(lambda: self._tree.names(path))

    async def count_children(self, path: str) -> int:
        check_directory(path)
        return await self._ask(lambda: self._tree.count(path))

    async def scan_children(self, path: str) -> AsyncIterator[tuple[str, Record]]:
        for name in await self.children(path):
            record = await self.get(child_of(path, name))
            if record is not None:
                yield name, record

    async def put(self, path: str, value: bytes, *, expect: int, ephemeral: bool = False) -> Stat:
        check_path(path)
        owner = self.session if ephemeral else None
        return await self._ask(
            lambda: self._tree.put(path, value, expect, owner).stat(self.session)
        )

    async def put_sequence(
        self, prefix: str, value: bytes, *, deltas: Sequence[int], ephemeral: bool = False
    ) -> tuple[str, Stat]:
        check_path(prefix)
        check_deltas(deltas)
        owner = self.session if ephemeral else None

        def put() -> tuple[str, Stat]:
            path, node = self._tree.put_sequence(prefix, value, deltas, owner)
            return path, node.stat(self.session)

        return await self._ask(put)

    async def take_number(self, prefix: str) -> int:
        """A number that no client of the server gets a second time for this path."""
        check_path(prefix)
        return await self._ask(lambda: self._server.take_number(prefix))

    async def delete(self, path: str, *, expect: int) -> None:
        check_path(path)
        await self._ask(lambda: self._tree.delete(path, expect))

    async def delete_recursive(self, path: str) -> None:
        check_path(path)
        await self._ask(lambda: self._tree.delete_recursive(path))

    async def sync(self, path: str) -> None:
        check_directory(path)
        await self._ask(lambda: None)

    def watch(self, prefix: str, listener: ChangeListener) -> Cancel:
        return self._watchers.add(prefix, listener)

    def watch_session(self, listener: SessionListener) -> Cancel:
        return self._watchers.add_session(listener)

    @property
    def is_connected(self) -> bool:
        return self.is_heard

    async def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            if self._asked:
                await asyncio.wait(self._asked)
            self._is_closed = True
            self._tree.detach(self)  # type: ignore[arg-type]
            self._tree.drop_session(self.session)
            self._watchers.clear()

    def _record(self, path: str) -> Record | None:
        node = self._tree.get(path)
        return None if node is None else Record(node.value, node.stat(self.session))

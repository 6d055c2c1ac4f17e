"""Records on a ZooKeeper server or ensemble, through kazoo.

One session, one connection. What is asked in one turn of the event loop goes out together and is
answered together, so concurrent calls share their round trips. A persistent recursive watch, which
ZooKeeper has since 3.6, tells of every change; a server tells of a session's own write before it
answers it, which is what the contract asks for.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from kazoo.exceptions import KazooException

from magnetar.errors import InvalidConfiguration, InvalidPath, StoreClosed, StoreUnavailable
from magnetar.metadata.backends.zookeeper_link import (
    CONNECTED,
    Link,
    OwnEvents,
    is_connected,
    is_session_lost,
)
from magnetar.metadata.backends.zookeeper_request import (
    CHANGED,
    CREATED,
    DELETED,
    Found,
    Node,
    Request,
    watch_below,
)
from magnetar.metadata.backends.zookeeper_sasl import ZookeeperLogin
from magnetar.metadata.backends.zookeeper_tree import ZookeeperTree
from magnetar.metadata.backends.zookeeper_wire import ZookeeperTls
from magnetar.metadata.path import ROOT, check_directory, check_path, child_of, parent_of
from magnetar.metadata.sequence import check_deltas
from magnetar.metadata.store import (
    Cancel,
    Change,
    ChangeKind,
    ChangeListener,
    Record,
    SessionEvent,
    SessionListener,
    Stat,
)
from magnetar.metadata.watch import Watchers
from magnetar.runtime.clock import SYSTEM, Clock, Timer
from magnetar.runtime.log import Logger

_log = Logger(__name__)

_PAGE: Final = 512
_PATIENCE_S: Final = 10.0
_LOST_AFTER: Final = 5 / 6
_URL: Final = re.compile(r"(?:zk|zookeeper):(?://)?([^/]+)(/.*)?")

RECORD_BYTES_MAX: Final = 900_000
"""A request of 1 MiB is refused by the server, its path and the rest of it included."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ZookeeperAddress:
    hosts: str
    root: str
    """Empty, or the path of the node below which everything is kept."""


def parse_address(url: str) -> ZookeeperAddress:
    """Read `zk://host:port[,…]/chroot`, also without the slashes, and with `zookeeper` for `zk`."""
    found = _URL.fullmatch(url)
    root = "" if found is None else (found.group(2) or "").rstrip("/")
    try:
        if root:
            check_path(root)
    except InvalidPath:
        found = None
    if found is None or any(not each.strip() for each in found.group(1).split(",")):
        raise InvalidConfiguration(f"{url!r} is not of the form zk://host:port[,host:port]/chroot")
    return ZookeeperAddress(found.group(1), root)


class ZookeeperStore:
    """Belongs to the event loop that opened it.

    Calls wait a moment for a lost connection to come back, and end with StoreUnavailable when the
    server does not answer within `deadline_s`.
    """

    record_bytes_max = RECORD_BYTES_MAX

    def __init__(
        self,
        address: ZookeeperAddress,
        *,
        session_timeout_s: float,
        deadline_s: float,
        clock: Clock,
        tls: ZookeeperTls | None = None,
        login: ZookeeperLogin | None = None,
    ) -> None:
        self._address = address
        self._link = Link(address.hosts, session_timeout_s, deadline_s, self, clock, tls, login)
        self._tree = ZookeeperTree(address.root, self._ask)
        self._clock = clock
        self._watchers = Watchers()
        self._ready = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._under_way = 0
        self._session_timeout_s = session_timeout_s
        self._deadline_s = deadline_s
        self._gone_since = clock.monotonic()
        self._session_gone = False
        self._opened = False
        self._closed = False
        self._turn = 0
        self._losing: Timer | None = None

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        session_timeout_s: float = 30.0,
        deadline_s: float = 30.0,
        clock: Clock = SYSTEM,
        tls: ZookeeperTls | None = None,
        login: ZookeeperLogin | None = None,
    ) -> ZookeeperStore:
        """Raise InvalidConfiguration for what is no address, StoreUnavailable when no server
        answers.
        """
        store = cls(
            parse_address(url),
            session_timeout_s=session_timeout_s,
            deadline_s=deadline_s,
            clock=clock,
            tls=tls,
            login=login,
        )
        store._link.start()
        try:
            async with clock.timeout(deadline_s):
                await store._ready.wait()
            await store._tree.make_root()
        except TimeoutError:
            await store._link.stop()
            hosts, refusal = store._address.hosts, store._link.refusal
            if refusal:
                raise StoreUnavailable(f"No login at ZooKeeper {hosts}: {refusal}") from None
            sentence = f"No ZooKeeper answers at {hosts} within {deadline_s:g} s"
            raise StoreUnavailable(sentence) from None
        except BaseException:
            await store._link.stop()
            raise
        store._opened = True
        return store

    async def get(self, path: str) -> Record | None:
        self._check(path)
        found = await self._tree.find(path)
        return None if found is None else self._record(found)

    async def exists(self, path: str) -> bool:
        self._check_directory(path)
        return await self._tree.exists(path)

    async def children(self, path: str) -> tuple[str, ...]:
        self._check_directory(path)
        return await self._tree.children(path)

    async def count_children(self, path: str) -> int:
        self._check_directory(path)
        return await self._tree.count_children(path)

    async def scan_children(self, path: str) -> AsyncIterator[tuple[str, Record]]:
        names = await self.children(path)
        for start in range(0, len(names), _PAGE):
            self._check_directory(path)
            page = names[start : start + _PAGE]
            found = await asyncio.gather(*(self._tree.find(child_of(path, name)) for name in page))
            for name, each in zip(page, found, strict=True):
                if each is not None:
                    yield name, self._record(each)

    async def put(self, path: str, value: bytes, *, expect: int, ephemeral: bool = False) -> Stat:
        self._check(path)
        node = await self._write(self._tree.put(path, value, expect, ephemeral))
        return self._stat(node)

    async def put_sequence(
        self, prefix: str, value: bytes, *, deltas: Sequence[int], ephemeral: bool = False
    ) -> tuple[str, Stat]:
        self._check(prefix)
        check_deltas(deltas)
        path, node = await self._write(self._tree.put_sequence(prefix, value, deltas, ephemeral))
        return path, self._stat(node)

    async def take_number(self, prefix: str) -> int:
        """A number that no client of the server gets a second time for this path: for records of
        other programs, which number theirs so.
        """
        self._check(prefix)
        return await self._write(self._tree.take_number(prefix))

    async def delete(self, path: str, *, expect: int) -> None:
        self._check(path)
        await self._write(self._tree.delete(path, expect))

    async def delete_recursive(self, path: str) -> None:
        self._check(path)
        await self._write(self._tree.delete_recursive(path))

    async def sync(self, path: str) -> None:
        self._check_directory(path)
        await self._tree.sync(path)

    def watch(self, prefix: str, listener: ChangeListener) -> Cancel:
        return self._watchers.add(prefix, listener)

    def watch_session(self, listener: SessionListener) -> Cancel:
        return self._watchers.add_session(listener)

    @property
    def is_connected(self) -> bool:
        return self._ready.is_set()

    @property
    def has_session(self) -> bool:
        if self._session_gone:
            return False
        silent_s = self._clock.monotonic() - self._link.proved_s
        if silent_s < self._session_timeout_s:
            return True
        _log.warning("session given up: no server proved it in time", silent_s=round(silent_s, 1))
        self._lose_session()
        if self._ready.is_set():  # the server says what became of it
            self.on_turn(CONNECTED)
        return False

    @property
    def session(self) -> tuple[int, bytes]:
        """The session's number and password; a holder of both may take it over or end it."""
        return self._link.session

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        try:
            async with self._clock.timeout(self._deadline_s):
                await self._idle.wait()
        except TimeoutError:
            _log.warning("metadata store closed with writes under way", writes=self._under_way)
        self._watchers.clear()
        if self._losing is not None:
            self._losing.cancel()
        await self._link.stop()

    def on_event(self, kind: int, node: str, told_by: OwnEvents | None, hushed: bool) -> None:
        """Tell a change as the contract has it; called by the link, in order."""
        self._tree.on_event(kind, node)
        path = self._tree.path_of(node)
        if path is None or path == ROOT:
            return
        changes: list[Change] = []
        if kind == CHANGED:
            changes = [] if hushed else [Change(ChangeKind.MODIFIED, path)]
        elif kind == DELETED:
            changes = [] if hushed else [Change(ChangeKind.DELETED, path)]
            changes.append(Change(ChangeKind.CHILDREN_CHANGED, parent_of(path)))
        elif kind == CREATED and not hushed:
            grown = (parent_of(path), *(told_by.grown if told_by is not None else ()))
            changes = [Change(ChangeKind.CREATED, path)]
            changes += [Change(ChangeKind.CHILDREN_CHANGED, each) for each in grown]
        self._watchers.tell(changes)

    def on_turn(self, state: str) -> None:
        """The connection came or went; called by the link, in order."""
        self._turn += 1
        self._tree.forget()
        if is_connected(state):
            watching = self._link.ask(watch_below(self._tree.place(ROOT)))
            turn = self._turn
            watching.add_done_callback(lambda done: self._on_watching(turn, done))
            return
        if self._ready.is_set():
            self._ready.clear()
            self._gone_since = self._clock.monotonic()
            self._watchers.tell_session(SessionEvent.CONNECTION_LOST)
            patience_s = self._session_timeout_s * _LOST_AFTER
            self._losing = self._clock.call_later(patience_s, self._lose_session)
        if is_session_lost(state):
            self._lose_session()

    def _on_watching(self, turn: int, done: asyncio.Future[None]) -> None:
        """Changes are notified from here on: what is cached is dropped now."""
        error = done.exception()
        if turn != self._turn or self._closed:
            return
        if error is not None:
            _log.error("ZooKeeper does not let its tree be watched", error=error)
            return
        if self._losing is not None:
            self._losing.cancel()
        self._ready.set()
        if not self._opened:
            return
        self._watchers.tell_session(SessionEvent.RECONNECTED)
        if self._session_gone:
            self._session_gone = False
            self._watchers.tell_session(SessionEvent.SESSION_REESTABLISHED)

    def _lose_session(self) -> None:
        """The server said so, or must have: nothing reached it for nearly that long."""
        if self._opened and not self._session_gone and not self._closed:
            self._session_gone = True
            self._watchers.tell_session(SessionEvent.SESSION_LOST)

    def _ask(
        self,
        request: Request,
        own_events: OwnEvents | None = None,
        note: Callable[[Any], None] | None = None,
    ) -> Awaitable[Any]:
        if self._ready.is_set():
            return self._link.ask(request, own_events, note)
        return self._ask_later(request, own_events, note)

    async def _ask_later(
        self, request: Request, own_events: OwnEvents | None, note: Callable[[Any], None] | None
    ) -> Any:
        await self._wait_for_connection()
        return await self._link.ask(request, own_events, note)

    async def _wait_for_connection(self) -> None:
        # Without a session nothing is served here: a caller had better ask another broker.
        patience_s = min(_PATIENCE_S, self._deadline_s, self._session_timeout_s)
        try:
            async with self._clock.timeout_at(self._gone_since + patience_s):
                await self._ready.wait()
        except TimeoutError:
            hosts = self._address.hosts
            raise StoreUnavailable(f"No connection to ZooKeeper at {hosts}") from None

    async def _write(self, body: Awaitable[T]) -> T:
        """Closing waits for this."""
        self._under_way += 1
        self._idle.clear()
        try:
            return await body
        except KazooException as error:
            raise StoreUnavailable(f"ZooKeeper refused: {type(error).__name__}") from error
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._idle.set()

    def _record(self, found: Found) -> Record:
        return Record(found.value, self._stat(found.node))

    def _stat(self, node: Node) -> Stat:
        own = node.is_ephemeral and node.owner == self._link.session[0]
        return Stat(node.version, node.created_ms, node.modified_ms, node.is_ephemeral, own)

    def _check(self, path: str) -> None:
        self._check_open()
        check_path(path)

    def _check_directory(self, path: str) -> None:
        self._check_open()
        check_directory(path)

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosed("The metadata store is closed")

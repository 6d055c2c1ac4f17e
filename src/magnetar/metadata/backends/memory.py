"""Records in memory.

Several stores may share one tree, each with a session of its own, as brokers share a server.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass

from magnetar.errors import (
    RecordNotEmpty,
    RecordNotFound,
    StoreClosed,
    StoreUnavailable,
    VersionConflict,
)
from magnetar.metadata.path import (
    ROOT,
    check_directory,
    check_path,
    child_of,
    name_of,
    parent_of,
)
from magnetar.metadata.sequence import advance, check_deltas, format_sequence
from magnetar.metadata.store import (
    ABSENT,
    ANY_VERSION,
    EMBEDDED_RECORD_BYTES_MAX,
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
from magnetar.runtime.clock import Clock


@dataclass(slots=True)
class _Node:
    value: bytes
    version: int
    created_ms: int
    modified_ms: int
    owner: int | None

    def stat(self, session: int) -> Stat:
        return Stat(
            self.version,
            self.created_ms,
            self.modified_ms,
            self.owner is not None,
            self.owner == session,
        )


class MemoryTree:
    """What the stores share. Calls never wait, so each one is atomic on the event loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._nodes: dict[str, _Node] = {}
        self._names: dict[str, set[str]] = {}
        self._counters: dict[str, tuple[int, ...]] = {}
        self._stores: list[MemoryStore] = []
        self._sessions = 0

    def open_session(self) -> int:
        self._sessions += 1
        return self._sessions

    def attach(self, store: MemoryStore) -> None:
        self._stores.append(store)

    def detach(self, store: MemoryStore) -> None:
        self._stores.remove(store)

    def get(self, path: str) -> _Node | None:
        return self._nodes.get(path)

    def exists(self, path: str) -> bool:
        return path == ROOT or path in self._nodes or path in self._names

    def names(self, path: str) -> tuple[str, ...]:
        return tuple(sorted(self._names.get(path, ())))

    def count(self, path: str) -> int:
        return len(self._names.get(path, ()))

    def put(self, path: str, value: bytes, expect: int, owner: int | None) -> _Node:
        node = self._nodes.get(path)
        version = ABSENT if node is None else node.version
        if expect not in (ANY_VERSION, version):
            raise VersionConflict(f"Version of {path} is {version}, expected {expect}")
        now_ms = self._clock.now_ms()
        if node is not None:
            node.value, node.version, node.modified_ms = value, node.version + 1, now_ms
            self._tell([Change(ChangeKind.MODIFIED, path)])
            return node
        created = _Node(value, 0, now_ms, now_ms, owner)
        changes = [Change(ChangeKind.CREATED, path)]
        if path not in self._names:
            self._link(path, changes)
        self._nodes[path] = created
        self._tell(changes)
        return created

    def put_sequence(
        self, prefix: str, value: bytes, deltas: Sequence[int], owner: int | None
    ) -> tuple[str, _Node]:
        numbers = advance(self._counters.get(prefix, ()), deltas)
        path = format_sequence(prefix, numbers[: len(deltas)])
        node = self.put(path, value, ABSENT, owner)
        self._counters[prefix] = numbers
        return path, node

    def delete(self, path: str, expect: int) -> None:
        node = self._nodes.get(path)
        if node is not None and expect not in (ANY_VERSION, node.version):
            raise VersionConflict(f"Version of {path} is {node.version}, expected {expect}")
        if path in self._names:
            raise RecordNotEmpty(f"{path} has children")
        if node is None:
            raise RecordNotFound(f"No record at {path}")
        self._tell(self._remove(path))

    def delete_recursive(self, path: str) -> None:
        changes: list[Change] = []
        for name in self.names(path):
            self.delete_recursive(child_of(path, name))
        if path in self._nodes:
            changes += self._remove(path)
        self._tell(changes)

    def drop_session(self, session: int) -> None:
        owned = [path for path, node in self._nodes.items() if node.owner == session]
        for path in owned:
            self._tell(self._remove(path))

    def _link(self, path: str, changes: list[Change]) -> None:
        """Enter the path in its parent's list, and parents that were not there in theirs."""
        while path != ROOT:
            parent = parent_of(path)
            known = self.exists(parent)
            self._names.setdefault(parent, set()).add(name_of(path))
            changes.append(Change(ChangeKind.CHILDREN_CHANGED, parent))
            if known:
                return
            path = parent

    def _remove(self, path: str) -> list[Change]:
        del self._nodes[path]
        changes = [Change(ChangeKind.DELETED, path)]
        while path != ROOT and path not in self._names and path not in self._nodes:
            parent = parent_of(path)
            names = self._names[parent]
            names.discard(name_of(path))
            if not names:
                del self._names[parent]
            changes.append(Change(ChangeKind.CHILDREN_CHANGED, parent))
            path = parent
        return changes

    def _tell(self, changes: Iterable[Change]) -> None:
        for store in tuple(self._stores):
            store.on_changes(changes)


class MemoryStore:
    """A session on a tree.

    `disconnect`, `reconnect` and `expire` do what a network and a server would.
    """

    record_bytes_max = EMBEDDED_RECORD_BYTES_MAX

    has_session = True

    def __init__(self, tree: MemoryTree) -> None:
        self._tree = tree
        self._session = tree.open_session()
        self._watchers = Watchers()
        self._connected = True
        self._renewed = False
        self._closed = False
        tree.attach(self)

    async def get(self, path: str) -> Record | None:
        self._check(path)
        node = self._tree.get(path)
        return None if node is None else self._record(node)

    async def exists(self, path: str) -> bool:
        self._check_directory(path)
        return self._tree.exists(path)

    async def children(self, path: str) -> tuple[str, ...]:
        self._check_directory(path)
        return self._tree.names(path)

    async def count_children(self, path: str) -> int:
        self._check_directory(path)
        return self._tree.count(path)

    async def scan_children(self, path: str) -> AsyncIterator[tuple[str, Record]]:
        for name in await self.children(path):
            node = self._tree.get(child_of(path, name))
            if node is not None:
                yield name, self._record(node)

    async def put(self, path: str, value: bytes, *, expect: int, ephemeral: bool = False) -> Stat:
        self._check(path)
        owner = self._session if ephemeral else None
        return self._tree.put(path, value, expect, owner).stat(self._session)

    async def put_sequence(
        self, prefix: str, value: bytes, *, deltas: Sequence[int], ephemeral: bool = False
    ) -> tuple[str, Stat]:
        self._check(prefix)
        check_deltas(deltas)
        owner = self._session if ephemeral else None
        path, node = self._tree.put_sequence(prefix, value, deltas, owner)
        return path, node.stat(self._session)

    async def delete(self, path: str, *, expect: int) -> None:
        self._check(path)
        self._tree.delete(path, expect)

    async def delete_recursive(self, path: str) -> None:
        self._check(path)
        self._tree.delete_recursive(path)

    async def sync(self, path: str) -> None:
        self._check_directory(path)

    def watch(self, prefix: str, listener: ChangeListener) -> Cancel:
        return self._watchers.add(prefix, listener)

    def watch_session(self, listener: SessionListener) -> Cancel:
        return self._watchers.add_session(listener)

    @property
    def is_connected(self) -> bool:
        return self._connected

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._tree.detach(self)
        self._tree.drop_session(self._session)
        self._watchers.clear()

    def on_changes(self, changes: Iterable[Change]) -> None:
        if self._connected:
            self._watchers.tell(changes)

    def disconnect(self) -> None:
        """Lose the connection and keep the session: calls fail, changes go unheard."""
        self._connected = False
        self._watchers.tell_session(SessionEvent.CONNECTION_LOST)

    def reconnect(self) -> None:
        self._connected = True
        self._watchers.tell_session(SessionEvent.RECONNECTED)
        if self._renewed:
            self._renewed = False
            self._watchers.tell_session(SessionEvent.SESSION_REESTABLISHED)

    def expire(self) -> None:
        """Lose the session with its ephemeral records.

        While connected, a new session begins at once.
        """
        ended, self._session, self._renewed = self._session, self._tree.open_session(), True
        connected, self._connected = self._connected, False
        self._tree.drop_session(ended)
        self._watchers.tell_session(SessionEvent.SESSION_LOST)
        if connected:
            self.reconnect()

    def give_up(self) -> None:
        """Take the session for lost while the tree keeps it: the time of a session begins anew when
        a server that was away comes back.
        """
        self._renewed = True
        self._watchers.tell_session(SessionEvent.SESSION_LOST)

    def _record(self, node: _Node) -> Record:
        return Record(node.value, node.stat(self._session))

    def _check(self, path: str) -> None:
        self._check_open()
        check_path(path)

    def _check_directory(self, path: str) -> None:
        self._check_open()
        check_directory(path)

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosed("The metadata store is closed")
        if not self._connected:
            raise StoreUnavailable("The metadata store is not connected")

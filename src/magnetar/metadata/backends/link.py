"""A metadata store that another process of this machine keeps, reached over a link.

The session is the link: it ends when the process at this end does, after a time that the keeper
chooses, and when the keeper is gone nothing can be said of any record. There is no way back to a
keeper that was lost.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any, Final, Protocol, TypeVar

import msgspec

from magnetar.errors import StoreClosed
from magnetar.metadata.path import check_directory, check_path
from magnetar.metadata.sequence import check_deltas
from magnetar.metadata.store import (
    EMBEDDED_RECORD_BYTES_MAX,
    Cancel,
    Change,
    ChangeListener,
    MetadataStore,
    Record,
    SessionEvent,
    SessionListener,
    Stat,
)
from magnetar.metadata.watch import Watchers
from magnetar.runtime.link import Link

PREFIX: Final = "metadata/"
"""What the names of all requests and notices here begin with."""
_CHANGE: Final = f"{PREFIX}change"

T = TypeVar("T")

_encode: Final = msgspec.msgpack.Encoder().encode


class PagedStore(MetadataStore, Protocol):
    """A store that is listed in pages: each is one answer."""

    async def read_page(self, path: str, after: str) -> list[tuple[str, Record]]:
        """The first of the direct children that hold a record and whose names follow `after`; none
        when there are no more.
        """


class StoreKeeper:
    """The end that has the store: answers what one session asks, and tells it every change."""

    def __init__(self, session: PagedStore, link: Link) -> None:
        self._session = session
        self._link = link
        session.watch("/", self._on_change)
        self._operations: dict[str, Callable[..., Coroutine[Any, Any, object]]] = {
            "get": session.get,
            "exists": session.exists,
            "children": session.children,
            "count": session.count_children,
            "page": session.read_page,
            "put": self._put,
            "sequence": self._put_sequence,
            "delete": self._delete,
            "delete_recursive": session.delete_recursive,
            "sync": session.sync,
            "close": session.close,
        }

    async def serve(self, name: str, body: bytes) -> bytes:
        operation = self._operations[name.removeprefix(PREFIX)]
        return _encode(await operation(*msgspec.msgpack.decode(body)))

    async def end(self) -> None:
        """The session's process is gone."""
        await self._session.close()

    async def _put(self, path: str, value: bytes, expect: int, ephemeral: bool) -> Stat:
        return await self._session.put(path, value, expect=expect, ephemeral=ephemeral)

    async def _put_sequence(
        self, prefix: str, value: bytes, deltas: list[int], ephemeral: bool
    ) -> tuple[str, Stat]:
        return await self._session.put_sequence(prefix, value, deltas=deltas, ephemeral=ephemeral)

    async def _delete(self, path: str, expect: int) -> None:
        await self._session.delete(path, expect=expect)

    def _on_change(self, change: Change) -> None:
        self._link.tell(_CHANGE, _encode(change))


class LinkStore:
    """The other end: a session of this process. The link is not closed with it."""

    record_bytes_max = EMBEDDED_RECORD_BYTES_MAX

    def __init__(self, link: Link, *, deadline_s: float = 30.0) -> None:
        self._link = link
        self._deadline_s = deadline_s
        self._watchers = Watchers()
        self._is_closed = False

    def on_notice(self, name: str, body: bytes) -> None:
        assert name == _CHANGE, f"{name} is not for a metadata store"
        self._watchers.tell([msgspec.msgpack.decode(body, type=Change)])

    def on_lost(self) -> None:
        """The keeper is gone, and the session with it."""
        self._watchers.tell_session(SessionEvent.CONNECTION_LOST)

    async def get(self, path: str) -> Record | None:
        check_path(path)
        return await self._ask(_RECORD, "get", path)

    async def exists(self, path: str) -> bool:
        check_directory(path)
        return await self._ask(_BOOL, "exists", path)

    async def children(self, path: str) -> tuple[str, ...]:
        check_directory(path)
        return await self._ask(_NAMES, "children", path)

    async def count_children(self, path: str) -> int:
        check_directory(path)
        return await self._ask(_INT, "count", path)

    async def scan_children(self, path: str) -> AsyncIterator[tuple[str, Record]]:
        check_directory(path)
        after = ""
        while page := await self._ask(_PAGE, "page", path, after):
            for name, record in page:
                yield name, record
            after = page[-1][0]

    async def put(self, path: str, value: bytes, *, expect: int, ephemeral: bool = False) -> Stat:
        check_path(path)
        return await self._ask(_STAT, "put", path, value, expect, ephemeral)

    async def put_sequence(
        self, prefix: str, value: bytes, *, deltas: Sequence[int], ephemeral: bool = False
    ) -> tuple[str, Stat]:
        check_path(prefix)
        check_deltas(deltas)
        return await self._ask(_NUMBERED, "sequence", prefix, value, list(deltas), ephemeral)

    async def delete(self, path: str, *, expect: int) -> None:
        check_path(path)
        await self._ask(_NOTHING, "delete", path, expect)

    async def delete_recursive(self, path: str) -> None:
        check_path(path)
        await self._ask(_NOTHING, "delete_recursive", path)

    async def sync(self, path: str) -> None:
        check_directory(path)
        await self._ask(_NOTHING, "sync", path)

    def watch(self, prefix: str, listener: ChangeListener) -> Cancel:
        return self._watchers.add(prefix, listener)

    def watch_session(self, listener: SessionListener) -> Cancel:
        return self._watchers.add_session(listener)

    @property
    def is_connected(self) -> bool:
        return not self._link.is_lost

    @property
    def has_session(self) -> bool:
        return not self._link.is_lost

    async def close(self) -> None:
        if self._is_closed:
            return
        try:
            if not self._link.is_lost:
                await self._ask(_NOTHING, "close")
        finally:
            self._is_closed = True
            self._watchers.clear()

    async def _ask(self, answer: msgspec.msgpack.Decoder[T], name: str, *arguments: object) -> T:
        if self._is_closed:
            raise StoreClosed("The metadata store is closed")
        body = _encode(arguments)
        found = await self._link.ask(f"{PREFIX}{name}", body, deadline_s=self._deadline_s)
        return answer.decode(found)


_RECORD: Final = msgspec.msgpack.Decoder(Record | None)
_BOOL: Final = msgspec.msgpack.Decoder(bool)
_INT: Final = msgspec.msgpack.Decoder(int)
_NAMES: Final = msgspec.msgpack.Decoder(tuple[str, ...])
_PAGE: Final = msgspec.msgpack.Decoder(list[tuple[str, Record]])
_STAT: Final = msgspec.msgpack.Decoder(Stat)
_NUMBERED: Final = msgspec.msgpack.Decoder(tuple[str, Stat])
_NOTHING: Final = msgspec.msgpack.Decoder(None)

"""A lock: an ephemeral record whose value names the holder.

A lock tells who should act; it does not stop an earlier holder that has not learned of its loss.
What must not be done twice is fenced by a term in storage.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum

from magnetar.errors import (
    LockBusy,
    RecordNotFound,
    StoreClosed,
    StoreUnavailable,
    VersionConflict,
)
from magnetar.metadata.store import ABSENT, Change, ChangeKind, MetadataStore, SessionEvent
from magnetar.runtime.clock import Clock
from magnetar.runtime.reconciler import Reconciler
from magnetar.runtime.task import TaskScope


class LockState(StrEnum):
    INIT = "Init"
    VALID = "Valid"
    RELEASING = "Releasing"
    RELEASED = "Released"


class Lock:
    """Held until released or `expired`. Made by `Locks.acquire`."""

    def __init__(
        self,
        store: MetadataStore,
        scope: TaskScope,
        path: str,
        value: bytes,
        on_end: Callable[[Lock], None],
        *,
        clock: Clock,
    ) -> None:
        self._store = store
        self._on_end = on_end
        self._path = path
        self._value = value
        self._version = ABSENT
        self._state = LockState.INIT
        self._turn = asyncio.Lock()
        self._reconciler = Reconciler(scope, f"revalidate {path}", self._revalidate, clock=clock)
        self.expired = asyncio.Event()
        """Set when the lock is no longer held: another session has it, or it was released."""
        self.may_stand = False
        """Whether it was given up and its record could not be removed."""

    @property
    def path(self) -> str:
        return self._path

    @property
    def value(self) -> bytes:
        return self._value

    @property
    def state(self) -> LockState:
        return self._state

    async def update(self, value: bytes) -> None:
        """Change the value while holding the lock; raise LockBusy when it is not held any more."""
        async with self._turn:
            if self._state is not LockState.VALID:
                raise LockBusy(f"Lock {self._path} is {self._state.value}")
            stat = await self._store.put(self._path, value, expect=self._version)
            self._version, self._value = stat.version, value

    async def release(self) -> None:
        """Give the lock up. Releasing one that is not held does nothing. While the store is away
        the record stands, and is removed when it is back: its session may go on for long.
        """
        self._reconciler.close()
        async with self._turn:
            if self._state is not LockState.VALID:
                return
            self._state = LockState.RELEASING
            try:
                await self._store.delete(self._path, expect=self._version)
            except (RecordNotFound, VersionConflict):
                pass  # gone, or another session's by now: not held either way
            except StoreUnavailable:
                self.may_stand = True
                raise
            finally:
                self._end()

    async def acquire(self) -> None:
        """Take the lock or raise LockBusy; for `Locks` alone."""
        async with self._turn:
            await self._take()
            self._state = LockState.VALID

    def request_revalidation(self) -> None:
        """The record may have changed hands; for `Locks` alone."""
        if self._state is LockState.VALID:
            self._reconciler.request()

    async def _revalidate(self) -> None:
        async with self._turn:
            if self._state is not LockState.VALID:
                return
            try:
                await self._take()
            except (LockBusy, StoreClosed):
                self._end()

    async def _take(self) -> None:
        """Make the record ours, or raise LockBusy."""
        record = await self._store.get(self._path)
        if record is not None:
            same, own = record.value == self._value, record.stat.created_by_self
            if not record.stat.ephemeral or not (same or own):
                raise LockBusy(f"Lock {self._path} is held by another: {record.value!r}")
            if same and own:
                self._version = record.stat.version
                return
            await self._remove(record.stat.version)
        try:
            stat = await self._store.put(self._path, self._value, expect=ABSENT, ephemeral=True)
        except VersionConflict:
            raise LockBusy(f"Lock {self._path} was taken by another") from None
        self._version = stat.version

    async def _remove(self, version: int) -> None:
        """An own record with an old value, or one of a session of ours that is about to end."""
        try:
            await self._store.delete(self._path, expect=version)
        except RecordNotFound:
            pass
        except VersionConflict:
            raise LockBusy(f"Lock {self._path} changed while it was taken") from None

    def _end(self) -> None:
        self._state = LockState.RELEASED
        self._reconciler.close()
        self.expired.set()
        self._on_end(self)


class Locks:
    """All locks one holder has in a store; closing gives them up."""

    def __init__(self, store: MetadataStore, *, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._scope = TaskScope("locks")
        self._locks: dict[str, Lock] = {}
        self._standing: dict[str, bytes] = {}
        """Records of locks that were given up, by path."""
        self._removal = Reconciler(self._scope, "remove", self._remove_standing, clock=clock)
        self._cancels = (
            store.watch("/", self._on_change),
            store.watch_session(self._on_session),
        )

    async def acquire(self, path: str, value: bytes) -> Lock:
        """Raise LockBusy when another session, or this very holder, has it."""
        if path in self._locks:
            raise LockBusy(f"Lock {path} is held already")
        lock = self._locks[path] = Lock(
            self._store, self._scope, path, value, self._on_end, clock=self._clock
        )
        try:
            await lock.acquire()
        except BaseException:
            del self._locks[path]
            raise
        return lock

    async def close(self) -> None:
        for cancel in self._cancels:
            cancel()
        for lock in tuple(self._locks.values()):
            try:
                await lock.release()
            except (StoreUnavailable, StoreClosed):
                pass  # the record ends with its session
        self._removal.close()
        await self._scope.close()

    def _on_end(self, lock: Lock) -> None:
        del self._locks[lock.path]
        if lock.may_stand:
            self._standing[lock.path] = lock.value
            self._removal.request()

    async def _remove_standing(self) -> None:
        """Of what is taken again meanwhile the record stays; one that is removed at that moment is
        made again.
        """
        for path, value in tuple(self._standing.items()):
            record = await self._store.get(path)
            is_own = record is not None and record.stat.created_by_self and record.value == value
            if record is not None and is_own and path not in self._locks:
                with suppress(RecordNotFound, VersionConflict):
                    await self._store.delete(path, expect=record.stat.version)
            self._standing.pop(path, None)

    def _on_change(self, change: Change) -> None:
        lock = self._locks.get(change.path)
        if lock is not None and change.kind is ChangeKind.DELETED:
            lock.request_revalidation()

    def _on_session(self, event: SessionEvent) -> None:
        if event in (SessionEvent.RECONNECTED, SessionEvent.SESSION_REESTABLISHED):
            for lock in tuple(self._locks.values()):
                lock.request_revalidation()

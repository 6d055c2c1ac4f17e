"""Records of one kind below one path, decoded and remembered until the store tells of a change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from magnetar.errors import (
    BrokerError,
    RecordExists,
    RecordNotFound,
    RecordUnreadable,
    VersionConflict,
)
from magnetar.metadata.store import (
    ABSENT,
    ANY_VERSION,
    Change,
    ChangeKind,
    MetadataStore,
    Record,
    SessionEvent,
    Stat,
)
from magnetar.runtime.backoff import Backoff
from magnetar.runtime.clock import Clock

_RETRY_FIRST_S: Final = 0.005
_RETRY_MOST_S: Final = 3.0
_GIVE_UP_S: Final = 30.0
_LARGE_BYTES: Final = 4096
_LARGE_MAX: Final = 64

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Held(Generic[T]):
    value: T
    stat: Stat


class MetadataCache(Generic[T]):
    """Loads through; remembers absence too; reads its own process's writes.

    Values are shared between callers and must not be changed in place. `encode` and `decode` raise
    RecordUnreadable for what they cannot read; such an outcome is not remembered.
    """

    def __init__(
        self,
        store: MetadataStore,
        prefix: str,
        *,
        encode: Callable[[T], bytes],
        decode: Callable[[bytes], T],
        clock: Clock,
        entries_max: int = 100_000,
        path_bytes_max: int = 16 << 20,
    ) -> None:
        self._store = store
        self._encode = encode
        self._decode = decode
        self._clock = clock
        self._entries_max = entries_max
        self._path_bytes_max = path_bytes_max
        self._path_bytes = 0
        """What is remembered to be absent has a name that a client chose: it is bounded too."""
        self._held: dict[str, Held[T] | None] = {}
        self._loading: dict[str, asyncio.Future[Held[T] | None]] = {}
        self._decoded: dict[str, tuple[bytes, T]] = {}
        """The last values of large records as they are stored. Whatever makes the cache read one
        again, it is not decoded again when it is still the same.
        """
        self._cancels = (
            store.watch(prefix, self._on_change),
            store.watch_session(self._on_session),
        )

    async def get(self, path: str) -> T | None:
        held = await self.get_with_stat(path)
        return None if held is None else held.value

    async def get_with_stat(self, path: str) -> Held[T] | None:
        while path not in self._held:
            loading = self._loading.get(path)
            if loading is None:
                return await self._load(path)
            try:
                return await asyncio.shield(loading)
            except asyncio.CancelledError:
                if not loading.cancelled():
                    raise  # this caller was cancelled, not the one that loads
        return self._held[path]

    def get_if_cached(self, path: str) -> T | None:
        """The value if it is there and remembered; never asks the store."""
        held = self._held.get(path)
        return None if held is None else held.value

    async def create(self, path: str, value: T) -> None:
        try:
            await self.put(path, value, expect=ABSENT)
        except VersionConflict:
            raise RecordExists(f"{path} exists already") from None

    async def put(self, path: str, value: T, *, expect: int) -> int:
        """Write over exactly the version that was read; return the new one."""
        data = self._encode(value)
        self._note(path, data, value)
        try:
            return (await self._store.put(path, data, expect=expect)).version
        finally:
            self.invalidate(path)

    async def read_modify_update(self, path: str, change: Callable[[T], T]) -> T:
        """Store what `change` makes of the present value. It may be called several times."""

        def change_present(present: T | None) -> T:
            if present is None:
                raise RecordNotFound(f"No record at {path}")
            return change(present)

        return await self.read_modify_update_or_create(path, change_present)

    async def read_modify_update_or_create(self, path: str, change: Callable[[T | None], T]) -> T:
        """As `read_modify_update`, with None for a record that is not there.

        A value left as it was is not written again. Raise VersionConflict when others keep being
        quicker.
        """
        backoff = Backoff(_RETRY_FIRST_S, _RETRY_MOST_S, self._clock.chance)
        deadline = self._clock.monotonic() + _GIVE_UP_S
        while True:
            held = await self.get_with_stat(path)
            changed = change(None if held is None else held.value)
            if held is not None and changed == held.value:
                return changed
            expect = ABSENT if held is None else held.stat.version
            try:
                await self.put(path, changed, expect=expect)
            except VersionConflict:
                if self._clock.monotonic() >= deadline:
                    raise
                await self._clock.sleep(backoff.next_s())
            else:
                return changed

    async def delete(self, path: str, *, expect: int = ANY_VERSION) -> None:
        try:
            await self._store.delete(path, expect=expect)
        finally:
            self.invalidate(path)
            self._decoded.pop(path, None)

    def invalidate(self, path: str) -> None:
        self._forget(path)
        self._loading.pop(path, None)

    def clear(self) -> None:
        self._held.clear()
        self._path_bytes = 0
        self._loading.clear()
        self._decoded.clear()

    def close(self) -> None:
        for cancel in self._cancels:
            cancel()
        self.clear()

    async def _load(self, path: str) -> Held[T] | None:
        """Ask the store once for all who wait; a change told meanwhile makes the answer unfit to
        keep.
        """
        loading: asyncio.Future[Held[T] | None] = asyncio.get_running_loop().create_future()
        self._loading[path] = loading
        try:
            record = await self._store.get(path)
            held = None if record is None else self._open(path, record)
        except BrokerError as error:
            loading.set_exception(error)
            loading.exception()  # there may be no waiter
            raise
        except BaseException:
            loading.cancel()
            raise
        else:
            loading.set_result(held)
            if self._loading.get(path) is loading:
                self._remember(path, held)
            return held
        finally:
            if self._loading.get(path) is loading:
                del self._loading[path]

    def _open(self, path: str, record: Record) -> Held[T]:
        data, known = self._decoded.get(path, (None, None))
        if known is not None and data == record.value:
            return Held(known, record.stat)
        try:
            value = self._decode(record.value)
        except RecordUnreadable as error:
            raise RecordUnreadable(f"{path}: {error.sentence}") from None
        self._note(path, record.value, value)
        return Held(value, record.stat)

    def _note(self, path: str, data: bytes, value: T) -> None:
        self._decoded.pop(path, None)
        if len(data) >= _LARGE_BYTES:
            if len(self._decoded) >= _LARGE_MAX:
                del self._decoded[next(iter(self._decoded))]
            self._decoded[path] = data, value

    def _remember(self, path: str, held: Held[T] | None) -> None:
        self._forget(path)
        if len(path) > self._path_bytes_max:
            return
        while self._held and (
            len(self._held) >= self._entries_max
            or self._path_bytes + len(path) > self._path_bytes_max
        ):
            self._forget(next(iter(self._held)))
        self._held[path] = held
        self._path_bytes += len(path)

    def _forget(self, path: str) -> None:
        if path in self._held:
            del self._held[path]
            self._path_bytes -= len(path)

    def _on_change(self, change: Change) -> None:
        if change.kind is not ChangeKind.CHILDREN_CHANGED:
            self.invalidate(change.path)

    def _on_session(self, event: SessionEvent) -> None:
        if event in (SessionEvent.RECONNECTED, SessionEvent.SESSION_REESTABLISHED):
            self.clear()

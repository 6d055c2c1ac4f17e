"""A metadata record with the version its one writer last saw."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

from magnetar.errors import BrokerError, StoreUnavailable, VersionConflict
from magnetar.ledger.disposal import Disposal

Info = TypeVar("Info")
Stored = TypeVar("Stored", contravariant=True)


class Store(Protocol[Stored]):
    async def __call__(self, info: Stored, *, expect: int) -> int:
        """Return the new version. Raise VersionConflict when the stored one is not `expect`."""


class VersionedRecord(Generic[Info]):
    """Writes name the version they replace. A write whose outcome is unknown is looked up before
    the next one.

    The lookup keeps an owner from taking its own write, whose answer got lost, for another owner's.
    Ledgers that the stored record may name are disposed of after the next write.
    """

    def __init__(
        self,
        load: Callable[[], Awaitable[tuple[Info, int] | None]],
        store: Store[Info],
        disposal: Disposal,
        version: int = -1,
    ) -> None:
        self._load = load
        self._store = store
        self._disposal = disposal
        self.version = version
        self._unsure: Info | None = None
        self._released: list[int] = []

    async def store(self, info: Info) -> None:
        """Raise VersionConflict when another writer came in between."""
        if self._unsure is not None:
            await self._look_up(self._unsure)
        try:
            self.version = await self._store(info, expect=self.version)
        except StoreUnavailable:
            self._unsure = info
            raise
        self.dispose()

    @contextmanager
    def naming(self, ledger_id: int) -> Iterator[None]:
        """Around the write of a record that names a new ledger, which goes when that fails."""
        try:
            yield
        except StoreUnavailable:
            self.release(ledger_id)  # the record may name it
            raise
        except BrokerError:
            self._disposal.add(ledger_id)
            raise

    def release(self, ledger_id: int) -> None:
        """The next record will not name this ledger; the stored one may."""
        self._released.append(ledger_id)

    def dispose(self, *ledger_ids: int) -> None:
        """The stored record names neither these nor any that was released."""
        for ledger_id in (*ledger_ids, *self._released):
            self._disposal.add(ledger_id)
        self._released.clear()

    async def _look_up(self, attempted: Info) -> None:
        found = await self._load()
        stored, version = (None, -1) if found is None else found
        if version != self.version and stored != attempted:
            raise VersionConflict(f"expected version {self.version}, found {version}")
        self.version = version
        self._unsure = None

"""A metadata record with the version its one writer last saw."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from magnetar.errors import StoreUnavailable, VersionConflict

Info = TypeVar("Info")


class VersionedRecord(Generic[Info]):
    """Writes name the version they replace. A write whose outcome is unknown is looked up before
    the next one.

    The lookup keeps an owner from taking its own write, whose answer got lost, for somebody else's.
    """

    def __init__(
        self,
        load: Callable[[], Awaitable[tuple[Info, int] | None]],
        store: Callable[[Info, int], Awaitable[int]],
        version: int = -1,
    ) -> None:
        self._load = load
        self._store = store
        self.version = version
        self._unsure: Info | None = None

    async def store(self, info: Info) -> None:
        """Raise VersionConflict when another writer came in between."""
        if self._unsure is not None:
            await self._look_up(self._unsure)
        try:
            self.version = await self._store(info, self.version)
        except StoreUnavailable:
            self._unsure = info
            raise

    async def _look_up(self, attempted: Info) -> None:
        found = await self._load()
        stored, version = (None, -1) if found is None else found
        if version != self.version and stored != attempted:
            raise VersionConflict(f"expected version {self.version}, found {version}")
        self.version = version
        self._unsure = None

"""The metadata of ledgers, where every client of the same BookKeeper has it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import replace
from typing import Final, TypeAlias

from magnetar.errors import (
    InvalidConfiguration,
    LedgerNotFound,
    RecordNotEmpty,
    RecordNotFound,
    StorageFailed,
    StoreUnavailable,
    VersionConflict,
)
from magnetar.metadata.store import ABSENT, ANY_VERSION, MetadataStore
from magnetar.model.position import LedgerId
from magnetar.runtime.clock import Clock
from magnetar.wire.bookkeeper import (
    LedgerMetadata,
    LedgerState,
    Segment,
    decode_ledger,
    encode_ledger,
)

TakeNumber: TypeAlias = Callable[[str], Awaitable[int]]
"""Gives a number that was never given before for the same path, to any client."""

_SHORT_MAX: Final = (1 << 31) - 1
_SHORT_GROUPS: Final = (2, 4, 4)
_LONG_GROUPS: Final = (3, 4, 4, 4, 4)
_ATTEMPTS: Final = 16
_NUMBERS_AT_ONCE: Final = 64


def format_path(ledger: int, *, is_long: bool) -> str:
    """Where the metadata of a ledger is, below the root of the ledgers."""
    groups = _LONG_GROUPS if is_long or ledger >= _SHORT_MAX else _SHORT_GROUPS
    digits, names = str(ledger).zfill(sum(groups)), []
    for size in groups:
        names.append(digits[:size])
        digits = digits[size:]
    names[-1] = f"L{names[-1]}"
    return "/".join(names)


def parse_path(names: list[str]) -> int | None:
    """The ledger of such a path; None for what is none."""
    groups = _LONG_GROUPS if len(names) == len(_LONG_GROUPS) else _SHORT_GROUPS
    if len(names) != len(groups) or not names[-1].startswith("L"):
        return None
    digits = [*names[:-1], names[-1][1:]]
    fits = all(
        len(each) == size and each.isascii() and each.isdigit()
        for each, size in zip(digits, groups, strict=True)
    )
    return int("".join(digits)) if fits else None


def apply_ensemble(ledger: LedgerMetadata, first: int, bookies: tuple[str, ...]) -> LedgerMetadata:
    """From entry `first` on, which no member has confirmed, these bookies have the entries."""
    kept = tuple(each for each in ledger.segments if each.first < first)
    assert all(each.first <= first for each in ledger.segments)
    return replace(ledger, segments=(*kept, Segment(first, bookies)))


def apply_close(ledger: LedgerMetadata, last: int, length: int) -> LedgerMetadata:
    """A segment that got no entry goes, unless it is the only one."""
    kept = tuple(each for each in ledger.segments if each.first <= max(last, 0))
    return replace(ledger, state=LedgerState.CLOSED, last=last, length=length, segments=kept)


class LedgerCatalogue:
    """Reads and writes the records. Every write names the version that it replaces."""

    def __init__(
        self, store: MetadataStore, root: str, take_number: TakeNumber, clock: Clock
    ) -> None:
        self._store = store
        self.root = root
        self._take_number = take_number
        self._clock = clock
        self._is_long = False

    async def open(self) -> None:
        """Raise InvalidConfiguration unless a BookKeeper that we know is there."""
        if await self._store.get(f"{self.root}/INSTANCEID") is None:
            raise InvalidConfiguration(
                f"there is no BookKeeper at {self.root} of the metadata store: format it with"
                " `bookkeeper shell initnewcluster`, or with Pulsar's"
                " `initialize-cluster-metadata`, and start bookies"
            )
        layout = await self._store.get(f"{self.root}/LAYOUT")
        if layout is None:  # as Pulsar makes it
            return
        name = layout.value.decode(errors="replace").partition("\n")[2].partition(":")[0]
        kind = name.rpartition(".")[2]
        if kind not in ("HierarchicalLedgerManagerFactory", "LongHierarchicalLedgerManagerFactory"):
            raise InvalidConfiguration(
                f"{self.root}/LAYOUT of BookKeeper names {name!r}; hierarchical ledgers are"
                " supported"
            )
        self._is_long = kind.startswith("Long")

    async def create(self, ledger: LedgerMetadata) -> tuple[int, LedgerMetadata, int]:
        """Give it an id; return that, the metadata and its version."""
        for _ in range(_ATTEMPTS):
            number = await self._next_id()
            made = replace(ledger, token=self._clock.chance.getrandbits(62) | 1)
            path = self._path(number)
            try:
                stat = await self._store.put(path, encode_ledger(made), expect=ABSENT)
                return number, made, stat.version
            except VersionConflict:
                continue  # the id is taken
            except StoreUnavailable:
                found = await self._store.get(path)
                if found is not None and decode_ledger(path, found.value).token == made.token:
                    return number, made, found.stat.version
                raise
        raise StorageFailed("every new ledger id of BookKeeper was taken")

    async def create_at(self, number: int, ledger: LedgerMetadata) -> tuple[LedgerMetadata, int]:
        """Give it this id. One that is there with the same properties and was not closed is begun
        again: the bookies take its entries once more, and no other id is as good. Return the
        metadata and its version; raise VersionConflict when the id is taken.
        """
        made = replace(ledger, token=self._clock.chance.getrandbits(62) | 1)
        path = self._path(number)
        found = await self._store.get(path)
        version = ABSENT
        if found is not None:
            present = decode_ledger(path, found.value)
            is_same = sorted(present.properties) == sorted(ledger.properties)
            if present.state is not LedgerState.OPEN or not is_same:
                raise VersionConflict(f"ledger {number} exists")
            version = found.stat.version
        stat = await self._store.put(path, encode_ledger(made), expect=version)
        return made, stat.version

    async def reserve(self, above: int) -> None:
        """Take every id up to this one, so that no other client gets it."""
        if await self._store.children(f"{self.root}/idgen-long"):
            return  # ids are far above
        number = -1
        while number < above:
            count = min(above - number, _NUMBERS_AT_ONCE)
            taking = (self._take_number(f"{self.root}/idgen/ID-") for _ in range(count))
            number = max(await asyncio.gather(*taking))

    async def load(self, ledger: int) -> tuple[LedgerMetadata, int]:
        path = self._path(ledger)
        found = await self._store.get(path)
        if found is None:
            raise LedgerNotFound(f"ledger {ledger} does not exist")
        return decode_ledger(path, found.value), found.stat.version

    async def copy(self, ledgers: Collection[LedgerId]) -> Mapping[str, bytes]:
        """Records of ledgers and bookies, as they would stand below `/ledgers`."""
        copies: dict[str, bytes] = {}
        for parent in ("available", "available/readonly"):
            async for name, record in self._store.scan_children(f"{self.root}/{parent}"):
                copies[f"/ledgers/{parent}/{name}"] = record.value
        names = [format_path(each, is_long=self._is_long) for each in ledgers]
        for name in ("INSTANCEID", "LAYOUT", *names):
            stored = await self._store.get(f"{self.root}/{name}")
            if stored is not None:
                copies[f"/ledgers/{name}"] = stored.value
        return copies

    async def update(self, ledger: int, metadata: LedgerMetadata, version: int) -> int:
        """Return the new version. Raise VersionConflict when another was quicker, LedgerNotFound
        when it is gone.
        """
        path, value = self._path(ledger), encode_ledger(metadata)
        try:
            return (await self._store.put(path, value, expect=version)).version
        except VersionConflict:
            await self.load(ledger)  # or it is gone
            raise
        except StoreUnavailable:
            found = await self._store.get(path)
            if found is not None and found.value == value and found.stat.version == version + 1:
                return found.stat.version
            if found is None or found.stat.version != version:
                raise
            return (await self._store.put(path, value, expect=version)).version

    async def delete(self, ledger: int) -> None:
        try:
            await self._store.delete(self._path(ledger), expect=ANY_VERSION)
        except (RecordNotFound, RecordNotEmpty):
            pass

    async def list(self) -> tuple[int, ...]:
        found: list[int] = []
        paths: list[list[str]] = [[]]
        while paths:
            names = paths.pop()
            for name in await self._store.children("/".join((self.root, *names))):
                below = [*names, name]
                number = parse_path(below)
                if number is not None:
                    found.append(number)
                elif name.isascii() and name.isdigit() and len(below) < len(_LONG_GROUPS):
                    paths.append(below)
        return tuple(sorted(found))

    def _path(self, ledger: int) -> str:
        return f"{self.root}/{format_path(ledger, is_long=self._is_long)}"

    async def _next_id(self) -> int:
        highest = await self._store.children(f"{self.root}/idgen-long")
        if not highest:
            number = await self._take_number(f"{self.root}/idgen/ID-")
            if 0 <= number < _SHORT_MAX:
                return number
            highest = (await self._raise_long(1),)
        number = await self._take_number(f"{self.root}/idgen-long/{highest[-1]}/ID-")
        high = int(highest[-1].removeprefix("HOB-"))
        if 0 <= number < _SHORT_MAX:
            return high << 32 | number
        await self._raise_long(high + 1)
        return await self._next_id()

    async def _raise_long(self, high: int) -> str:
        """The short numbers are used up: number below the next higher half."""
        name = f"HOB-{high:010d}"
        try:
            await self._store.put(f"{self.root}/idgen-long/{name}", b"", expect=ABSENT)
        except VersionConflict:
            pass
        return name

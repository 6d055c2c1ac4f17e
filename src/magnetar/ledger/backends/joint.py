"""Ledgers in files of several processes of one machine, as one store.

Each process writes to a store of its own, and alone has the files open. What another process wants
of a ledger, it asks the one that keeps it. An id says where its ledger is, and ids grow with time
wherever a ledger is made, so that the ledgers of a topic are in order when the topic has moved.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import Final, TypeAlias, TypeVar

import msgspec

from magnetar.errors import BrokerError, LedgerNotFound
from magnetar.ledger.store import Digest, LedgerInfo, LedgerStore, LedgerWriter, Replication
from magnetar.model.position import EntryId, LedgerId, Term
from magnetar.runtime.log import Logger
from magnetar.runtime.task import TaskScope

STORES_MAX: Final = 256
PREFIX: Final = "ledgers/"
"""What the names of all requests here begin with; the number of a store follows."""
_SHIFT: Final = 8

Ask: TypeAlias = Callable[[str, bytes], Awaitable[bytes]]
T = TypeVar("T")

_log = Logger(__name__)
_encode: Final = msgspec.msgpack.Encoder().encode


def make_ledger_id(number: int, store: int) -> LedgerId:
    """The id of the ledger with this number, which is kept in this store."""
    assert 0 <= store < STORES_MAX
    return LedgerId((number << _SHIFT) | store)


def number_above(ledger: int) -> int:
    """The lowest number whose ids, in any store, are above a ledger's."""
    return (ledger >> _SHIFT) + 1


def store_of(ledger: int, first: int) -> int:
    """Where a ledger is; those below `first` are from a time with one store."""
    return ledger & (STORES_MAX - 1) if ledger >= first else 0


class LedgerKeeper:
    """Answers what other processes ask of the stores that this one keeps."""

    def __init__(self, stores: Mapping[int, LedgerStore]) -> None:
        self._stores = stores

    async def serve(self, name: str, body: bytes) -> bytes:
        number, _, operation = name.removeprefix(PREFIX).partition("/")
        store, given = self._stores[int(number)], msgspec.msgpack.decode(body)
        match operation:
            case "recover":
                return _encode(await store.recover(LedgerId(given[0]), term=Term(given[1])))
            case "describe":
                return _encode(await store.describe(LedgerId(given[0])))
            case "read":
                ledger, first, entries_max, bytes_max = given
                entries = await store.read(
                    LedgerId(ledger), EntryId(first), entries_max=entries_max, bytes_max=bytes_max
                )
                return _encode(entries)
            case "intend":
                await store.intend_deletion(given)
            case "cancel":
                store.cancel_deletion(given)
            case "delete":
                await store.delete(LedgerId(given[0]))
            case _:
                raise AssertionError(f"nothing here answers {name}")
        return _encode(None)


class JointLedgerStore:
    """`own` is written to; it is one of `stores`, those that this process keeps, by their numbers.
    What is elsewhere is asked for by `ask`. There are `count` stores in all; ledgers below `first`
    are in store 0.
    """

    is_shared = True
    is_apache_readable = False
    list_bookies = None
    directory = None

    def __init__(
        self,
        own: LedgerStore,
        stores: Mapping[int, LedgerStore],
        *,
        ask: Ask,
        count: int,
        first: int,
        tasks: TaskScope,
    ) -> None:
        self._own = own
        self._stores = stores
        self._ask = ask
        self._count = count
        self._first = first
        self._tasks = tasks

    async def create(
        self,
        *,
        term: Term,
        properties: Mapping[str, str],
        deletion_intended: bool = False,
        replication: Replication | None = None,
        digest: Digest = Digest.CRC32C,
    ) -> LedgerWriter:
        return await self._own.create(
            term=term,
            properties=properties,
            deletion_intended=deletion_intended,
            replication=replication,
            digest=digest,
        )

    async def recover(self, ledger: LedgerId, *, term: Term) -> LedgerInfo:
        store = self._find(ledger)
        if store is not None:
            return await store.recover(ledger, term=term)
        return await self._request(_INFO, ledger, "recover", ledger, term)

    async def describe(self, ledger: LedgerId) -> LedgerInfo:
        store = self._find(ledger)
        if store is not None:
            return await store.describe(ledger)
        return await self._request(_INFO, ledger, "describe", ledger)

    async def read(
        self, ledger: LedgerId, first: EntryId, *, entries_max: int, bytes_max: int
    ) -> list[bytes]:
        store = self._find(ledger)
        if store is not None:
            return await store.read(ledger, first, entries_max=entries_max, bytes_max=bytes_max)
        return await self._request(_ENTRIES, ledger, "read", ledger, first, entries_max, bytes_max)

    async def intend_deletion(self, ledgers: Collection[LedgerId]) -> None:
        for each in self._by_store(ledgers):
            store = self._find(each[0])
            if store is not None:
                await store.intend_deletion(each)
            else:
                with suppress(LedgerNotFound):
                    await self._request(_NOTHING, each[0], "intend", *each)

    def cancel_deletion(self, ledgers: Collection[LedgerId]) -> None:
        for each in self._by_store(ledgers):
            store = self._find(each[0])
            if store is not None:
                store.cancel_deletion(each)
            else:
                self._tasks.start(self._cancel_elsewhere(each), name="cancel deletions")

    async def delete(self, ledger: LedgerId) -> None:
        store = self._find(ledger)
        if store is not None:
            await store.delete(ledger)
        else:
            with suppress(LedgerNotFound):
                await self._request(_NOTHING, ledger, "delete", ledger)

    async def ledgers(self) -> tuple[LedgerId, ...]:
        found = [each for store in self._stores.values() for each in await store.ledgers()]
        return tuple(sorted(found))

    def commit_soon(self, write: Callable[[], None]) -> None:
        self._own.commit_soon(write)

    def join(self, write: Callable[[], None]) -> None:
        self._own.join(write)

    @property
    def trouble(self) -> str | None:
        return self._own.trouble

    @property
    def queued_bytes(self) -> int:
        return self._own.queued_bytes

    def counters(self) -> Mapping[str, Mapping[str, float]]:
        return self._own.counters()

    async def close(self) -> None:
        for store in self._stores.values():
            await store.close()

    def _find(self, ledger: int) -> LedgerStore | None:
        """The store that has the ledger; None when another process keeps it."""
        return self._stores.get(store_of(ledger, self._first))

    def _by_store(self, ledgers: Iterable[LedgerId]) -> Iterable[list[LedgerId]]:
        groups: dict[int, list[LedgerId]] = {}
        for each in ledgers:
            groups.setdefault(store_of(each, self._first), []).append(each)
        return groups.values()

    async def _cancel_elsewhere(self, ledgers: list[LedgerId]) -> None:
        try:
            await self._request(_NOTHING, ledgers[0], "cancel", *ledgers)
        except BrokerError as failure:  # the intent harms nothing while a record names the ledger
            _log.warning("deletions not cancelled", ledgers=len(ledgers), reason=failure.sentence)

    async def _request(
        self, answer: msgspec.msgpack.Decoder[T], ledger: int, operation: str, *given: object
    ) -> T:
        number = store_of(ledger, self._first)
        if number >= self._count:
            raise LedgerNotFound(f"ledger {ledger} does not exist")
        return answer.decode(await self._ask(f"{PREFIX}{number}/{operation}", _encode(given)))


_INFO: Final = msgspec.msgpack.Decoder(LedgerInfo)
_ENTRIES: Final = msgspec.msgpack.Decoder(list[bytes])
_NOTHING: Final = msgspec.msgpack.Decoder(None)

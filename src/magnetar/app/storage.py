"""Where a broker keeps metadata and ledgers: in a directory of its own, or with others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from magnetar.app.directory import DataDirectory
from magnetar.app.joining import check_neighbours, ensure_bookies, find_cluster
from magnetar.app.membership import ensure_identity
from magnetar.app.metadata import Stores, open_shared_stores, open_stores
from magnetar.app.reserve import Reserve, free_bytes
from magnetar.broker.membership import Home
from magnetar.errors import DataDirectoryRefused, InvalidConfiguration
from magnetar.ledger.backends.file import (
    Disk,
    FileLedgerStore,
    FilePolicy,
    MetadataWitness,
    open_file_store,
    parse_witness,
)
from magnetar.ledger.backends.joint import (
    Ask,
    JointLedgerStore,
    LedgerKeeper,
    make_ledger_id,
    number_above,
)
from magnetar.ledger.store import LedgerStore
from magnetar.metadata.backends.sqlite_format import Witness
from magnetar.metadata.store import MetadataStore
from magnetar.model.position import LedgerId
from magnetar.runtime.clock import Clock
from magnetar.runtime.configuration import Configuration
from magnetar.runtime.log import Logger
from magnetar.runtime.task import TaskScope

_WATCH_DISK_S: Final = 5

_log = Logger(__name__)


@dataclass(frozen=True, slots=True)
class Storage:
    settings: Configuration
    """With the name of the cluster that was found."""
    stores: Stores
    ledgers: LedgerStore
    found: Sequence[LedgerId] | None = None
    """Ledgers that were there before, if this broker alone made them."""
    home: Home | None = None
    """The data directory as shared metadata knows it, if ledgers are in one."""
    watch: Callable[[], Coroutine[Any, Any, None]] | None = None
    """Follows the disk under the ledgers, for as long as the broker runs."""


async def open_own(
    stack: AsyncExitStack,
    settings: Configuration,
    directory: DataDirectory,
    *,
    clock: Clock,
    disk: Disk | None = None,
    policy: FilePolicy | None = None,
    room: Callable[[Path], int] = free_bytes,
) -> Storage:
    """Ledgers in files of a data directory; closed with the stack."""
    if directory.spread.count > 1:
        raise DataDirectoryRefused(
            f"{directory.path} was written by {directory.spread.count} workers:"
            " start it with magnetar standalone, which reads all that they wrote"
        )
    reserve = Reserve(directory.path, room)
    await asyncio.to_thread(reserve.update)
    stores = await open_stores(stack, settings, directory, clock)
    ledgers = await open_ledgers(
        stores, directory, clock=clock, sync=settings.journalSyncData, disk=disk, policy=policy
    )
    stack.push_async_callback(ledgers.close)
    ledgers.trouble = reserve.trouble
    found = await ledgers.ledgers()
    home = await ensure_identity(stores, directory, has_ledgers=bool(found))
    return Storage(settings, stores, ledgers, found, home, partial(_watch_disk, reserve, [ledgers]))


async def open_joint(
    stack: AsyncExitStack,
    settings: Configuration,
    directory: DataDirectory,
    store: MetadataStore,
    *,
    number: int,
    keeps: Sequence[int],
    ask: Ask,
    take_number: Callable[[int], Awaitable[int]],
    clock: Clock,
) -> tuple[Storage, LedgerKeeper]:
    """What worker `number` writes to, and other stores of the directory that it keeps; those that
    others keep it asks for. Closed with the stack.
    """
    reserve = Reserve(directory.path)
    await asyncio.to_thread(reserve.update)

    spread = directory.spread

    async def take_id(above: int) -> LedgerId:
        least = max(above, spread.first - 1)  # below that an id would be taken for one of store 0
        return make_ledger_id(await take_number(number_above(least)), number)

    stores: dict[int, FileLedgerStore] = {}
    for each in keeps:
        stores[each] = await open_file_store(
            directory.folder_of(each), sync=settings.journalSyncData, clock=clock, take_id=take_id
        )
        stack.push_async_callback(stores[each].close)
        stores[each].trouble = reserve.trouble
    tasks = await stack.enter_async_context(TaskScope("ledgers"))
    ledgers = JointLedgerStore(
        stores[number], stores, ask=ask, count=spread.count, first=spread.first, tasks=tasks
    )
    storage = Storage(
        settings,
        Stores(store, store),
        ledgers,
        found=await ledgers.ledgers(),
        watch=partial(_watch_disk, reserve, list(stores.values())),
    )
    return storage, LedgerKeeper(stores)


async def open_shared(stack: AsyncExitStack, settings: Configuration, *, clock: Clock) -> Storage:
    """Ledgers on the bookies that are registered in the cluster's ZooKeeper; closed with the
    stack. Raise InvalidConfiguration for a cluster that is not whole, or not ours to join.
    """
    # A broker with ledgers in files starts without it.
    from magnetar.app.bookkeeper import open_bookkeeper

    url = settings.metadataStoreUrl
    if not url:
        raise InvalidConfiguration(
            "ledgers on BookKeeper need the ZooKeeper that its bookies are registered in: name it"
            " with --metadata zk://host:port/chroot, or metadataStoreUrl"
        )
    stores = await open_shared_stores(stack, settings, clock)
    await check_neighbours(stores.local, url)
    named = settings.replace(clusterName=await find_cluster(stores, settings, url))
    if not settings.bookkeeperMetadataServiceUri:
        await ensure_bookies(stores.local, url)
    ledgers = await open_bookkeeper(stack, named, stores.local, clock)
    return Storage(named, stores, ledgers)


async def _watch_disk(reserve: Reserve, stores: Sequence[FileLedgerStore]) -> None:
    while True:
        await asyncio.sleep(_WATCH_DISK_S)
        try:
            await asyncio.to_thread(reserve.update)
        except OSError as error:
            _log.warning("cannot tell how much room the disk has", reason=str(error))
        for ledgers in stores:
            ledgers.trouble = reserve.trouble


async def open_ledgers(
    stores: Stores,
    directory: DataDirectory,
    *,
    clock: Clock,
    sync: bool,
    disk: Disk | None = None,
    policy: FilePolicy | None = None,
) -> FileLedgerStore:
    """Open the ledgers, and let them and the metadata of the same directory witness each other.

    Raise DataDirectoryRefused when one of the two is older than the other has seen it: then it is
    an old copy, or has lost its end, and what it does not name must not be taken for garbage.
    """
    own = stores.own
    if own is None:
        return await open_file_store(
            directory.ledger_folder, sync=sync, disk=disk, policy=policy, clock=clock
        )
    found = own.witness

    def check_metadata(seen: MetadataWitness | None) -> None:
        complaint = find_older_metadata(directory.metadata_file, found, seen)
        if complaint is not None:
            raise DataDirectoryRefused(complaint)

    ledgers = await open_file_store(
        directory.ledger_folder,
        sync=sync,
        disk=disk,
        policy=policy,
        seen=parse_witness(found.ledgers),
        check_metadata=check_metadata,
        clock=clock,
    )
    own.exchange(
        ledgers.witness, lambda witness: ledgers.note_metadata(witness.identity, witness.commits)
    )
    return ledgers


def find_older_metadata(file: Path, found: Witness, seen: MetadataWitness | None) -> str | None:
    """Why metadata with this witness is not what the ledgers have `seen`; None when it is."""
    if seen is None or (found.identity == seen.identity and found.commits >= seen.commits):
        return None
    if found.identity == seen.identity:
        what = f"it has {found.commits} commits, the ledgers have seen {seen.commits}"
    else:
        what = "the ledgers were written with another file"
    return (
        f"the metadata is older than the ledgers: {file}: {what}. Bring back the file that belongs"
        f" to them, with {file.name}-wal if there was one, or the whole directory from a backup"
    )

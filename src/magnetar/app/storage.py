"""The ledgers beside the metadata they belong to."""

from __future__ import annotations

from pathlib import Path

from magnetar.app.directory import DataDirectory
from magnetar.app.metadata import Stores
from magnetar.errors import DataDirectoryRefused
from magnetar.ledger.backends.file import (
    Disk,
    FileLedgerStore,
    FilePolicy,
    MetadataWitness,
    open_file_store,
    parse_witness,
)
from magnetar.metadata.backends.sqlite_format import Witness
from magnetar.runtime.clock import Clock


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

"""The name of a data directory in the metadata that brokers share."""

from __future__ import annotations

from magnetar.app.directory import DataDirectory, load_identity, store_identity
from magnetar.app.metadata import Stores
from magnetar.broker.lease import directory_path
from magnetar.broker.membership import Home, store_home
from magnetar.errors import DataDirectoryRefused


async def ensure_identity(
    stores: Stores, directory: DataDirectory, *, has_ledgers: bool
) -> Home | None:
    """The name of the directory in a store that brokers share; None when it has its own.

    Raise DataDirectoryRefused when the two do not belong together: ledgers that the metadata does
    not name would be taken for garbage.
    """
    identity = load_identity(directory)
    if not stores.is_shared:
        if identity is not None:
            raise DataDirectoryRefused(
                f"{directory.path} was written with its metadata on a shared store;"
                " name it with --metadata or metadataStoreUrl"
            )
        return None
    if identity is None:
        if has_ledgers or directory.metadata_file.exists():
            raise DataDirectoryRefused(
                f"{directory.path} was written with its metadata in {directory.metadata_file};"
                " start it without a metadata address, or give it an empty directory"
            )
        identity = store_identity(directory)
    home = Home(identity, str(directory.path.absolute()))
    if await stores.local.get(directory_path(identity)) is None:
        if has_ledgers:
            raise DataDirectoryRefused(
                f"the metadata store does not know {directory.path}: it is another one than the"
                " directory was written with, or it was lost"
            )
        await store_home(stores.local, home)
    return home

"""Which metadata stores a broker runs on: a file of its own, or servers that brokers share."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final

from magnetar.app.directory import DataDirectory
from magnetar.app.neighbour import check_unshared
from magnetar.errors import InvalidConfiguration
from magnetar.metadata.backends.sqlite import SqliteStore
from magnetar.metadata.store import MetadataStore
from magnetar.runtime.clock import Clock
from magnetar.runtime.configuration import Configuration

_ZOOKEEPER: Final = ("zk:", "zookeeper:")


@dataclass(frozen=True, slots=True)
class Stores:
    """`local` belongs to the cluster, `configuration` is shared by clusters; often one store."""

    local: MetadataStore
    configuration: MetadataStore
    own: SqliteStore | None = None
    """The local store when it is a file of this broker's data directory."""

    @property
    def is_shared(self) -> bool:
        """Whether other brokers may be on the local store."""
        return self.own is None


async def open_stores(
    stack: AsyncExitStack, settings: Configuration, directory: DataDirectory, clock: Clock
) -> Stores:
    """Open what the settings name; they are closed with the stack."""
    local_url = settings.metadataStoreUrl
    if not local_url:
        if settings.configurationMetadataStoreUrl:
            raise InvalidConfiguration(
                "configurationMetadataStoreUrl is set and metadataStoreUrl is not:"
                " what clusters share cannot be without what one cluster keeps"
            )
        store = await SqliteStore.open(directory.metadata_file, clock=clock)
        stack.push_async_callback(store.close)
        return Stores(store, store, own=store)
    stores = await open_shared_stores(stack, settings, clock)
    await check_unshared(stores.local, local_url)
    return stores


async def open_shared_stores(
    stack: AsyncExitStack, settings: Configuration, clock: Clock
) -> Stores:
    """Open the servers that the settings name; they are closed with the stack."""
    local_url = settings.metadataStoreUrl
    local = await open_zookeeper(stack, settings, local_url, clock)
    shared_url = settings.configurationMetadataStoreUrl or local_url
    configuration = (
        local
        if shared_url == local_url
        else await open_zookeeper(stack, settings, shared_url, clock)
    )
    return Stores(local, configuration)


async def open_zookeeper(
    stack: AsyncExitStack, settings: Configuration, url: str, clock: Clock
) -> MetadataStore:
    """Raise InvalidConfiguration for any other address; closed with the stack."""
    if not url.startswith(_ZOOKEEPER):
        raise InvalidConfiguration(
            f"metadata is kept in a file of the broker or on ZooKeeper (zk://host:port/chroot),"
            f" not at {url!r}"
        )
    file = settings.metadataStoreConfigPath
    if url == settings.configurationMetadataStoreUrl:
        file = settings.configurationStoreConfigPath or file
    try:
        from magnetar.app.zookeeper_file import load_login, load_tls
        from magnetar.metadata.backends.zookeeper import ZookeeperStore
    except ImportError:
        raise InvalidConfiguration(
            f"{url}: metadata on ZooKeeper needs kazoo; install magnetar[cluster]"
        ) from None
    store = await ZookeeperStore.open(
        url,
        session_timeout_s=settings.metadataStoreSessionTimeoutMillis / 1000,
        deadline_s=settings.metadataStoreOperationTimeoutSeconds,
        clock=clock,
        tls=load_tls(file),
        login=load_login(file),
    )
    stack.push_async_callback(store.close)
    return store

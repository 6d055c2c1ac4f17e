"""A ledger store on real bookies."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from magnetar.ledger.backends.bookkeeper import BookkeeperPolicy
from magnetar.ledger.backends.bookkeeper.import_store import BookkeeperImportStore
from magnetar.metadata.backends.zookeeper import ZookeeperStore
from magnetar.runtime.clock import SYSTEM
from magnetar.testing.bookkeeper import BookieCluster, shared_bookies

QUICK = BookkeeperPolicy(timeout_s=5.0, connect_timeout_s=5.0, quarantine_s=5.0, min_racks=1)


@asynccontextmanager
async def bookkeeper_store(
    cluster: BookieCluster | None = None, policy: BookkeeperPolicy = QUICK, **changes: object
) -> AsyncIterator[BookkeeperImportStore]:
    """Without a `cluster`, on the one that all tests share."""
    url = (cluster or shared_bookies()).url
    metadata = await ZookeeperStore.open(url, session_timeout_s=10)
    store = BookkeeperImportStore(
        metadata,
        metadata.take_number,
        clock=SYSTEM,
        policy=replace(policy, **changes),  # type: ignore[arg-type]
    )
    try:
        await store.open()
        yield store
    finally:
        await store.close()
        await metadata.close()

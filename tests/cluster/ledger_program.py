"""Appends numbered entries to a new ledger and prints how many were granted, until it is killed."""

from __future__ import annotations

import asyncio
import sys

from magnetar.errors import BrokerError
from magnetar.ledger.backends.bookkeeper import BookkeeperLedgerStore, BookkeeperPolicy
from magnetar.metadata.backends.zookeeper import ZookeeperStore
from magnetar.model.position import Term
from magnetar.runtime.clock import SYSTEM

RUN = 10
WINDOW = 30


async def main(url: str) -> None:
    metadata = await ZookeeperStore.open(url)
    store = BookkeeperLedgerStore(
        metadata, metadata.take_number, clock=SYSTEM, policy=BookkeeperPolicy(timeout_s=5)
    )
    await store.open()
    writer = await store.create(term=Term(1), properties={})
    print(writer.id, flush=True)
    granted = sent = 0

    def on_done(error: BrokerError | None) -> None:
        nonlocal granted
        assert error is None
        granted += RUN
        print(granted, flush=True)

    while True:
        while sent - granted < WINDOW * RUN:
            writer.append([b"%020d" % number for number in range(sent, sent + RUN)], on_done)
            sent += RUN
        await asyncio.sleep(0)


asyncio.run(main(sys.argv[1]))

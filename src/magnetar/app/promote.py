"""`magnetar promote`: carry the data directory of a standalone broker into a cluster."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from magnetar.app.bookkeeper import open_bookkeeper_as
from magnetar.app.metadata import open_zookeeper
from magnetar.app.promotion import Progress, Promotion, find_cluster, plan_source
from magnetar.app.promotion_source import open_source
from magnetar.cli.progress import Progress as Bar
from magnetar.cli.progress import show_bytes
from magnetar.errors import MagnetarError
from magnetar.ledger.backends.bookkeeper.import_store import BookkeeperImportStore
from magnetar.runtime.clock import Clock, SystemClock
from magnetar.runtime.configuration import Configuration

_REPORT_S: Final = 1.0
_MIB: Final = 1 << 20


def run(
    *,
    data: Path,
    metadata: str | None,
    cluster: str | None = None,
    config: Path | None = None,
    overrides: Sequence[str] = (),
) -> int:
    """Print how it goes on; 0 when everything is in the cluster, 1 with the reason when not."""
    chosen = [*overrides, f"metadataStoreUrl={metadata}"] if metadata else overrides
    try:
        settings = Configuration.load(config, chosen, standalone=False)
        print(asyncio.run(promote(data, settings, cluster=cluster)))
    except MagnetarError as refusal:
        print(f"magnetar: {refusal.sentence}", file=sys.stderr)
        return 1
    return 0


async def promote(data: Path, settings: Configuration, *, cluster: str | None = None) -> str:
    """Return in a sentence what was carried. Raise a MagnetarError that says why it was not."""
    clock = SystemClock()
    async with AsyncExitStack() as stack:
        source = await stack.enter_async_context(open_source(data))
        store = await open_zookeeper(stack, settings, settings.metadataStoreUrl, clock)
        ledgers = await open_bookkeeper_as(BookkeeperImportStore, stack, settings, store, clock)
        name = await find_cluster(store, cluster)
        plan = await plan_source(source, cluster=name)
        bar = stack.enter_context(
            show_bytes("carried", sum(each.info.length for each in plan.ledgers))
        )
        promotion = Promotion(source, store, ledgers, _Reporter(clock, bar))
        done = await promotion.run(plan)
    return (
        f"{data} is in cluster {name}: {plan.topics} topics, {plan.cursors} cursors,"
        f" {done.ledgers} ledgers, {done.entries} entries, {done.size} bytes; every ledger was read"
        " back and is as it was. The directory is unchanged: do not start a broker on it again"
    )


class _Reporter:
    """A bar on a terminal; elsewhere a line once a second at most, and one at the end."""

    def __init__(self, clock: Clock, bar: Bar) -> None:
        self._clock = clock
        self._bar = bar
        self._carried = 0
        self._at_s = clock.monotonic()

    def __call__(self, done: Progress) -> None:
        self._bar.add(done.size - self._carried)
        self._carried = done.size
        now = self._clock.monotonic()
        if self._bar.is_shown:
            return
        if now - self._at_s < _REPORT_S and done.ledgers < done.ledgers_all:
            return
        self._at_s = now
        print(
            f"{done.ledgers} of {done.ledgers_all} ledgers,"
            f" {done.size / _MIB:.1f} of {done.size_all / _MIB:.1f} MiB",
            file=sys.stderr,
            flush=True,
        )

"""Many topics at once: written to the metadata of a broker that does not run."""

from __future__ import annotations

import asyncio
from pathlib import Path

from magnetar.app.directory import DataDirectory
from magnetar.metadata.backends.sqlite import SqliteStore
from magnetar.metadata.store import ABSENT
from magnetar.model.log_path import log_path
from magnetar.model.name import parse_topic
from magnetar.runtime.clock import SystemClock


def write_topics(data: Path, count: int) -> None:
    """Topics of public/default without a message, as brokers find them that did not load them."""

    async def body() -> None:
        store = await SqliteStore.open(DataDirectory(data).metadata_file, clock=SystemClock())
        try:
            names = (parse_topic(f"t-{number:05d}") for number in range(count))
            await asyncio.gather(
                *(store.put(log_path(name, 0), b"", expect=ABSENT) for name in names)
            )
        finally:
            await store.close()

    asyncio.run(body())

"""Filling topics for tests, and what must then be found in them."""

from __future__ import annotations

import asyncio
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from magnetar import AsyncPulsarClient

PATIENCE_S = 60.0


def fresh(prefix: str = "t") -> str:
    return f"public/default/{prefix}-{uuid.uuid4().hex[:10]}"


def publish(
    url: str, topic: str, values: Iterable[Any], key: Callable[[Any], Any] | None = None, **how: Any
) -> None:
    """Each value as text, with its key; through the producer that follows splits and merges."""
    options = how.pop("message", {})

    async def body() -> None:
        async with (
            AsyncPulsarClient(url) as client,
            client.producer(f"topic://{topic}", **how) as producer,
        ):
            sent = [
                await producer.submit(
                    value if isinstance(value, bytes) else str(value).encode(),
                    **({} if key is None else {"key": key(value)}),
                    **options,
                )
                for value in values
            ]
            await asyncio.gather(*sent)

    asyncio.run(body())


def publish_regular(url: str, topic: str, values: Iterable[Any], **how: Any) -> None:
    async def body() -> None:
        async with (
            AsyncPulsarClient(url) as client,
            client.producer(f"persistent://{topic}", **how) as producer,
        ):
            sent = [await producer.submit(str(value).encode()) for value in values]
            await asyncio.gather(*sent)

    asyncio.run(body())


def numbers(rows: Sequence[Any]) -> list[int]:
    """The values as numbers, sorted: what was read, whatever the order."""
    return sorted(int(row["value"]) for row in rows)


def by_key(rows: Sequence[Any]) -> dict[str, list[int]]:
    """The values of each key in the order of the rows."""
    found: dict[str, list[int]] = defaultdict(list)
    for row in rows:
        found[bytes(row["key"]).decode()].append(int(row["value"]))
    return dict(found)


def publish_values(
    url: str,
    topic: str,
    schema: Any,
    values: Iterable[Any],
    key: Callable[[Any], str] | None = None,
) -> None:
    """One message each, in order, through a producer of that schema."""

    async def body() -> None:
        async with (
            AsyncPulsarClient(url) as client,
            client.producer(f"topic://{topic}", schema=schema) as producer,
        ):
            for value in values:
                await producer.send(value, key=None if key is None else key(value))

    asyncio.run(body())

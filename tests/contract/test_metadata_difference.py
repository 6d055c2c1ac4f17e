"""Every store does what the one in memory does, whatever is asked of it one after the other."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable
from pathlib import Path

import pytest

from magnetar.errors import BrokerError
from magnetar.metadata.store import (
    ABSENT,
    ANY_VERSION,
    Change,
    ChangeKind,
    MetadataStore,
    Record,
    Stat,
)
from tests.contract.metadata_place import PLACES, MemoryPlace

PATHS = ("/a", "/a/b", "/a/b/c", "/a/d", "/a/b/c/e", "/f", "/f/g")
STEPS = 150


async def act(store: MetadataStore, action: str, path: str, value: bytes) -> object:
    record = await store.get(path)
    version = 5 if record is None else record.stat.version
    match action:
        case "create":
            return await outcome(store.put(path, value, expect=ABSENT))
        case "put":
            return await outcome(store.put(path, value, expect=ANY_VERSION))
        case "replace":
            return await outcome(store.put(path, value, expect=version))
        case "delete":
            return await outcome(store.delete(path, expect=version))
        case "delete any":
            return await outcome(store.delete(path, expect=ANY_VERSION))
        case _:
            return await outcome(store.delete_recursive(path))


async def outcome(call: Awaitable[object]) -> object:
    """What a caller learns; versions may differ between stores."""
    try:
        value = await call
    except BrokerError as refusal:
        return type(refusal)
    return "stored" if isinstance(value, Stat) else value


async def look(store: MetadataStore) -> list[object]:
    seen: list[object] = []
    for path in ("/", *PATHS):
        seen += [path, await store.children(path), await store.exists(path)]
        record: Record | None = None if path == "/" else await store.get(path)
        seen.append(None if record is None else (record.value, record.stat.ephemeral))
    return seen


def tell(heard: list[Change]) -> tuple[list[tuple[str, bool]], set[str]]:
    """Records that came to be or changed, or went, in order; and whose children changed."""
    records = [
        (change.path, change.kind is ChangeKind.DELETED)
        for change in heard
        if change.kind is not ChangeKind.CHILDREN_CHANGED
    ]
    return records, {change.path for change in heard if change.kind is ChangeKind.CHILDREN_CHANGED}


@pytest.mark.parametrize("seed", range(1))
@pytest.mark.parametrize("name", sorted(set(PLACES) - {"memory"}))
def test_a_store_and_the_one_in_memory_cannot_be_told_apart(
    name: str, seed: int, tmp_path: Path
) -> None:
    async def body() -> None:
        chance = random.Random(seed)
        stores = [await MemoryPlace(tmp_path).open(), await PLACES[name](tmp_path).open()]
        heard: list[list[Change]] = [[], []]
        for store, changes in zip(stores, heard, strict=True):
            store.watch("/", changes.append)
        actions = ["create", "put", "replace", "delete", "delete any", "delete all below"]
        for step in range(STEPS):
            action = chance.choices(actions, (6, 4, 4, 3, 3, 1))[0]
            path, value = chance.choice(PATHS), chance.choice((b"", b"x", b"yy"))
            where = f"step {step}: {action} {path} {value!r}"
            for changes in heard:
                changes.clear()
            outcomes = [await act(store, action, path, value) for store in stores]
            assert outcomes[0] == outcomes[1], where
            assert await look(stores[0]) == await look(stores[1]), where
            if action != "delete all below":  # stores may take what is below in another order
                assert tell(heard[0]) == tell(heard[1]), where
        for store in stores:
            await store.close()

    asyncio.run(body())

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import pytest

from magnetar.broker.schema import SchemaRegistry, schema_id
from magnetar.errors import IncompatibleSchema, InvalidSchema, LedgerNotFound, StorageFailed
from magnetar.metadata.backends.memory import MemoryStore, MemoryTree
from magnetar.model.limit import Limits
from magnetar.model.name import parse_topic
from magnetar.model.schema import CompatibilityStrategy, SchemaData, SchemaType
from magnetar.runtime.clock import LoopClock
from magnetar.testing.ledger import FaultyLedgerStore
from magnetar.testing.memory_ledger import MemoryLedgerStore
from magnetar.wire.schema import decode_locator

TOPIC = parse_topic("persistent://shop/eu/orders")
PATH = "/schemas/shop/eu/orders"
S = CompatibilityStrategy


def avro(*names: str, defaults: bool = True) -> SchemaData:
    fields = [
        {"name": name, "type": "int", **({"default": 0} if defaults else {})} for name in names
    ]
    definition = {"type": "record", "name": "Order", "fields": fields}
    return SchemaData(SchemaType.AVRO, json.dumps(definition).encode(), {"k": "v"}, "ann")


@dataclass
class SteppingClock(LoopClock):
    now: int = 1_000

    def now_ms(self) -> int:
        self.now += 1
        return self.now

    def monotonic(self) -> float:
        return self.now / 1000


@dataclass
class Setup:
    tree: MemoryTree = field(default_factory=lambda: MemoryTree(SteppingClock()))
    ledgers: MemoryLedgerStore = field(default_factory=MemoryLedgerStore)

    def registry(self, **more: Any) -> SchemaRegistry:
        return SchemaRegistry(MemoryStore(self.tree), self.ledgers, SteppingClock(), **more)

    @property
    def store(self) -> MemoryStore:
        return MemoryStore(self.tree)


def run(body: Callable[[Setup], Coroutine[Any, Any, None]]) -> None:
    async def inside() -> None:
        await body(Setup())

    asyncio.run(inside())


def test_versions_count_from_zero_and_the_same_schema_keeps_its_version() -> None:
    async def body(setup: Setup) -> None:
        registry = setup.registry()
        assert await registry.get_latest(TOPIC) is None
        assert await registry.put_if_absent(TOPIC, avro("a"), S.FULL) == 0
        assert await registry.put_if_absent(TOPIC, avro("a", "b"), S.FULL) == 1
        assert await registry.put_if_absent(TOPIC, avro("a"), S.FULL) == 0
        spaced = SchemaData(
            SchemaType.AVRO, json.dumps(json.loads(avro("a").definition), indent=1).encode()
        )
        assert await registry.put_if_absent(TOPIC, spaced, S.FULL) == 0
        assert await registry.find_version(TOPIC, avro("a", "b")) == 1
        assert await registry.find_version(TOPIC, spaced) is None
        assert len(await setup.ledgers.ledgers()) == 2

    run(body)


def test_another_registry_reads_what_was_stored() -> None:
    async def body(setup: Setup) -> None:
        await setup.registry().put_if_absent(TOPIC, avro("a"), S.FULL)
        await setup.registry().put_if_absent(TOPIC, avro("a", "b"), S.FULL)
        registry = setup.registry()
        latest = await registry.get_latest(TOPIC)
        assert latest is not None
        assert latest.version == 1
        assert latest.schema.definition == avro("a", "b").definition
        assert latest.schema.properties == {"k": "v"}
        assert latest.schema.user == "ann"
        assert latest.schema.timestamp_ms > 1_000
        first = await registry.get(TOPIC, 0)
        assert first is not None
        assert first.schema.definition == avro("a").definition
        assert await registry.get(TOPIC, 2) is None
        assert [stored.version for stored in await registry.get_all(TOPIC)] == [0, 1]

    run(body)


def test_the_record_lists_versions_as_pulsar_does() -> None:
    async def body(setup: Setup) -> None:
        registry = setup.registry()
        await registry.put_if_absent(TOPIC, avro("a"), S.FULL)
        await registry.delete(TOPIC)
        record = await setup.store.get(PATH)
        assert record is not None
        index = decode_locator(record.value)
        assert [entry.version for entry in index] == [0, 1]
        assert [entry.digest for entry in index] == [avro("a").digest, b""]
        assert tuple(
            entry.position.ledger_id for entry in index
        ) == await registry.storage.ledgers_of(TOPIC)
        info = await setup.ledgers.describe(await only(registry.storage.ledgers_of(TOPIC)))
        assert info.sealed
        assert info.properties["pulsar/schemaId"] == "shop/eu/orders"

    async def only(ledgers: Coroutine[Any, Any, tuple[Any, ...]]) -> Any:
        return (await ledgers)[0]

    run(body)


@pytest.mark.parametrize(
    ("topic", "expected"),
    [
        ("persistent://shop/eu/orders-partition-3", "shop/eu/orders"),
        ("topic://shop/eu/orders", "shop/eu/orders"),
        ("segment://shop/eu/orders/0000-ffff-1", "shop/eu/orders"),
        ("persistent://shop/eu/a b", "shop/eu/a+b"),
    ],
)
def test_a_topic_its_partitions_and_its_segments_have_one_history(
    topic: str, expected: str
) -> None:
    assert schema_id(parse_topic(topic)) == expected


def test_an_incompatible_schema_is_refused_and_leaves_nothing_behind() -> None:
    async def body(setup: Setup) -> None:
        registry = setup.registry()
        await registry.put_if_absent(TOPIC, avro("a"), S.FULL)
        new = avro("a", "b", defaults=False)
        for strategy in (S.FULL, S.BACKWARD, S.UNDEFINED, S.ALWAYS_INCOMPATIBLE):
            with pytest.raises(IncompatibleSchema):
                await registry.put_if_absent(TOPIC, new, strategy)
            with pytest.raises(IncompatibleSchema):
                await registry.check_compatibility(TOPIC, new, strategy)
        assert len(await setup.ledgers.ledgers()) == 1
        await registry.check_compatibility(TOPIC, new, S.FORWARD)
        assert await registry.put_if_absent(TOPIC, new, S.FORWARD) == 1

    run(body)


def test_an_invalid_definition_is_refused_before_anything_else() -> None:
    async def body(setup: Setup) -> None:
        registry = setup.registry()
        bad = SchemaData(SchemaType.AVRO, b"nonsense")
        for call in (registry.put_if_absent, registry.check_compatibility, registry.check_consumer):
            with pytest.raises(InvalidSchema):
                await call(TOPIC, bad, S.ALWAYS_COMPATIBLE)
        assert await setup.store.get(PATH) is None

    run(body)


def test_old_json_is_taken_where_it_is_allowed() -> None:
    async def body(setup: Setup) -> None:
        old = SchemaData(SchemaType.JSON, b'{"type":"object","id":"x"}')
        with pytest.raises(InvalidSchema):
            await setup.registry().put_if_absent(TOPIC, old, S.FULL)
        assert await setup.registry(legacy_json=True).put_if_absent(TOPIC, old, S.FULL) == 0

    run(body)


def test_without_automatic_updates_only_known_schemas_pass() -> None:
    async def body(setup: Setup) -> None:
        registry = setup.registry()
        await registry.put_if_absent(TOPIC, avro("a"), S.FULL)
        known = await registry.put_if_absent(TOPIC, avro("a"), S.FULL, allow_auto_update=False)
        assert known == 0
        with pytest.raises(IncompatibleSchema, match="may not bring new ones"):
            await registry.put_if_absent(TOPIC, avro("b"), S.FULL, allow_auto_update=False)

    run(body)


def test_a_deleted_history_begins_anew_at_the_next_version() -> None:
    async def body(setup: Setup) -> None:
        registry = setup.registry()
        await registry.put_if_absent(TOPIC, avro("a"), S.FULL)
        assert await registry.delete(TOPIC) == 1
        assert await registry.get_latest(TOPIC) is None
        assert await registry.get(TOPIC, 0) is None
        assert await registry.get_all(TOPIC) == ()
        other = SchemaData(SchemaType.STRING)
        assert await registry.put_if_absent(TOPIC, other, S.FULL) == 2
        assert [stored.version for stored in await registry.get_all(TOPIC)] == [2]
        assert await registry.delete(TOPIC) == 3
        assert await registry.delete(TOPIC) == 4

    run(body)


def test_deleting_by_force_forgets_everything_and_frees_the_ledgers() -> None:
    async def body(setup: Setup) -> None:
        registry, reader = setup.registry(), setup.registry()
        await registry.put_if_absent(TOPIC, avro("a"), S.FULL)
        await registry.put_if_absent(TOPIC, avro("a", "b"), S.FULL)
        assert len(await reader.get_all(TOPIC)) == 2
        assert await registry.delete(TOPIC, force=True) == -1
        assert await setup.ledgers.ledgers() == ()
        assert await setup.store.get(PATH) is None
        assert await registry.get_latest(TOPIC) is None
        assert await reader.get_latest(TOPIC) is None
        await registry.delete_storage(TOPIC)
        assert await registry.put_if_absent(TOPIC, avro("z"), S.FULL) == 0

    run(body)


def test_a_lost_ledger_is_told_not_hidden() -> None:
    async def body(setup: Setup) -> None:
        registry = setup.registry()
        await registry.put_if_absent(TOPIC, avro("a"), S.FULL)
        (ledger,) = await registry.storage.ledgers_of(TOPIC)
        await setup.ledgers.delete(ledger)
        with pytest.raises(LedgerNotFound):
            await setup.registry().get_latest(TOPIC)

    run(body)


def test_consumers_are_checked_as_readers() -> None:
    async def body(setup: Setup) -> None:
        registry = setup.registry()
        with pytest.raises(IncompatibleSchema, match="has no schema to check against"):
            await registry.check_consumer(TOPIC, avro("a"), S.FULL)
        await registry.check_consumer(TOPIC, avro("a"), S.ALWAYS_COMPATIBLE)
        await registry.put_if_absent(TOPIC, avro("a"), S.FULL)
        await registry.check_consumer(TOPIC, avro(), S.FORWARD)
        with pytest.raises(IncompatibleSchema):
            await registry.check_consumer(TOPIC, avro("b", defaults=False), S.FORWARD)

    run(body)


def test_simultaneous_producers_of_one_schema_get_one_version() -> None:
    async def body(setup: Setup) -> None:
        registry = setup.registry()
        calls = [registry.put_if_absent(TOPIC, avro("a"), S.FULL) for _ in range(20)]
        assert set(await asyncio.gather(*calls)) == {0}
        assert len(await setup.ledgers.ledgers()) == 1

    run(body)


def test_two_brokers_agree_on_versions_and_leave_no_ledger_behind() -> None:
    async def body(setup: Setup) -> None:
        brokers = [setup.registry() for _ in range(4)]
        schemas = [avro(*"abcdefgh"[: size + 1]) for size in range(8)]
        calls = [
            broker.put_if_absent(TOPIC, schema, S.FULL) for schema in schemas for broker in brokers
        ]
        versions = await asyncio.gather(*calls)
        by_schema = [set(versions[at : at + 4]) for at in range(0, len(versions), 4)]
        assert all(len(found) == 1 for found in by_schema)
        assert sorted(found.pop() for found in by_schema) == list(range(8))
        assert len(await setup.ledgers.ledgers()) == 8

    run(body)


def test_a_failed_write_leaves_the_history_as_it_was() -> None:
    async def body(setup: Setup) -> None:
        faulty = FaultyLedgerStore(setup.ledgers)
        registry = SchemaRegistry(setup.store, faulty, SteppingClock())
        await registry.put_if_absent(TOPIC, avro("a"), S.FULL)
        faulty.fail_next(StorageFailed("the disk is on fire"))
        with pytest.raises(StorageFailed):
            await registry.put_if_absent(TOPIC, avro("a", "b"), S.FULL)
        assert [stored.version for stored in await registry.get_all(TOPIC)] == [0]
        assert await registry.put_if_absent(TOPIC, avro("a", "b"), S.FULL) == 1

    run(body)


def union(prefix: str, *, size: int) -> SchemaData:
    """Reading one of another prefix tries all records with all: only the last one fits."""
    kinds: list[Any] = [
        {"type": "record", "name": f"{prefix}{i}", "fields": [{"name": prefix, "type": "int"}]}
        for i in range(size)
    ]
    kinds.append({"type": "record", "name": f"{prefix}Any", "fields": []})
    definition = {"type": "record", "name": "R", "fields": [{"name": "u", "type": kinds}]}
    return SchemaData(SchemaType.AVRO, json.dumps(definition).encode())


def test_the_event_loop_runs_on_during_a_check() -> None:
    async def body(setup: Setup) -> None:
        registry = setup.registry()
        await registry.put_if_absent(TOPIC, union("a", size=200), S.FULL)
        check = asyncio.create_task(registry.put_if_absent(TOPIC, union("b", size=200), S.FULL))
        turns = 0
        while not check.done():
            await asyncio.sleep(0)
            turns += 1
        assert turns > 100
        assert await check == 1
        registry.close()

    run(body)


def test_a_check_that_takes_too_many_steps_is_refused() -> None:
    async def body(setup: Setup) -> None:
        registry = setup.registry(limits=Limits(schema_check_steps=10_000))
        await registry.put_if_absent(TOPIC, union("a", size=100), S.FULL)
        for call in (registry.put_if_absent, registry.check_compatibility, registry.check_consumer):
            with pytest.raises(IncompatibleSchema, match="more than 10000 steps"):
                await call(TOPIC, union("b", size=100), S.FULL)
        assert len(await registry.get_all(TOPIC)) == 1

    run(body)


def test_a_definition_that_is_too_large_is_refused_before_it_is_read() -> None:
    async def body(setup: Setup) -> None:
        registry = setup.registry(limits=Limits(schema_bytes=100))
        large = SchemaData(SchemaType.AVRO, b"x" * 101)
        for call in (registry.put_if_absent, registry.check_compatibility, registry.check_consumer):
            with pytest.raises(InvalidSchema, match=r"has 101 bytes .* at most 100 are"):
                await call(TOPIC, large, S.FULL)

    run(body)

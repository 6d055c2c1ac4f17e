"""The schemas of topics: every version kept in a ledger, and a record that lists them.

The record stands at `/schemas/tenant/namespace/topic`. A version is written to a ledger of its own
first; then the record is changed, and from there on the version exists. A broker that dies in
between leaves an orphaned ledger, which the sweep deletes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar
from weakref import WeakValueDictionary

from magnetar.errors import (
    BrokerError,
    EntryNotFound,
    IncompatibleSchema,
    InvalidSchema,
    LedgerNotFound,
    RecordNotFound,
    VersionConflict,
)
from magnetar.ledger.belonging import LedgerUse, UseKind, check_use
from magnetar.ledger.store import LedgerStore
from magnetar.metadata.store import ABSENT, MetadataStore
from magnetar.model.limit import Limits
from magnetar.model.name import TopicDomain, TopicName, encode_local
from magnetar.model.position import EntryId, LedgerId, Position, Term
from magnetar.model.schema import (
    CompatibilityStrategy,
    SchemaData,
    SchemaType,
    StoredSchema,
)
from magnetar.rules.schema import (
    find_consumer_incompatibility,
    find_incompatibility,
    find_same,
    validate_schema,
)
from magnetar.runtime.clock import Clock
from magnetar.runtime.worker import ThreadWorker, Workers
from magnetar.wire.schema import (
    SchemaIndex,
    decode_locator,
    decode_stored,
    encode_locator,
    encode_stored,
)

_TRIES_MAX: Final = 20
_CACHED_BYTES_MAX: Final = 32 << 20
_ENTRY_BYTES: Final = 1000
"""About what a cached schema takes besides its text."""
_TERM: Final = Term(0)
"""A schema's ledger is written once, by the broker that created it: no writer is fenced."""

T = TypeVar("T")


def schema_id(topic: TopicName) -> str:
    """One for a topic, its partitions and its segments: `tenant/namespace/topic`."""
    local = topic.base.local
    if topic.domain is TopicDomain.SEGMENT:
        local = local.rpartition("/")[0]
    return f"{topic.namespace}/{encode_local(local)}"


class SchemaStorage:
    """The versions of topics' schemas in their ledgers, and the records that list them."""

    def __init__(self, store: MetadataStore, ledgers: LedgerStore, clock: Clock) -> None:
        self._store = store
        self._ledgers = ledgers
        self._clock = clock
        self._cached: dict[Position, SchemaData] = {}
        self._cached_bytes = 0

    async def ledgers_of(self, topic: TopicName) -> tuple[LedgerId, ...]:
        """The ledgers that hold the topic's versions, oldest first."""
        index, _ = await self.load(topic)
        return tuple(LedgerId(entry.position.ledger_id) for entry in index)

    async def load(self, topic: TopicName) -> tuple[tuple[SchemaIndex, ...], int]:
        record = await self._store.get(_path(topic))
        if record is None:
            return (), ABSENT
        return decode_locator(record.value), record.stat.version

    async def read_history(
        self, topic: TopicName, index: Sequence[SchemaIndex]
    ) -> tuple[StoredSchema, ...]:
        history: list[StoredSchema] = []
        for entry in reversed(index):
            stored = await self._read(topic, entry)
            if stored.schema.deleted:
                break
            history.append(stored)
        return tuple(reversed(history))

    async def append(
        self,
        topic: TopicName,
        schema: SchemaData,
        index: tuple[SchemaIndex, ...],
        expect: int,
    ) -> int | None:
        """Write a version and list it; None when the list was changed meanwhile."""
        name = schema_id(topic)
        kept = replace(schema, timestamp_ms=self._clock.now_ms())
        position = await self._write(name, encode_stored(name, kept, index))
        version = index[-1].version + 1 if index else 0
        entry = SchemaIndex(version, position, b"" if kept.deleted else kept.digest)
        try:
            await self._store.put(_path(topic), encode_locator((*index, entry)), expect=expect)
        except VersionConflict:
            await self._ledgers.delete(LedgerId(position.ledger_id))
            return None
        self._ledgers.cancel_deletion([LedgerId(position.ledger_id)])
        return version

    async def remove(self, topic: TopicName, index: Sequence[SchemaIndex], expect: int) -> bool:
        """Delete every version that is listed; False when the list was changed meanwhile."""
        ledgers = [LedgerId(entry.position.ledger_id) for entry in index]
        await self._ledgers.intend_deletion(ledgers)
        try:
            await self._store.delete(_path(topic), expect=expect)
        except RecordNotFound:
            return True
        except VersionConflict:
            return False
        for entry, ledger in zip(index, ledgers, strict=True):
            self._forget(entry.position)
            await self._ledgers.delete(ledger)
        return True

    async def _read(self, topic: TopicName, entry: SchemaIndex) -> StoredSchema:
        schema = self._cached.get(entry.position)
        if schema is None:
            ledger = LedgerId(entry.position.ledger_id)
            use = LedgerUse(UseKind.SCHEMA, schema_id(topic))
            check_use(await self._ledgers.describe(ledger), use)
            found = await self._ledgers.read(
                ledger,
                EntryId(entry.position.entry_id),
                entries_max=1,
                bytes_max=1,
            )
            if not found:
                raise EntryNotFound(f"schema version {entry.version} is not at {entry.position}")
            schema = decode_stored(found[0])
            self._keep(entry.position, schema)
        return StoredSchema(entry.version, schema)

    def _keep(self, position: Position, schema: SchemaData) -> None:
        self._forget(position)
        self._cached[position] = schema
        self._cached_bytes += _ENTRY_BYTES + _size(schema)
        while self._cached_bytes > _CACHED_BYTES_MAX:
            self._forget(next(iter(self._cached)))

    def _forget(self, position: Position) -> None:
        schema = self._cached.pop(position, None)
        if schema is not None:
            self._cached_bytes -= _ENTRY_BYTES + _size(schema)

    async def _write(self, name: str, data: bytes) -> Position:
        writer = await self._ledgers.create(
            term=_TERM,
            properties=LedgerUse(UseKind.SCHEMA, name).format(),
            deletion_intended=True,
        )
        durable: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def on_appended(error: BrokerError | None) -> None:
            if durable.done():
                return
            if error is None:
                durable.set_result(None)
            else:
                durable.set_exception(error)

        entry = writer.append([data], on_appended)
        await durable
        await writer.seal()
        return Position(writer.id, entry)


class SchemaRegistry:
    """Changes of one topic's schemas happen one after the other, also against other brokers'.

    Definitions are parsed and compared in a thread of their own, one check at a time: clients
    choose how much work that is, up to a budget of steps, and the event loop runs on meanwhile.
    """

    def __init__(
        self,
        store: MetadataStore,
        ledgers: LedgerStore,
        clock: Clock,
        *,
        legacy_json: bool = False,
        limits: Limits | None = None,
        workers: Workers = ThreadWorker,
    ) -> None:
        self.storage = SchemaStorage(store, ledgers, clock)
        self._legacy_json = legacy_json
        self._limits = limits or Limits()
        self._worker = workers("schema-check")
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def close(self) -> None:
        """Let no further check begin; one under way ends with its budget."""
        self._worker.close(wait=False)

    async def get_latest(self, topic: TopicName) -> StoredSchema | None:
        """None when there never was one, and when it is deleted."""
        history = await self.get_all(topic)
        return history[-1] if history else None

    async def get(self, topic: TopicName, version: int) -> StoredSchema | None:
        """None for a version that never was or that was deleted."""
        history = await self.get_all(topic)
        return next((stored for stored in history if stored.version == version), None)

    async def get_all(self, topic: TopicName) -> tuple[StoredSchema, ...]:
        """The versions since the last deletion, oldest first."""
        index, version = await self.storage.load(topic)
        while True:
            try:
                return await self.storage.read_history(topic, index)
            except LedgerNotFound:  # deleted between the two reads, or lost
                index, newer = await self.storage.load(topic)
                if newer == version:
                    raise
                version = newer

    async def find_version(self, topic: TopicName, schema: SchemaData) -> int | None:
        """The version with exactly this definition."""
        return _find_exact(await self.get_all(topic), schema)

    async def put_if_absent(
        self,
        topic: TopicName,
        schema: SchemaData,
        strategy: CompatibilityStrategy,
        *,
        allow_auto_update: bool = True,
    ) -> int:
        """The version of this schema, a new one unless it is known.

        Raise InvalidSchema for a definition that is not of its type, IncompatibleSchema for one
        that may not follow those before it, or for any new one unless `allow_auto_update`.
        """
        self._check_size(schema)
        async with self._turn(topic):
            for _ in range(_TRIES_MAX):
                index, expect = await self.storage.load(topic)
                history = await self.storage.read_history(topic, index)
                known = _find_exact(history, schema)
                if known is not None:
                    return known
                known = await self._judge(schema, partial(self._find_same, history, schema))
                if known is not None:
                    return known
                if not allow_auto_update:
                    raise IncompatibleSchema(
                        f"{topic} has no such schema, and producers may not bring new ones"
                    )
                await self._check_after(history, schema, strategy)
                version = await self.storage.append(topic, schema, index, expect)
                if version is not None:
                    return version
        raise VersionConflict(f"the schemas of {topic} keep changing")

    async def check_compatibility(
        self, topic: TopicName, schema: SchemaData, strategy: CompatibilityStrategy
    ) -> None:
        """Raise InvalidSchema or IncompatibleSchema when a producer could not bring this schema."""
        await self._validate(schema)
        await self._check_after(await self.get_all(topic), schema, strategy)

    async def check_consumer(
        self, topic: TopicName, schema: SchemaData, strategy: CompatibilityStrategy
    ) -> None:
        """Raise IncompatibleSchema when a consumer with this schema could not read the topic."""
        await self._validate(schema)
        if strategy is CompatibilityStrategy.ALWAYS_COMPATIBLE:
            return
        history = [stored.schema for stored in await self.get_all(topic)]
        if not history:
            raise IncompatibleSchema(f"{topic} has no schema to check against")
        check = partial(find_consumer_incompatibility, history, schema, strategy)
        await self._compare(schema, check)

    async def delete(self, topic: TopicName, *, force: bool = False) -> int:
        """Add a version that says "deleted", and return it; by force, forget all of them: -1."""
        if force:
            await self.delete_storage(topic)
            return -1
        tombstone = SchemaData(SchemaType.NONE, deleted=True)
        async with self._turn(topic):
            for _ in range(_TRIES_MAX):
                index, expect = await self.storage.load(topic)
                version = await self.storage.append(topic, tombstone, index, expect)
                if version is not None:
                    return version
        raise VersionConflict(f"the schemas of {topic} keep changing")

    async def delete_storage(self, topic: TopicName) -> None:
        """Forget every version and give the space back: the topic itself is gone."""
        async with self._turn(topic):
            for _ in range(_TRIES_MAX):
                index, expect = await self.storage.load(topic)
                if not index or await self.storage.remove(topic, index, expect):
                    return
        raise VersionConflict(f"the schemas of {topic} keep changing")

    def _turn(self, topic: TopicName) -> asyncio.Lock:
        return self._turns.setdefault(schema_id(topic), asyncio.Lock())

    def _check_size(self, schema: SchemaData) -> None:
        size, allowed = _size(schema), self._limits.schema_bytes
        if size > allowed:
            raise InvalidSchema(
                f"the schema has {size} bytes with its properties;"
                f" at most {allowed} are allowed (maxSchemaSize)"
            )

    async def _validate(self, schema: SchemaData) -> None:
        self._check_size(schema)
        await self._judge(schema, partial(validate_schema, schema, legacy_json=self._legacy_json))

    def _find_same(self, history: Sequence[StoredSchema], schema: SchemaData) -> int | None:
        validate_schema(schema, legacy_json=self._legacy_json)
        return find_same(history, schema, steps_max=self._limits.schema_check_steps)

    async def _check_after(
        self,
        history: Sequence[StoredSchema],
        schema: SchemaData,
        strategy: CompatibilityStrategy,
    ) -> None:
        versions = [stored.schema for stored in history]
        await self._compare(schema, partial(find_incompatibility, versions, schema, strategy))

    async def _compare(self, schema: SchemaData, find: Callable[..., str | None]) -> None:
        reason = await self._judge(
            schema,
            partial(find, legacy_json=self._legacy_json, steps_max=self._limits.schema_check_steps),
        )
        if reason is not None:
            raise IncompatibleSchema(reason)

    async def _judge(self, schema: SchemaData, decide: Callable[[], T]) -> T:
        """The thread is for definitions: of a primitive type there is nothing to read."""
        if not schema.type.is_struct:
            return decide()
        return await self._worker.run(decide)


def _find_exact(history: Sequence[StoredSchema], schema: SchemaData) -> int | None:
    """The version with the same bytes: most producers bring what is there already."""
    return next((each.version for each in history if each.schema.is_same(schema)), None)


def _size(schema: SchemaData) -> int:
    properties = sum(len(key) + len(value) for key, value in schema.properties.items())
    return len(schema.definition) + properties


def _path(topic: TopicName) -> str:
    return f"/schemas/{schema_id(topic)}"

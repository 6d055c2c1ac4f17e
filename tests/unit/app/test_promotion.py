"""A data directory carried into a cluster: every message, id, cursor and policy; the source as it
was.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from itertools import count
from pathlib import Path

import pytest

from magnetar import AsyncPulsarClient, PulsarClient, Schema
from magnetar.app.directory import holding
from magnetar.app.promotion import ORIGIN, Progress, Promotion, find_cluster, plan_source
from magnetar.app.promotion_plan import plan_promotion
from magnetar.app.promotion_source import open_source
from magnetar.app.standalone import serving
from magnetar.broker.persistent import PersistentTopic
from magnetar.broker.resource import Resources
from magnetar.broker.service import Service
from magnetar.errors import DataDirectoryRefused, PromotionRefused, StorageFailed, VersionConflict
from magnetar.ledger.cache import EntryCache
from magnetar.ledger.info import LogPolicy
from magnetar.ledger.log import Log
from magnetar.ledger.store import Digest
from magnetar.metadata.backends.memory import MemoryStore, MemoryTree
from magnetar.metadata.backends.zookeeper import RECORD_BYTES_MAX
from magnetar.metadata.store import ABSENT, Record, Stat
from magnetar.model.layout import Layout
from magnetar.model.log_path import coordinator_journal
from magnetar.model.name import NamespaceName, parse_topic
from magnetar.model.policy import Policies
from magnetar.model.position import EARLIEST, LedgerId, Position, Term
from magnetar.model.scalable import ScalableTopicMetadata
from magnetar.model.tenancy import TenantInfo
from magnetar.runtime.clock import SystemClock
from magnetar.runtime.configuration import Configuration
from magnetar.testing import MagnetarBroker
from magnetar.testing.memory_ledger import MemoryLedgerStore, MemoryWriter
from magnetar.wire.scalable import encode_topic_record
from tests.unit.broker.broker_place import assemble

CLOCK = SystemClock()
JOURNAL = coordinator_journal(7)
ORDERS = "persistent://acme/shop/orders"
SEGMENTS = ("segment://acme/shop/flow/0000-7fff-0", "segment://acme/shop/flow/8000-ffff-1")


class Target(MemoryLedgerStore):
    """Ledgers with given ids; an append may be made to fail, as when the process is killed."""

    def __init__(self) -> None:
        super().__init__(is_shared=True)
        self.left: int | None = None

    async def create_at(
        self, ledger: LedgerId, *, properties: Mapping[str, str], digest: Digest = Digest.CRC32C
    ) -> MemoryWriter:
        found = self._ledgers.get(ledger)
        if found is not None and (found.sealed or found.properties != properties):
            raise VersionConflict("the id is taken")
        if self.left is not None:
            self.left -= 1
        if self.left == 0:
            raise StorageFailed("killed")
        self._ids = count(ledger)
        return await self.create(term=Term(0), properties=properties, digest=digest)

    async def reserve(self, above: int) -> None:
        self._ids = count(above)


def digest_of(directory: Path) -> dict[str, str]:
    return {
        str(file.relative_to(directory)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(directory.rglob("*"))
        if file.is_file()
    }


async def fill(url: str, service: Service) -> dict[str, list[tuple[Position, bytes]]]:
    """Topics of every kind; return what each has."""
    resources = service.resources
    await resources.tenants.create("acme", TenantInfo(allowedClusters=("standalone",)))
    shop = Policies(replication_clusters=("standalone",), numberOfTopicBuckets=3)
    await resources.namespaces.create(NamespaceName("acme", "shop"), shop)
    await service.scalable.create_topic(parse_topic("topic://acme/shop/flow"), segments=2)
    async with AsyncPulsarClient(url) as client:
        async with client.producer(ORDERS, schema=Schema.STRING) as producer:
            for number in range(20):
                await producer.send(f"{number}", key=f"k{number % 3}")
        consumer = await client.consumer(
            ORDERS, "half", type="shared", initial_position="earliest", ack_receipts=True
        )
        got = [await consumer.receive(10) for _ in range(20)]
        for message in (*got[:7], got[12]):
            await consumer.acknowledge(message)
        async with client.producer("topic://acme/shop/flow") as producer:
            for number in range(10):
                await producer.send(b"%d" % number, key=f"k{number}")
        topic = await service.catalog.load_topic(parse_topic(ORDERS))
        assert isinstance(topic, PersistentTopic)
        await topic.compactor.start()
        while topic.compactor.status()["status"] == "RUNNING":
            await asyncio.sleep(0.01)
        await topic.log.cursors["half"].flush()
    journal = await open_journal(service)
    await journal.append_entry(b"note")
    await journal.close()
    return {name: await read(service, name) for name in (ORDERS, *SEGMENTS)}


async def open_journal(service: Service) -> Log:
    """Of a coordinator of transactions, beside the topics."""
    log = Log(
        JOURNAL,
        service.ledgers,
        service.tree.journal_records(JOURNAL),
        LogPolicy(),
        clock=CLOCK,
        term=service.owner.term,
        count_messages=lambda entry: 1,
        cache=EntryCache(1 << 20),
    )
    await log.open()
    await log.cursors.open("c", start=EARLIEST)
    return log


async def read(service: Service, name: str) -> list[tuple[Position, bytes]]:
    topic = await service.catalog.load_topic(parse_topic(name))
    assert isinstance(topic, PersistentTopic)
    found, position = [], EARLIEST
    while (run := await topic.log.reader.read(position, 100, 1 << 20)) is not None:
        found += [
            (Position(run.ledger_id, run.first + index), entry)
            for index, entry in enumerate(run.data)
        ]
        position = run.next_position
    return found


async def make_directory(path: Path) -> dict[str, list[tuple[Position, bytes]]]:
    async with serving(data=path, port=0, web_port=0) as server:
        return await fill(f"pulsar://127.0.0.1:{server.port}", server.service)


async def promote(
    path: Path, store: MemoryStore, target: Target, cluster: str | None = None
) -> Progress:
    async with open_source(path) as source:
        plan = await plan_source(source, cluster=await find_cluster(store, cluster))
        promotion = Promotion(source, store, target, lambda done: None)
        return await promotion.run(plan)


async def make_cluster() -> tuple[MemoryStore, Target]:
    store = MemoryStore(MemoryTree(CLOCK))
    await store.put("/admin/clusters/c1", b"{}", expect=ABSENT)
    await store.put("/admin/policies/public", b'{"allowedClusters":["c1"]}', expect=ABSENT)
    return store, Target()


def test_everything_of_a_directory_is_in_the_cluster_with_its_ids(tmp_path: Path) -> None:
    async def body() -> None:
        data = tmp_path / "data"
        written = await make_directory(data)
        before = digest_of(data)
        store, target = await make_cluster()
        done = await promote(data, store, target)
        assert digest_of(data) == before
        assert done.ledgers == done.ledgers_all == len(await target.ledgers())
        resources = Resources(store, store, clock=CLOCK)
        service = assemble(Configuration({}), CLOCK, resources, target)
        try:
            assert {name: await read(service, name) for name in written} == written
            topic = await service.catalog.load_topic(parse_topic(ORDERS))
            assert isinstance(topic, PersistentTopic)
            cursor = topic.log.cursors["half"]
            assert cursor.mark_delete == written[ORDERS][6][0] and cursor.backlog == 12
            assert topic.compactor.compacted is not None
            assert len(topic.compactor.compacted.positions) == 3
            history = await service.schemas.get_all(parse_topic(ORDERS))
            assert [each.schema.type.name for each in history] == ["STRING"]
            policies = await resources.namespaces.get(NamespaceName("acme", "shop"))
            assert policies is not None and policies.numberOfTopicBuckets is None
            assert policies.replication_clusters == ("c1",)
            assert len(await store.children("/topics/acme/shop")) == 1
            journal = await open_journal(service)
            run = await journal.reader.read(EARLIEST, 9, 1 << 20)
            assert run is not None and run.data == [b"note"] and journal.cursors["c"].backlog == 1
            await journal.close()
            assert await topic.log.append_entry(written[ORDERS][0][1]) > written[ORDERS][-1][0]
        finally:
            await service.close()

    asyncio.run(body())


def test_what_several_workers_wrote_is_promoted(tmp_path: Path) -> None:
    data, topics = tmp_path / "data", [f"persistent://public/default/t-{n}" for n in range(16)]
    with MagnetarBroker(data=data, arguments=("--workers", "2")) as broker:
        with PulsarClient(broker.service_url) as client:
            for topic in topics:
                client.queue_consumer(topic, subscription="s").close()
                with client.producer(topic) as producer:
                    producer.send(topic.encode())
        assert broker.stop() == 0

    async def body() -> None:
        before = digest_of(data)
        store, target = await make_cluster()
        async with open_source(data) as source:
            assert {number & 0xFF for number in source.ledgers} == {0, 1}
        await promote(data, store, target)
        assert digest_of(data) == before
        service = assemble(Configuration({}), CLOCK, Resources(store, store, clock=CLOCK), target)
        try:
            for name in topics:
                topic = await service.catalog.load_topic(parse_topic(name))
                assert isinstance(topic, PersistentTopic)
                [(position, entry)] = await read(service, name)
                assert entry.endswith(name.encode()) and topic.log.cursors["s"].backlog == 1
                assert await topic.log.append_entry(entry) > position
        finally:
            await service.close()

    asyncio.run(body())


def test_a_promotion_that_was_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    async def body() -> None:
        data = tmp_path / "data"
        await make_directory(data)
        store, target = await make_cluster()
        target.left = 3
        with pytest.raises(StorageFailed):
            await promote(data, store, target)
        assert not await store.children("/managed-ledgers")
        target.left = None
        first = await promote(data, store, target)
        again = await promote(data, store, target)
        assert first == again
        async with open_source(data) as source:
            for each in await target.ledgers():
                found = await target.describe(each)
                assert found.properties[ORIGIN] == source.identity

    asyncio.run(body())


def test_a_cluster_that_has_the_ids_or_brokers_is_refused(tmp_path: Path) -> None:
    async def body() -> None:
        data = tmp_path / "data"
        await make_directory(data)
        store, target = await make_cluster()
        await target.create(term=Term(0), properties={})
        with pytest.raises(PromotionRefused, match="ledger 1 of the directory has an id"):
            await promote(data, store, target)
        store, target = await make_cluster()
        await store.put("/loadbalance/brokers/a:1", b"{}", expect=ABSENT)
        with pytest.raises(PromotionRefused, match="brokers are running in the cluster: a:1"):
            await promote(data, store, target)
        store, target = await make_cluster()
        await store.put("/managed-ledgers/acme/shop/persistent/orders", b"x", expect=ABSENT)
        with pytest.raises(PromotionRefused, match="orders is in the cluster already"):
            await promote(data, store, target)
        assert not await target.ledgers()

    asyncio.run(body())


def test_a_cluster_without_a_name_gets_one(tmp_path: Path) -> None:
    async def body() -> None:
        data = tmp_path / "data"
        await make_directory(data)
        store, target = MemoryStore(MemoryTree(CLOCK)), Target()
        with pytest.raises(PromotionRefused, match="name the cluster with --cluster"):
            await promote(data, store, target)
        await promote(data, store, target, "production")
        assert await store.children("/admin/clusters") == ("production",)
        with pytest.raises(PromotionRefused, match="there is no cluster other"):
            await promote(data, store, target, "other")

    asyncio.run(body())


def test_a_copy_that_differs_is_not_named(tmp_path: Path) -> None:
    async def body() -> None:
        data = tmp_path / "data"
        await make_directory(data)
        store, target = await make_cluster()
        async with open_source(data) as source:
            plan = await plan_source(source, cluster="c1")
            carried = plan.ledgers[0]
            properties = carried.use.format() | {ORIGIN: source.identity}
        writer = await target.create_at(carried.info.id, properties=properties)
        writer.append([b"not what it was"], lambda error: None)
        await writer.seal()
        with pytest.raises(PromotionRefused, match="with checksum"):
            await promote(data, store, target)
        assert not await store.children("/managed-ledgers")

    asyncio.run(body())


def test_a_record_that_zookeeper_does_not_take_is_refused_by_its_path() -> None:
    path = "/topics/public/default/wide"
    layout = Layout.initial(10_000, now_ms=1_700_000_000_000)
    value = encode_topic_record(ScalableTopicMetadata(layout))
    record = Record(value, Stat(0, 0, 0, ephemeral=False, created_by_self=False))
    with pytest.raises(PromotionRefused, match=rf"{path} .* ZooKeeper takes {RECORD_BYTES_MAX}"):
        plan_promotion({path: record}, {}, {}, cluster="c1")


def test_a_directory_in_use_or_of_nobody_is_refused(tmp_path: Path) -> None:
    async def body() -> None:
        with pytest.raises(DataDirectoryRefused, match="no data directory"):
            async with open_source(tmp_path):
                pass
        with holding(tmp_path / "data", CLOCK), pytest.raises(DataDirectoryRefused, match="in use"):
            async with open_source(tmp_path / "data"):
                pass

    asyncio.run(body())

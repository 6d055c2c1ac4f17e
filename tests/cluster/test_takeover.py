"""A cluster of Apache Pulsar served by our broker, and given back: nothing is lost either way."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from magnetar import AsyncAdmin, AsyncPulsarClient, BatchingPolicy, Checkpoint, Schema
from magnetar.app.give_back import run as check_given_back
from magnetar.broker.broker_directory import BROKERS
from magnetar.metadata.backends.zookeeper import ZookeeperStore
from magnetar.testing.apache import ApacheBroker
from magnetar.testing.bookkeeper import Bookie, BookieCluster
from magnetar.testing.member import ClusterBroker
from magnetar.testing.process import ServerFailed
from tests.cluster.apache import apache_bookies

NAMESPACE = "acme/shop"
ORDERS = "persistent://acme/shop/orders"
BATCHED = "persistent://acme/shop/batched"
TYPED = "persistent://acme/shop/typed"
PARTS = "persistent://acme/shop/parts"
KEYED = "persistent://acme/shop/keyed"
ENDED = "persistent://acme/shop/ended"
EMPTY = "persistent://acme/shop/a b~ü"
FLOW = "topic://acme/shop/flow"
UNDONE = "topic://acme/shop/undone"
EVENTS = "persistent://acme/shop/__change_events"
PAID = "persistent://acme/shop/paid"
CRASHED = "persistent://other/shop/orders"
PATIENCE_S = 30
SILENCE_S = 0.3
RETENTION = {"retentionTimeInMinutes": 60, "retentionSizeInMB": 100}
# Many small ledgers, and records that are compressed.
APACHE = {
    "managedLedgerMaxEntriesPerLedger": 20,
    "managedLedgerMinLedgerRolloverTimeMinutes": 0,
    "managedLedgerInfoCompressionThresholdInBytes": 64,
    "managedCursorInfoCompressionThresholdInBytes": 64,
}
TRANSACTIONS = {"transactionCoordinatorEnabled": True}


@pytest.fixture(scope="module")
def apache_cluster() -> Iterator[BookieCluster]:
    with apache_bookies() as cluster:
        yield cluster


@dataclass
class History:
    """What was written, and what each subscription is owed."""

    written: dict[str, list[str]] = field(default_factory=dict)
    ids: list[tuple[int, int]] = field(default_factory=list)
    """Of the messages of the first topic."""
    owed: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    latest: dict[str, str] = field(default_factory=dict)
    """By key, of the topic that is compacted."""
    flow: set[str] = field(default_factory=set)
    """What the subscription of the scalable topic has not acknowledged."""


async def send(client: Any, topic: str, texts: list[str], history: History, **options: Any) -> None:
    async with client.producer(topic, schema=Schema.STRING, **options) as producer:
        sent = [await producer.submit(text, key=f"k{n % 3}") for n, text in enumerate(texts)]
        await producer.flush()
        ids = [await each for each in sent]
    history.written.setdefault(topic, []).extend(texts)
    for (named, _), owed in history.owed.items():
        if named == topic:
            owed.update(texts)
    if topic == KEYED:
        history.latest |= {f"k{n % 3}": text for n, text in enumerate(texts)}
    if topic == ORDERS:
        history.ids += [(each.ledger_id, each.entry_id) for each in ids]


async def acknowledge(
    client: Any, topic: str, name: str, chosen: set[str], history: History, *, kind: str = "shared"
) -> None:
    """Take everything that is owed, see that it is that, and acknowledge what was chosen."""
    owed = history.owed[topic, name]
    async with client.consumer(
        topic, name, type=kind, initial_position="earliest", ack_receipts=True
    ) as consumer:
        got = {}
        while len(got) < len(owed):
            message = await consumer.receive(PATIENCE_S)
            assert message is not None, f"{name} is owed {sorted(owed - got.keys())}"
            got[message.data.decode()] = message
        assert got.keys() == owed
        assert await consumer.receive(SILENCE_S) is None
        if kind == "exclusive":
            await consumer.acknowledge_cumulative(next(got[text] for text in chosen))
        else:
            for text in sorted(chosen):
                await consumer.acknowledge(got[text])
    if kind == "exclusive":
        (last,) = chosen
        passed = list(got)
        owed.difference_update(passed[: passed.index(last) + 1])
    else:
        owed.difference_update(chosen)


async def subscribe(client: Any, topic: str, name: str, history: History) -> None:
    async with client.consumer(topic, name, type="shared", initial_position="earliest"):
        history.owed[topic, name] = set(history.written.get(topic, []))


async def send_flow(client: Any, texts: list[str], history: History) -> None:
    """The last ones in a transaction that is committed."""
    async with client.producer(FLOW) as producer:
        for text in texts[:-3]:
            await producer.send(text.encode(), key=text)
        async with client.transaction() as transaction:
            for text in texts[-3:]:
                await producer.send(text.encode(), key=text, transaction=transaction)
    history.flow.update(texts)


async def undo(client: Any) -> None:
    """A message that nobody may see, before one that all do."""
    async with client.producer(UNDONE) as producer:
        transaction = await client.transaction()
        await producer.send(b"undone", transaction=transaction)
        await transaction.abort()
        await producer.send(b"done")


async def check_undone(client: Any, admin: AsyncAdmin) -> None:
    """Not at Apache's brokers: they may show it while they load the segment."""
    async with client.checkpoint_consumer(UNDONE, start=Checkpoint.EARLIEST) as consumer:
        message = await consumer.receive(PATIENCE_S)
        assert message is not None and message.data == b"done"
        assert await consumer.receive(SILENCE_S) is None


async def pay(client: Any, history: History) -> None:
    """Transactions on a regular topic: one is committed, one aborted, and one is never ended. Each
    writes, and acknowledges one of the first messages.
    """
    await subscribe(client, PAID, "till", history)
    await send(client, PAID, [f"first-{n}" for n in range(4)], history, batching=False)
    async with (
        client.producer(PAID, batching=False) as producer,
        client.consumer(PAID, "till", type="shared", ack_receipts=True) as consumer,
    ):
        got = [await consumer.receive(PATIENCE_S) for _ in range(4)]
        by_text = {message.data.decode(): message for message in got}
        ends = ("commit", "abort", "")
        begun = [await client.transaction(scalable=False, timeout=5.0) for _ in ends]
        for number, transaction in enumerate(begun):
            for text in (f"paid-{number}-a", f"paid-{number}-b"):
                await producer.send(text.encode(), transaction=transaction)
            await consumer.acknowledge(by_text[f"first-{number}"], transaction=transaction)
        for end, transaction in zip(ends, begun, strict=True):
            if end:
                await getattr(transaction, end)()
        await producer.send(b"paid")
    seen = ["paid-0-a", "paid-0-b", "paid"]
    history.written[PAID] += seen
    history.owed[PAID, "till"].update(seen)
    history.owed[PAID, "till"].discard("first-0")


async def drain_flow(client: Any, keep: int, history: History) -> None:
    """Take all that is owed, and acknowledge all but some of it."""
    async with client.queue_consumer(FLOW, subscription="all") as consumer:
        got = {}
        while len(got) < len(history.flow):
            message = await consumer.receive(timeout=PATIENCE_S)
            assert message is not None, sorted(history.flow - got.keys())
            got[message.data.decode()] = message
        assert got.keys() == history.flow
        for text in sorted(got)[keep:]:
            await consumer.acknowledge(got[text])
            history.flow.discard(text)
        await asyncio.sleep(1)  # acknowledgements leave in groups


async def check(client: Any, admin: AsyncAdmin, history: History) -> None:
    """Every message of every topic, in order, and what is known of them."""
    for topic in history.written:
        if topic == PARTS:
            continue
        found, ids = [], []
        async with client.reader(topic, "earliest") as reader:
            while await reader.has_message_available():
                message = await reader.read(PATIENCE_S)
                found.append(message.data.decode())
                ids.append((message.id.ledger_id, message.id.entry_id))
        assert found == history.written[topic], topic
        if topic == ORDERS:
            assert ids == history.ids
    assert await client.count_partitions(PARTS) == 2
    versions = await admin.schemas.get_all(TYPED)
    assert len(versions) == 1
    assert await admin.topic_policies.get(ORDERS, "retention") == RETENTION
    assert (await admin.namespaces.policy(NAMESPACE, "retention")) == RETENTION
    stats = await admin.topics.internal_stats(ENDED)
    assert stats["state"] == "Terminated"
    view = {}
    async with client.reader(KEYED, "earliest", read_compacted=True) as reader:
        while await reader.has_message_available():
            message = await reader.read(PATIENCE_S)
            view[message.key] = message.data.decode()
    assert view == history.latest


async def fill(client: Any, admin: AsyncAdmin) -> History:
    """As Apache's brokers do."""
    history = History()
    await admin.tenants.create("acme", allowed_clusters=["c1"])
    await admin.namespaces.create(NAMESPACE)
    await admin.namespaces.set_policy(NAMESPACE, "retention", RETENTION)
    await admin.topics.create_partitioned(PARTS, 2)
    await admin.scalable_topics.create(FLOW, segments=2)
    for name in ("billing", "audit", "idle"):
        await subscribe(client, ORDERS, name, history)
    await subscribe(client, EMPTY, "sub one/2", history)
    await subscribe(client, BATCHED, "bidx", history)
    await subscribe(client, PARTS, "both", history)
    await send(client, ORDERS, [f"order-{n}" for n in range(45)], history, batching=False)
    await send(client, TYPED, ["typed"], history)
    await send(client, PARTS, [f"part-{n}" for n in range(10)], history)
    await send(client, KEYED, [f"value-{n}" for n in range(12)], history)
    await send(client, ENDED, ["last"], history)
    whole = BatchingPolicy(max_messages=10, max_delay=1.0)
    await send(client, BATCHED, [f"batch-{n}" for n in range(30)], history, batching=whole)
    chosen = {f"order-{n}" for n in (0, 1, 2, 3, 7, 9, 10, 11, 12, 25, 44)}
    await acknowledge(client, ORDERS, "billing", chosen, history)
    await acknowledge(client, ORDERS, "audit", {"order-22"}, history, kind="exclusive")
    chosen = {f"batch-{n}" for n in (*range(10), 10, 12, 14, 21)}
    await acknowledge(client, BATCHED, "bidx", chosen, history)
    await acknowledge(client, PARTS, "both", {"part-1", "part-4"}, history)
    await admin.topic_policies.set(ORDERS, "retention", RETENTION)
    for topic in (KEYED, EVENTS):
        await admin.topics.compact(topic)
        async with asyncio.timeout(PATIENCE_S):
            while (await admin.topics.compaction_status(topic))["status"] != "SUCCESS":
                await asyncio.sleep(0.2)
    await admin.topics.terminate(ENDED)
    await admin.scalable_topics.create_subscription(FLOW, "all", kind="QUEUE")
    await send_flow(client, [f"flow-{n}" for n in range(20)], history)
    await drain_flow(client, 7, history)
    await admin.scalable_topics.split(FLOW, 0)
    await send_flow(client, [f"after-split-{n}" for n in range(10)], history)
    await admin.scalable_topics.create(UNDONE, segments=1)
    await undo(client)
    await pay(client, history)
    return history


async def serve(client: Any, admin: AsyncAdmin, history: History, mark: str) -> None:
    """See that all is there, and write and acknowledge more."""
    await check(client, admin, history)
    for (topic, name), owed in sorted(history.owed.items()):
        await acknowledge(client, topic, name, set(sorted(owed)[::4]), history)
    for topic in (ORDERS, PARTS, KEYED, EMPTY, PAID):
        await send(client, topic, [f"{mark}-{n}" for n in range(25)], history, batching=False)
    for (topic, name), owed in sorted(history.owed.items()):
        await acknowledge(client, topic, name, set(sorted(owed)[1::5]), history)
    await admin.topics.compact(KEYED)
    async with asyncio.timeout(PATIENCE_S):
        while (await admin.topics.compaction_status(KEYED))["status"] != "SUCCESS":
            await asyncio.sleep(0.2)
    new = f"persistent://acme/shop/new-{mark}"
    await subscribe(client, new, "s", history)
    await send(client, new, [f"{mark}-new-{n}" for n in range(5)], history)
    await drain_flow(client, 3, history)
    layout = await admin.scalable_topics.metadata(FLOW)
    active = [each for each in layout["segments"].values() if each["state"] == "ACTIVE"]
    await admin.scalable_topics.split(FLOW, active[0]["segmentId"])
    await send_flow(client, [f"{mark}-flow-{n}" for n in range(10)], history)
    await check(client, admin, history)


async def with_clients(broker: Any, body: Any, *given: Any) -> Any:
    async with (
        AsyncPulsarClient(broker.service_url) as client,
        AsyncAdmin(broker.admin_url) as admin,
    ):
        return await body(client, admin, *given)


@pytest.mark.timeout(500)
def test_a_cluster_goes_from_apache_to_us_and_back(
    apache_cluster: BookieCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    apache = ApacheBroker(apache_cluster, set=APACHE | TRANSACTIONS)
    with apache:
        history = asyncio.run(with_clients(apache, fill))
        apache.stop()
    with ClusterBroker(apache_cluster.url, set=TRANSACTIONS) as ours:
        asyncio.run(with_clients(ours, serve, history, "ours"))
        asyncio.run(with_clients(ours, check_undone))
        assert check_given_back(metadata=apache_cluster.url) == 1
        assert "is running" in capsys.readouterr().out
        ours.stop()
    assert check_given_back(metadata=apache_cluster.url) == 0
    again = ApacheBroker(apache_cluster, name="apache-again", set=APACHE | TRANSACTIONS)
    with again:
        asyncio.run(with_clients(again, serve, history, "theirs"))
        again.stop()
    with ClusterBroker(apache_cluster.url, set=TRANSACTIONS) as ours:
        asyncio.run(with_clients(ours, serve, history, "ours again"))
        asyncio.run(with_clients(ours, check_undone))
        ours.stop()


async def serve_orders(client: Any, admin: AsyncAdmin, history: History, mark: str) -> None:
    """All messages and positions of one topic; then more, half of it acknowledged."""
    async with client.reader(CRASHED, "earliest") as reader:
        found = []
        while await reader.has_message_available():
            found.append((await reader.read(PATIENCE_S)).data.decode())
    assert found == history.written[CRASHED]
    await send(client, CRASHED, [f"{mark}-{n}" for n in range(25)], history, batching=False)
    await acknowledge(
        client, CRASHED, "billing", set(sorted(history.owed[CRASHED, "billing"])[::2]), history
    )


async def begin_orders(client: Any, admin: AsyncAdmin) -> History:
    history = History()
    await admin.tenants.create("other", allowed_clusters=["c1"])
    await admin.namespaces.create("other/shop")
    await admin.namespaces.set_policy("other/shop", "retention", RETENTION)
    await subscribe(client, CRASHED, "billing", history)
    history.written[CRASHED] = []
    await serve_orders(client, admin, history, "first")
    return history


async def await_unlisted(url: str) -> None:
    store = await ZookeeperStore.open(url, session_timeout_s=10)
    try:
        async with asyncio.timeout(60):
            while await store.children(BROKERS):
                await asyncio.sleep(0.2)
    finally:
        await store.close()


@pytest.mark.timeout(500)
def test_a_broker_that_was_killed_is_followed_by_one_of_the_other_kind(
    apache_cluster: BookieCluster,
) -> None:
    """Ledgers are open then, and the last states of cursors are in ledgers of their own."""
    url, short = apache_cluster.url, {"metadataStoreSessionTimeoutMillis": 3_000}
    # Every acknowledgement is stored before it is answered.
    settings = APACHE | short | {"managedLedgerDefaultMarkDeleteRateLimit": 0}
    asyncio.run(await_unlisted(url))
    with ApacheBroker(apache_cluster, set=settings) as apache:
        history = asyncio.run(with_clients(apache, begin_orders))
        with pytest.raises(ServerFailed, match="brokers of Apache Pulsar run on"):
            ClusterBroker(url, set=short).start()
        apache.kill()
    asyncio.run(await_unlisted(url))
    with ClusterBroker(url, set=short) as ours:
        asyncio.run(with_clients(ours, serve_orders, history, "ours"))
        ours.kill()
    asyncio.run(await_unlisted(url))
    assert check_given_back(metadata=url) == 0
    with ApacheBroker(apache_cluster, name="apache-again", set=settings) as again:
        asyncio.run(with_clients(again, serve_orders, history, "theirs"))


def test_a_zookeeper_that_lost_its_data_is_refused_and_bookies_keep_theirs(
    apache_cluster: BookieCluster,
) -> None:
    zookeeper, (bookie, *_) = apache_cluster.zookeeper, apache_cluster.bookies
    bookie.stop()
    kept = list_files(bookie)
    zookeeper.kill()
    shutil.rmtree(zookeeper.home / "data")
    zookeeper.start()
    with pytest.raises(ServerFailed, match="ZooKeeper has lost its data: restore it from"):
        ClusterBroker(apache_cluster.url).start()
    with pytest.raises(ServerFailed, match="InvalidCookie"):
        bookie.start()
    assert list_files(bookie) == kept


def list_files(bookie: Bookie) -> dict[Path, int]:
    """Where entries are, with their sizes."""
    found = (*bookie.ledgers.rglob("*.log"), *bookie.ledgers.rglob("*.idx"))
    return {each: each.stat().st_size for each in found}

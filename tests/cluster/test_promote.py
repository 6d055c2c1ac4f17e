"""`magnetar promote` on real bookies; what it carried is read by brokers of Apache Pulsar."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from magnetar import AsyncPulsarClient, Schema
from magnetar.app.promote import run
from magnetar.app.promotion import ORIGIN, plan_source
from magnetar.app.promotion_source import open_source
from magnetar.app.standalone import serving
from magnetar.model.position import LedgerId
from magnetar.testing.apache import ApacheBroker
from tests.cluster.apache import apache_bookies
from tests.contract.bookkeeper_place import bookkeeper_store

ORDERS = "persistent://public/default/orders"
FLOW = "topic://public/default/flow"
PATIENCE_S = 30


async def make_directory(path: Path) -> list[tuple[int, int]]:
    """A topic half acknowledged, one that is scalable; return the ids of messages of the first."""
    async with serving(data=path, port=0, web_port=0) as server:
        url = f"pulsar://127.0.0.1:{server.port}"
        async with AsyncPulsarClient(url) as client:
            producer = await client.producer(ORDERS, schema=Schema.STRING)
            ids = [await producer.send(f"order-{number}") for number in range(50)]
            consumer = await client.consumer(
                ORDERS, "half", type="shared", initial_position="earliest", ack_receipts=True
            )
            got = [await consumer.receive(PATIENCE_S) for _ in range(50)]
            for message in (*got[:20], *got[30:40]):
                assert message is not None
                await consumer.acknowledge(message)
            async with (
                client.queue_consumer(FLOW, subscription="all"),
                client.producer(FLOW) as scalable,
            ):
                for number in range(20):
                    await scalable.send(b"%d" % number, key=f"k{number}")
    return [(each.ledger_id, each.entry_id) for each in ids]


async def read_apache(url: str, ids: list[tuple[int, int]]) -> None:
    async with AsyncPulsarClient(url) as client:
        async with client.reader(ORDERS, "earliest", schema=Schema.STRING) as reader:
            found = []
            while await reader.has_message_available():
                message = await reader.read(PATIENCE_S)
                found.append((message.id.ledger_id, message.id.entry_id, message.value))
        assert found == [(*each, f"order-{number}") for number, each in enumerate(ids)]
        left = []
        consumer = await client.consumer(ORDERS, "half", type="shared")
        for _ in range(20):
            message = await consumer.receive(PATIENCE_S)
            assert message is not None
            left.append(message.data.decode())
        assert sorted(left) == sorted(f"order-{n}" for n in (*range(20, 30), *range(40, 50)))
        producer = await client.producer(ORDERS, schema=Schema.STRING)
        after = await producer.send("after")
        assert (after.ledger_id, after.entry_id) > max(ids)
        async with client.queue_consumer(FLOW, subscription="all") as queue:
            values = {(await queue.receive(timeout=PATIENCE_S)).data for _ in range(20)}
        assert values == {b"%d" % number for number in range(20)}


@pytest.mark.timeout(500)
def test_apache_brokers_serve_what_was_promoted_in_several_attempts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An id that is taken is refused; a copy half done goes on; again is the same as once."""
    data = tmp_path / "data"
    ids = asyncio.run(make_directory(data))
    # No other ledger id may be taken there.
    with apache_bookies() as cluster:
        url = cluster.url

        async def begin() -> None:
            """As a promotion that was killed: a ledger has an entry and is not closed."""
            async with open_source(data) as source, bookkeeper_store(cluster) as ledgers:
                (carried, *_) = (await plan_source(source, cluster="c1")).ledgers
                properties = carried.use.format() | {ORIGIN: source.identity}
                writer = await ledgers.create_at(carried.info.id, properties=properties)
                durable: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                first = (await source.read(carried.info.id, 0))[:1]
                writer.append(first, lambda error: durable.set_result(None))
                await durable
                await ledgers.create_at(LedgerId(2), properties={"application": "pulsar"})

        async def give_back() -> None:
            async with bookkeeper_store(cluster) as ledgers:
                await ledgers.delete(LedgerId(2))

        asyncio.run(begin())
        assert run(data=data, metadata=url) == 1
        assert "ledger 2 of the directory has an id" in capsys.readouterr().err
        asyncio.run(give_back())
        assert run(data=data, metadata=url) == 0
        assert "every ledger was read back and is as it was" in capsys.readouterr().out
        assert run(data=data, metadata=url) == 0
        with ApacheBroker(cluster) as apache:
            assert run(data=data, metadata=url) == 1
            assert "brokers are running in the cluster" in capsys.readouterr().err
            asyncio.run(read_apache(apache.service_url, ids))

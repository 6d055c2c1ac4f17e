"""Connections that outlive a task: borrowed by the next one, not by two at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from magnetar import AdminPreconditionFailed, AlreadyClosedError, AsyncPulsarClient
from magnetar.client.admin import AdminClient
from magnetar.columns import AsyncBulk
from magnetar.model.segment import SegmentId
from magnetar.spark.option import Broker
from magnetar.spark.pool import POOL, LinkPool, ProducerPool
from magnetar.spark.sink_option import parse_sink
from magnetar.spark.sink_task import name_task, write_task
from magnetar.testing import MagnetarBroker
from tests.spark.engine import read_batch
from tests.spark.feed import fresh, numbers

NOWHERE = Broker("pulsar://127.0.0.1:1", "http://127.0.0.1:1")


def sockets_of(broker: MagnetarBroker) -> set[str]:
    """Of this process, to the broker's port, by their inodes."""
    port = f":{broker.port:04X}"
    table = [line.split() for line in Path("/proc/self/net/tcp").read_text().splitlines()[1:]]
    established = {row[9] for row in table if row[2].endswith(port) and row[3] == "01"}
    own = {str(each.readlink()) for each in Path("/proc/self/fd").iterdir() if each.is_symlink()}
    return {inode for inode in established if f"socket:[{inode}]" in own}


def test_tasks_go_on_with_the_connections_of_those_before(
    magnetar_broker: MagnetarBroker, connection: dict[str, str]
) -> None:
    POOL.close()
    before = sockets_of(magnetar_broker)
    topic = fresh()
    options = parse_sink(connection | {"topic": f"topic://{topic}"}, is_stream=False)
    seen: list[set[str]] = []
    for batch in range(3):
        rows = pa.RecordBatch.from_pydict({"key": ["a"], "value": [str(batch).encode()]})
        written = write_task(options, None, iter([rows]), name_task("w", 0, batch))
        assert (written.written, written.known) == (1, 0)
        assert numbers(read_batch(connection, topic=topic, directRead="never")) == [
            *range(batch + 1)
        ]
        seen.append(sockets_of(magnetar_broker) - before)
    assert seen[0] and seen[0] == seen[1] == seen[2]
    POOL.close()
    assert sockets_of(magnetar_broker) <= before


@pytest.fixture
def sink(connection: dict[str, str]) -> Iterator[Sink]:
    POOL.close()
    yield Sink(connection, f"topic://{fresh()}")
    POOL.close()


class Sink:
    """Tasks that write to one topic, in this worker or in another one."""

    def __init__(self, connection: dict[str, str], topic: str) -> None:
        self.topic = topic
        self.options = parse_sink(connection | {"topic": topic}, is_stream=False)

    def write(self, batch: int, topics: Sequence[str] = ()) -> tuple[int, int]:
        """How many rows were written, and how many were stored before."""
        rows = {"key": [f"k{n}" for n in range(40)], "value": [b"%d" % batch] * 40}
        if topics:
            rows["topic"] = [topics[n % len(topics)] for n in range(40)]
        done = write_task(
            self.options, None, iter([pa.RecordBatch.from_pydict(rows)]), name_task("w", 0, batch)
        )
        return done.written, done.known

    def write_elsewhere(self, batch: int) -> tuple[int, int]:
        """In a worker that has nothing yet."""
        link = POOL.borrow(self.options.broker)
        try:
            return self.write(batch)
        finally:
            POOL.give_back(link)

    @property
    def producers(self) -> ProducerPool:
        link = POOL.borrow(self.options.broker)
        POOL.give_back(link)
        return link.producers


def test_a_task_finds_the_name_free_wherever_the_one_before_it_ran(sink: Sink) -> None:
    for batch in range(6):
        write = sink.write_elsewhere if batch % 2 else sink.write
        assert write(batch) == (40, 0)


def test_a_retried_task_leaves_out_what_was_stored_before_a_split_it_had_not_heard_of(
    sink: Sink, admin: AdminClient
) -> None:
    sink.write(0)
    assert len(sink.producers) == 1
    assert sink.write_elsewhere(1) == (40, 0)
    admin.scalable_topics.split(sink.topic, 0)
    assert sink.write(1) == (0, 40), "with the producer that knew one segment only"
    assert sink.write(2) == (40, 0)
    assert sink.write_elsewhere(2) == (0, 40), "stored by the children"


def test_a_topic_that_was_made_anew_is_written_to(sink: Sink, admin: AdminClient) -> None:
    sink.write(0)
    admin.scalable_topics.delete(sink.topic, force=True)
    assert sink.write(0) == (40, 0)


def test_what_sealed_segments_had_is_forgotten_with_their_topic(
    sink: Sink, admin: AdminClient, magnetar_broker: MagnetarBroker
) -> None:
    asked: list[set[int]] = []

    async def load(segments: Collection[SegmentId]) -> dict[SegmentId, int]:
        asked.append({int(each) for each in segments})
        return dict.fromkeys(segments, 7)

    async def body() -> None:
        async with AsyncPulsarClient(magnetar_broker.service_url) as client:
            producer = await AsyncBulk(client).resumable_producer(sink.topic, name="p")
            for is_anew in (False, False, True):
                if is_anew:
                    admin.scalable_topics.delete(sink.topic, force=True)
                    while producer.is_current:
                        await asyncio.sleep(0.02)
                    admin.scalable_topics.create(sink.topic)
                    admin.scalable_topics.split(sink.topic, 0)
                    while not producer.is_current:
                        await asyncio.sleep(0.02)
                await producer.resume(load)
                await producer.leave()

    admin.scalable_topics.create(sink.topic)
    admin.scalable_topics.split(sink.topic, 0)
    asyncio.run(body())
    assert asked == [{0, 1, 2}, {1, 2}, {0, 1, 2}]


def has_deduplication(admin: AdminClient, topic: str) -> bool:
    try:
        admin.scalable_topics.last_sequence_ids(topic, producer="p")
    except AdminPreconditionFailed:
        return False
    return True


def test_a_task_that_goes_on_switches_deduplication_on_again(
    sink: Sink, admin: AdminClient
) -> None:
    sink.write(0)
    admin.topic_policies.set(sink.topic, "deduplication", False)
    while has_deduplication(admin, sink.topic):
        pass  # its segments hear of it
    assert sink.write(1) == (40, 0)
    assert admin.topic_policies.get(sink.topic, "deduplication", applied=True)


def test_producers_of_few_topics_are_kept(sink: Sink) -> None:
    sink.write(0, [f"topic://{fresh()}" for _ in range(36)])
    assert len(sink.producers) == 32


def test_a_producer_that_was_not_used_for_long_is_closed(magnetar_broker: MagnetarBroker) -> None:
    now = [100.0]

    async def body() -> None:
        pool = ProducerPool(lambda: now[0])
        async with AsyncPulsarClient(magnetar_broker.service_url) as client:
            producer = await AsyncBulk(client).resumable_producer(f"topic://{fresh()}", name="p")
            await pool.give_back("orders", producer)
            now[0] += 59
            assert await pool.borrow("orders") is producer
            await pool.give_back("orders", producer)
            now[0] += 61
            assert await pool.borrow("orders") is None
            with pytest.raises(AlreadyClosedError):
                await producer.send(b"late", sequence_id=0)

    asyncio.run(body())


def test_what_a_failed_task_had_is_not_given_to_another() -> None:
    kept = len(POOL)
    broken = parse_sink(
        {
            "serviceUrl": NOWHERE.service_url,
            "adminUrl": NOWHERE.admin_url,
            "topic": "topic://public/default/none",
            "operationTimeout": "1s",
        },
        is_stream=False,
    )
    rows = pa.RecordBatch.from_pydict({"key": ["a"], "value": [b"v"]})
    with pytest.raises(Exception, match=r"127\.0\.0\.1"):
        write_task(broken, None, iter([rows]), name_task("w", 0, 0))
    assert len(POOL) == kept


def test_a_link_is_lent_to_one_task_at_a_time_and_few_are_kept() -> None:
    pool = LinkPool()
    links = [pool.borrow(NOWHERE) for _ in range(6)]
    assert len(set(map(id, links))) == 6
    for each in links:
        pool.give_back(each)
    assert len(pool) == 4
    assert pool.borrow(NOWHERE) is links[-1]
    assert pool.borrow(Broker("pulsar://127.0.0.1:2", NOWHERE.admin_url)) not in links
    pool.close()
    assert len(pool) == 0

"""`transactional=true`: a batch over several topics is visible as a whole, once, or not at all."""

from __future__ import annotations

import os
import pickle
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from magnetar.client.admin import AdminClient
from magnetar.model.transaction import TransactionId
from magnetar.spark.option import InvalidOption
from magnetar.spark.sink import TopicWriter
from magnetar.spark.sink_option import parse_sink
from magnetar.spark.sink_task import name_task
from magnetar.spark.sink_token import token_topic
from magnetar.spark.sink_transaction import TransactionsOff
from magnetar.spark.source import MagnetarSource
from magnetar.testing.plugin import StartBroker
from tests.spark.driver import ROWS, SCHEMA, Driver, TaskKilled, as_task, spread
from tests.spark.engine import read_batch
from tests.spark.feed import fresh, numbers


@pytest.fixture
def topics(admin: AdminClient) -> list[str]:
    """A scalable one with two segments, and a regular one with as many partitions."""
    scalable, regular = fresh(), fresh()
    admin.scalable_topics.create(scalable, segments=2)
    admin.topics.create_partitioned(f"persistent://{regular}", 2)
    return [f"topic://{scalable}", f"persistent://{regular}"]


def test_a_batch_over_two_topics_is_visible_once_and_as_a_whole(
    connection: dict[str, str], admin: AdminClient, topics: list[str]
) -> None:
    query = f"q-{topics[0][-10:]}"
    driver = Driver(connection, topics, query)

    def expect(count: int) -> None:
        found = [row for topic in topics for row in read_batch(connection, topic=topic)]
        assert numbers(found) == list(range(count))

    def has_stored() -> bool:
        return bool(admin.topics.partitioned_stats(topics[1])["msgInCounter"])

    plan = driver.plan()
    with pytest.raises(TaskKilled):
        driver.task(plan, 0, range(ROWS), dies_when=has_stored)
    done = driver.task(plan, 0, range(ROWS))
    assert done.known > 0 and done.written + done.known == ROWS
    expect(0)
    driver.commit(done, 0)
    expect(ROWS)

    # All attempts of a task fail: the batch is aborted, although no task tells its transaction.
    plan = driver.plan()
    with pytest.raises(TaskKilled):
        driver.task(plan, 1, range(ROWS, 2 * ROWS), dies_when=lambda: True)
    driver.abort(1)
    assert status_of(admin, pickle.loads(plan)._transaction) == "ABORTED"
    driver.commit(driver.task(driver.plan(), 1, range(ROWS, 2 * ROWS)), 1)
    expect(2 * ROWS)

    # The driver died after its commit, and the next one repeats the batch.
    again = driver.task(driver.plan(), 1, range(ROWS, 2 * ROWS))
    assert again.written == ROWS
    driver.commit(again, 1)
    expect(2 * ROWS)

    # Two drivers of one query, on two machines, commit the same batch at once.
    more = range(2 * ROWS, 2 * ROWS + 100)
    rivals = [driver, Driver(connection, topics, query, place="/other")]
    written = [each.task(each.plan(), 2, more) for each in rivals]
    threads = [
        threading.Thread(target=each.commit, args=(done, 2))
        for each, done in zip(rivals, written, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(status_of(admin, each.transaction) for each in written) == [
        "ABORTED",
        "COMMITTED",
    ]
    expect(2 * ROWS + 100)


def status_of(admin: AdminClient, transaction: TransactionId | None) -> str:
    """How it was decided; its topics may learn that a moment later."""
    assert transaction is not None
    status = str(admin.transactions.metadata(transaction.most, transaction.least)["status"])
    return {"ABORTING": "ABORTED", "COMMITTING": "COMMITTED"}.get(status, status)


def test_a_next_driver_on_the_machine_ends_what_a_killed_one_left(
    connection: dict[str, str], admin: AdminClient, topics: list[str]
) -> None:
    driver = Driver(connection, topics, f"q-{topics[0][-10:]}")
    killed = driver.task(driver.plan(), 0, range(10))
    assert status_of(admin, killed.transaction) == "OPEN"
    driver.plan()
    assert status_of(admin, killed.transaction) == "ABORTED"
    driver.abort(0)


def test_a_batch_write_is_one_transaction_and_repeated_by_its_name_without_a_trace(
    connection: dict[str, str], admin: AdminClient, topics: list[str]
) -> None:
    options = connection | {"transactional": "true", "writeId": f"w/{topics[0][-10:]}"}

    def write(*, fails: bool) -> TopicWriter:
        planned: TopicWriter = pickle.loads(
            pickle.dumps(MagnetarSource(options).writer(SCHEMA, False))
        )
        with as_task(0):
            done = planned.write(spread(topics, range(100)))
        if fails:
            planned.abort([None])
        else:
            planned.commit([done])
        return planned

    for fails, status, count in ((True, "ABORTED", 0), (False, "COMMITTED", 100)):
        assert status_of(admin, write(fails=fails)._transaction) == status
        found = [row for topic in topics for row in read_batch(connection, topic=topic)]
        assert len(found) == count
    assert status_of(admin, write(fails=False)._transaction) == "ABORTED"
    found = [row for topic in topics for row in read_batch(connection, topic=topic)]
    assert numbers(found) == list(range(100))
    token = token_topic(parse_sink(options, is_stream=False), options["writeId"])
    [row] = read_batch(connection, topic=token)[-1:]
    assert row["value"].startswith(b'{"batch": 0')


def test_numbers_of_rows_rise_from_one_transaction_of_a_coordinator_to_the_next() -> None:
    names = [name_task("q", 3, 0, TransactionId(5, least)) for least in (0, 1, 2**27 - 1, 2**27)]
    assert [each.producer for each in names] == ["spark-q-3-5.0"] * 3 + ["spark-q-3-5.1"]
    firsts = [each.first for each in names]
    assert firsts[:3] == sorted(set(firsts[:3])) and firsts[3] == 0
    assert firsts[2] + 2**36 == 2**63


def test_options_that_contradict_a_transaction_are_named(connection: dict[str, str]) -> None:
    for more, told in (
        ({"transactional": "true", "exactlyOnce": "false"}, "contradicts exactlyOnce=false"),
        ({"transactionTimeout": "5m"}, "no meaning without transactional=true"),
        ({"transactionNamespace": "a/b"}, "no meaning without transactional=true"),
        ({"transactional": "true", "transactionTimeout": "10ms"}, "1s at least"),
        ({"transactional": "true", "transactionNamespace": "a/b/c/d"}, "a/b/c/d"),
    ):
        with pytest.raises(InvalidOption, match=told):
            parse_sink(connection | {"topic": "t"} | more, is_stream=True)


def test_a_broker_without_transactions_is_refused_before_anything_is_written(
    magnetar_broker_factory: StartBroker,
) -> None:
    broker = magnetar_broker_factory(transactionCoordinatorEnabled=False)
    connection = {"serviceUrl": broker.service_url, "adminUrl": broker.admin_url}
    with pytest.raises(TransactionsOff, match="Brokers need transactionCoordinatorEnabled=true"):
        Driver(connection, [], "q").plan()


# ---------------------------------------------------------------------- in a real Spark


def kill_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The process of the first attempt dies after it has handed rows on."""
    context = TaskContext.get()
    assert context is not None
    for number, each in enumerate(batches):
        yield each
        if number == 1 and context.attemptNumber() == 0:
            os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.xdist_group("spark")
@pytest.mark.timeout(240)
def test_spark_writes_two_topics_at_once_over_killed_workers_and_failed_batches(
    spark: SparkSession, connection: dict[str, str], topics: list[str], tmp_path: Path
) -> None:
    lines, checkpoint = tmp_path / "lines", tmp_path / "checkpoint"
    lines.mkdir()
    (lines / "first").write_text("\n".join(map(str, range(24))))

    def run(*, fails: bool = False, kills: bool = False) -> None:
        """A thousand rows of each line, half of them to each topic."""
        value = "CAST(line * 1000 + number AS STRING)"
        if fails:
            value = f"IF(line = 22, raise_error('planted'), {value})"
        frame = (
            spark.readStream.text(str(lines))
            .selectExpr("CAST(value AS INT) AS line", "explode(sequence(0, 999)) AS number")
            .selectExpr(
                f"IF(number % 2 = 0, '{topics[0]}', '{topics[1]}') AS topic",
                f"{value} AS value",
            )
        )
        if kills:
            frame = frame.mapInArrow(kill_once, "topic string, value string")
        query = (
            frame.writeStream.format("magnetar")
            .options(**connection, transactional="true", checkpointLocation=str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(180)

    def expect(count: int) -> None:
        found = [row for topic in topics for row in read_batch(connection, topic=topic)]
        assert numbers(found) == list(range(count))

    with pytest.raises(StreamingQueryException, match="planted"):
        run(fails=True)
    expect(0)
    run(kills=True)
    expect(24_000)
    for each in (checkpoint / "commits").iterdir():  # the driver died before it logged the commit
        each.unlink()
    (lines / "second").write_text("\n".join(map(str, range(24, 30))))
    run()
    expect(30_000)

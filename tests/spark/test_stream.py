"""Streaming queries on a live broker, with faults at every step: each row exactly once, keys in
order.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any, Final

import pytest

from magnetar import PulsarClient, Transaction
from magnetar.client.admin import AdminClient
from magnetar.client.policy import BatchingPolicy
from magnetar.spark.hold import release_hold
from magnetar.spark.lag import lag_of
from magnetar.spark.offset import parse_offset
from magnetar.spark.plan import DataLost
from magnetar.spark.survey import TopicMissing
from magnetar.testing import MagnetarBroker
from magnetar.testing.plugin import StartBroker
from tests.spark.engine import Engine, Killed, read_batch
from tests.spark.feed import by_key, fresh, numbers, publish, publish_regular


def key_of(value: int) -> str:
    return f"k{value % 7}"


def check_order(rows: list[Any], count: int) -> None:
    """Every value once, and those of a key in the order they were published."""
    assert numbers(rows) == list(range(count))
    for key, values in by_key(rows).items():
        assert values == sorted(values), key


def once(step: str, act: Callable[[], None]) -> Callable[[str, int], None]:
    """Act before the first such step, and never again."""
    left = [act]

    def between(name: str, number: int) -> None:
        if name == step and left:
            left.pop()()

    return between


def kill() -> None:
    raise Killed


@pytest.fixture
def topic(admin: AdminClient) -> str:
    name = fresh()
    admin.scalable_topics.create(name)
    return name


@pytest.fixture(params=["256KB", "0"], ids=["with the plan", "by tasks"])
def query(connection: dict[str, str], topic: str, request: pytest.FixtureRequest) -> Engine:
    return Engine(
        connection, topic=topic, startingOffsets="earliest", inlineBytes=str(request.param)
    )


@pytest.fixture
def send(connection: dict[str, str], topic: str) -> Callable[[int, int], None]:
    return lambda start, end: publish(connection["serviceUrl"], topic, range(start, end), key_of)


Send = Callable[[int, int], None]


def await_gone(admin: AdminClient, topic: str, segment: int) -> None:
    deadline = time.monotonic() + 60
    while str(segment) in admin.scalable_topics.segments(topic):
        admin.scalable_topics.prune(topic)
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_keys_stay_in_order_over_split_merge_restart_and_prune(
    query: Engine, send: Send, topic: str, admin: AdminClient
) -> None:
    send(0, 100)
    check_order(query.run(), 100)
    admin.scalable_topics.split(topic, 0)
    send(100, 200)
    check_order(query.run(), 200)
    send(200, 300)
    admin.scalable_topics.merge(topic, 1, 2)
    send(300, 400)
    check_order(query.run(), 400)
    await_gone(admin, topic, 0)
    send(400, 410)
    check_order(query.run(), 410)
    await_gone(admin, topic, 2)
    send(410, 420)
    check_order(query.run(), 420)
    query.run()
    assert list(admin.scalable_topics.segments(topic)) == ["3"]


def test_a_child_is_never_in_the_batch_of_its_parent(
    query: Engine, send: Send, topic: str, admin: AdminClient
) -> None:
    send(0, 50)
    admin.scalable_topics.split(topic, 0)
    send(50, 100)
    check_order(query.run(), 100)
    found = [{row["segment"] for row in query.batches[each]} for each in sorted(query.batches)]
    assert [each for each in found if each] == [{0}, {1, 2}]


@pytest.mark.parametrize("step", ["log offsets", "task", "record batch", "log commit", "commit"])
def test_a_driver_killed_at_any_step_repeats_and_loses_nothing(
    query: Engine, send: Send, topic: str, admin: AdminClient, step: str
) -> None:
    send(0, 60)
    query.run()
    send(60, 120)
    query.between = once(step, kill)
    with pytest.raises(Killed):
        query.run()
    send(120, 150)
    admin.scalable_topics.split(topic, 0)
    send(150, 180)
    check_order(query.run(), 180)


@pytest.mark.parametrize("step", ["log offsets", "task", "record batch"])
def test_a_split_and_a_merge_in_the_middle_of_a_batch_change_nothing(
    query: Engine, send: Send, topic: str, admin: AdminClient, step: str
) -> None:
    send(0, 60)

    def change() -> None:
        admin.scalable_topics.split(topic, 0)
        send(60, 120)
        admin.scalable_topics.merge(topic, 1, 2)
        send(120, 180)

    query.between = once(step, change)
    query.run()
    check_order(query.run(), 180)


@pytest.mark.parametrize("mode", ["auto", "never"])
def test_a_broker_restarted_in_mid_query_is_waited_for(
    magnetar_broker_factory: StartBroker, mode: str
) -> None:
    broker = magnetar_broker_factory()
    options = {"serviceUrl": broker.service_url, "adminUrl": broker.admin_url, "directRead": mode}
    name = fresh()
    with AdminClient(broker.admin_url) as admin:
        admin.scalable_topics.create(name, segments=2)
        publish(broker.service_url, name, range(400), key_of, batching=False)
        engine = Engine(options, topic=name, startingOffsets="earliest", batchRows="20")

        def restart() -> None:
            broker.crash()
            broker.start()

        engine.between = once("record batch", restart)
        check_order(engine.run(), 400)
        admin.scalable_topics.split(name, 0)
        publish(broker.service_url, name, range(400, 450), key_of)
        engine.between = once("task", restart)
        check_order(engine.run(), 450)


def test_transactions_are_read_when_they_are_committed_and_in_their_place(
    query: Engine, connection: dict[str, str], topic: str, admin: AdminClient
) -> None:
    """Rows behind one that is open wait for it, also in the children of a segment that was sealed
    meanwhile; an aborted one leaves no trace, and no gap at which the query stops.
    """
    with (
        PulsarClient(connection["serviceUrl"]) as client,
        client.producer(f"topic://{topic}", batching=False) as producer,
    ):

        def write(values: range, transaction: Transaction | None = None) -> None:
            for value in values:
                producer.send(b"%d" % value, key=key_of(value), transaction=transaction)

        write(range(10))
        kept, gone = client.transaction(), client.transaction()
        write(range(10, 20), kept)
        write(range(1000, 1010), gone)
        write(range(20, 30))
        check_order(query.run(), 10)
        admin.scalable_topics.split(topic, 0)
        write(range(30, 40), kept)
        write(range(1010, 1020), gone)
        write(range(40, 50))
        check_order(query.run(), 10)
        kept.commit()
        gone.abort()
        write(range(50, 60))
        check_order(query.run(), 60)
        last = client.transaction()
        write(range(1020, 1030), last)
        last.abort()
        check_order(query.run(), 60)
        write(range(60, 70))
        check_order(query.run(), 70)


def test_a_limit_makes_several_batches_of_one_backlog(
    connection: dict[str, str], topic: str, admin: AdminClient
) -> None:
    publish(connection["serviceUrl"], topic, range(200), key_of, batching=False)
    engine = Engine(connection, topic=topic, startingOffsets="earliest", maxMessagesPerTrigger="60")
    check_order(engine.run(), 200)
    sizes = [len(engine.batches[each]) for each in sorted(engine.batches)]
    assert sizes == [60, 60, 60, 20]


def test_a_limit_holds_whatever_the_batches_of_producers_are(
    connection: dict[str, str], topic: str, admin: AdminClient
) -> None:
    url, regular = connection["serviceUrl"], f"{topic}-regular"
    publish(url, topic, range(2000), batching=BatchingPolicy(max_messages=100, max_delay=0.5))
    publish(url, topic, range(2000, 2003), batching=False)
    publish_regular(url, regular, range(2003, 2050))
    engine = Engine(
        connection,
        topics=f"{topic},{regular}",
        startingOffsets="earliest",
        maxMessagesPerTrigger="250",
    )
    assert numbers(engine.run()) == list(range(2050))
    sizes = [len(engine.batches[each]) for each in sorted(engine.batches)]
    assert max(sizes) <= 250 and len(sizes) < 20


def test_what_is_assigned_is_read_and_nothing_else(
    connection: dict[str, str], admin: AdminClient
) -> None:
    name = fresh("assigned")
    admin.scalable_topics.create(name, segments=3)
    publish(connection["serviceUrl"], name, range(300), str, batching=False)
    whole = read_batch(connection, topic=name)
    engine = Engine(connection, assign=json.dumps({name: [0, 2]}), startingOffsets="earliest")
    expected = [row for row in whole if row["segment"] != 1]
    assert numbers(engine.run()) == numbers(expected)
    admin.scalable_topics.split(name, 1)
    publish(connection["serviceUrl"], name, range(300, 400), str, batching=False)
    assert {row["segment"] for row in engine.run()} == {0, 2}
    assert {row["segment"] for row in read_batch(connection, assign=json.dumps({name: [1]}))} == {1}


def test_a_limit_of_bytes_makes_several_batches(connection: dict[str, str], topic: str) -> None:
    publish(connection["serviceUrl"], topic, [b"x" * 1000] * 50, batching=False)
    engine = Engine(connection, topic=topic, startingOffsets="earliest", maxBytesPerTrigger="20KB")
    assert len(engine.run()) == 50
    assert max(map(len, engine.batches.values())) <= 20


def test_too_little_waits_until_there_is_enough(connection: dict[str, str], topic: str) -> None:
    engine = Engine(connection, topic=topic, startingOffsets="earliest", minMessagesPerTrigger="30")
    reader = engine.make_reader()
    start = reader.initialOffset()
    limit = reader.getDefaultReadLimit()
    publish(connection["serviceUrl"], topic, range(20), key_of, batching=False)
    assert reader.latestOffset(start, limit) == start
    publish(connection["serviceUrl"], topic, range(20, 40), key_of, batching=False)
    assert reader.latestOffset(start, limit) != start
    reader.stop()


def test_a_regular_topic_is_followed_over_its_migration(
    connection: dict[str, str], admin: AdminClient
) -> None:
    name = fresh()
    admin.topics.create_partitioned(f"persistent://{name}", 2)
    engine = Engine(connection, topic=f"persistent://{name}", startingOffsets="earliest")
    publish_regular(connection["serviceUrl"], name, range(60))
    assert numbers(engine.run()) == list(range(60))
    publish_regular(connection["serviceUrl"], name, range(60, 90))
    admin.scalable_topics.migrate_to_scalable(name)
    publish(connection["serviceUrl"], name, range(90, 150), key_of)
    assert numbers(engine.run()) == list(range(150))
    assert {row["segment"] for row in engine.rows()} >= {2, 3}
    publish(connection["serviceUrl"], name, range(150, 160), key_of)
    assert numbers(engine.run()) == list(range(160))


def test_a_checkpoint_of_another_topic_is_refused(
    query: Engine, send: Send, topic: str, admin: AdminClient
) -> None:
    other = fresh()
    admin.scalable_topics.create(other)
    send(0, 5)
    query.run()
    with pytest.raises(Exception, match=f"written for {topic} and the query reads {other}"):
        query.run(topic=other)


def test_a_deleted_topic_fails_or_is_left_out_as_asked(
    connection: dict[str, str], admin: AdminClient
) -> None:
    kept, gone = fresh("kept"), fresh("gone")
    for name in (kept, gone):
        admin.scalable_topics.create(name)
        publish(connection["serviceUrl"], name, range(10), key_of)
    engine = Engine(connection, topics=f"{kept},{gone}", startingOffsets="earliest")
    assert len(engine.run()) == 20
    admin.scalable_topics.delete(gone, force=True)
    publish(connection["serviceUrl"], kept, range(10, 15), key_of)
    with pytest.raises(Exception, match=f"There is no topic {gone}"):
        engine.run()
    assert len(engine.run(failOnDataLoss="false")) == 25


def test_a_topic_deleted_in_the_middle_of_a_batch_fails_or_is_skipped(
    query: Engine, send: Send, topic: str, admin: AdminClient
) -> None:
    send(0, 20)
    query.run()
    send(20, 40)
    query.between = once("task", lambda: admin.scalable_topics.delete(topic, force=True))
    with pytest.raises(Exception, match=r"was deleted|There is no topic"):
        query.run()
    assert numbers(query.run(failOnDataLoss="false")) == list(range(20))


def test_retention_that_overtakes_a_query_is_told_or_skipped_exactly(
    query: Engine, send: Send, topic: str, admin: AdminClient
) -> None:
    """Without a hold a sealed segment goes as soon as nobody is behind."""
    send(0, 20)
    assert len(query.run(hold="false")) == 20
    send(20, 40)
    admin.scalable_topics.split(topic, 0)
    send(40, 60)
    await_gone(admin, topic, 0)
    with pytest.raises(Exception, match=rf"segment 0 of {topic}, after \d+:\d+ and before its end"):
        query.run(hold="false")
    rows = query.run(hold="false", failOnDataLoss="false")
    assert numbers(rows) == [*range(20), *range(40, 60)]


def test_segments_that_were_read_may_go_while_the_query_is_stopped(
    query: Engine, send: Send, topic: str, admin: AdminClient
) -> None:
    """The hold shows that they were drained: the query had not seen them sealed, nor those that
    came and went without a message.
    """
    send(0, 20)
    assert len(query.run()) == 20
    admin.scalable_topics.split(topic, 0)
    await_gone(admin, topic, 0)
    admin.scalable_topics.merge(topic, 1, 2)
    await_gone(admin, topic, 1)
    await_gone(admin, topic, 2)
    send(20, 40)
    check_order(query.run(), 40)
    [hold] = admin.scalable_topics.subscriptions(topic)
    admin.scalable_topics.split(topic, 3)
    admin.scalable_topics.delete_subscription(topic, hold, force=True)
    await_gone(admin, topic, 3)
    with pytest.raises(Exception, match=rf"segment 3 of {topic}, after \d+:\d+ and before its end"):
        query.run()


SMALL: Final = {
    "managedLedgerMaxEntriesPerLedger": 10,
    "managedLedgerMinLedgerRolloverTimeMinutes": 0,
}


@pytest.fixture
def small_ledgers(magnetar_broker_factory: StartBroker) -> MagnetarBroker:
    return magnetar_broker_factory(**SMALL)


def await_trimmed(admin: AdminClient, topic: str) -> int:
    """Until the last ledger alone is left; return how many entries it has."""
    deadline = time.monotonic() + 60
    while True:
        admin.topics.trim(f"persistent://{topic}")
        stats = admin.topics.internal_stats(f"persistent://{topic}")
        if len(stats["ledgers"]) == 1:
            return int(stats["currentLedgerEntries"])
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_trimmed_ledger_is_told_or_skipped_exactly(small_ledgers: MagnetarBroker) -> None:
    broker, name = small_ledgers, fresh()
    connection = {"serviceUrl": broker.service_url, "adminUrl": broker.admin_url}
    with AdminClient(broker.admin_url) as admin:
        admin.topics.create(f"persistent://{name}")
        engine = Engine(connection, topic=name, startingOffsets="earliest", hold="false")
        publish_regular(broker.service_url, name, range(15), batching=False)
        assert len(engine.run()) == 15
        publish_regular(broker.service_url, name, range(15, 55), batching=False)
        kept = await_trimmed(admin, name)
        with pytest.raises(Exception, match=r"segment 0 of .*, after \d+:-?\d+ and before \d+:0"):
            engine.run()
        rows = engine.run(failOnDataLoss="false")
        assert numbers(rows) == [*range(15), *range(55 - kept, 55)]


@pytest.mark.parametrize("start", ["earliest", '{"positions": {}}', '{"%s": {"at": 1}}'])
def test_what_is_trimmed_after_the_start_of_a_query_and_before_its_first_batch_is_told(
    small_ledgers: MagnetarBroker, start: str
) -> None:
    """A query knows where each segment began when it was started."""
    broker, name = small_ledgers, fresh()
    connection = {"serviceUrl": broker.service_url, "adminUrl": broker.admin_url}
    with AdminClient(broker.admin_url) as admin:
        admin.topics.create(f"persistent://{name}")
        publish_regular(broker.service_url, name, range(5), batching=False)
        reader = Engine(connection).make_reader(
            topic=name, startingOffsets=start.replace("%s", name), hold="false"
        )
        try:
            first = reader.initialOffset()
            publish_regular(broker.service_url, name, range(5, 35), batching=False)
            await_trimmed(admin, name)
            with pytest.raises(DataLost, match=r"segment 0 of .*, after \d+:-1 and before \d+:0"):
                reader.latestOffset(first, reader.getDefaultReadLimit())
        finally:
            reader.stop()


def test_a_ledger_trimmed_before_a_batch_is_repeated_is_told_or_skipped_exactly(
    small_ledgers: MagnetarBroker,
) -> None:
    """The driver that planned the batch died; the next one has only its offsets."""
    broker, name = small_ledgers, fresh()
    connection = {"serviceUrl": broker.service_url, "adminUrl": broker.admin_url}
    with AdminClient(broker.admin_url) as admin:
        admin.topics.create(f"persistent://{name}")
        engine = Engine(connection, topic=name, startingOffsets="earliest", hold="false")
        publish_regular(broker.service_url, name, range(15), batching=False)
        assert len(engine.run()) == 15
        publish_regular(broker.service_url, name, range(15, 55), batching=False)
        engine.between = once("task", kill)
        with pytest.raises(Killed):
            engine.run()
        kept = await_trimmed(admin, name)
        with pytest.raises(Exception, match=r"segment 0 of .*, after \d+:-?\d+ and before \d+:0"):
            engine.run()
        rows = engine.run(failOnDataLoss="false")
        assert numbers(rows) == [*range(15), *range(55 - kept, 55)]


def expire(admin: AdminClient, topic: str, hold: str) -> None:
    """As the time to live of messages does."""
    full, deadline = f"persistent://{topic}", time.monotonic() + 60
    while admin.topics.stats(full)["subscriptions"][hold]["msgBacklog"]:
        assert time.monotonic() < deadline
        admin.subscriptions.expire(full, hold, 1)
        time.sleep(0.05)


def clear(admin: AdminClient, topic: str, hold: str) -> None:
    admin.subscriptions.skip_all(f"persistent://{topic}", hold)


@pytest.mark.parametrize("pass_by", [expire, clear])
def test_what_a_hold_was_moved_past_unread_is_told_or_skipped_exactly(
    small_ledgers: MagnetarBroker, pass_by: Callable[[AdminClient, str, str], None]
) -> None:
    """A hold keeps nothing from expiry, a quota or an administrator, but tells what they took."""
    broker, name = small_ledgers, fresh()
    connection = {"serviceUrl": broker.service_url, "adminUrl": broker.admin_url}
    with AdminClient(broker.admin_url) as admin:
        admin.topics.create(f"persistent://{name}")
        engine = Engine(connection, topic=name, startingOffsets="earliest", holdName="keeper")
        publish_regular(broker.service_url, name, range(15), batching=False)
        assert len(engine.run()) == 15
        publish_regular(broker.service_url, name, range(15, 55), batching=False)
        pass_by(admin, name, "keeper")
        await_trimmed(admin, name)
        broker.crash()
        broker.start()
        kept = int(admin.topics.internal_stats(f"persistent://{name}")["numberOfEntries"])
        with pytest.raises(DataLost, match=r"segment 0 of .*, after \d+:-?\d+ and before \S+"):
            engine.run()
        rows = engine.run(failOnDataLoss="false")
        assert numbers(rows) == [*range(15), *range(55 - kept, 55)]
        publish_regular(broker.service_url, name, range(55, 75), batching=False)
        assert len(engine.run()) == len(rows) + 20
        await_trimmed(admin, name)
        assert len(engine.run()) == len(rows) + 20


def test_what_a_hold_was_moved_past_and_the_query_has_read_is_not_missed(
    small_ledgers: MagnetarBroker,
) -> None:
    """A query that is stopped after a batch has not moved its hold past that one."""
    broker, name = small_ledgers, fresh()
    connection = {"serviceUrl": broker.service_url, "adminUrl": broker.admin_url}
    with AdminClient(broker.admin_url) as admin:
        admin.topics.create(f"persistent://{name}")
        engine = Engine(connection, topic=name, startingOffsets="earliest", holdName="keeper")
        publish_regular(broker.service_url, name, range(15), batching=False)
        engine.run()
        publish_regular(broker.service_url, name, range(15, 34), batching=False)

        def stop(step: str, number: int) -> None:
            if step == "log commit":
                engine.commits.append(number)
                kill()

        engine.between = stop
        with pytest.raises(Killed):
            engine.run()
        clear(admin, name, "keeper")
        publish_regular(broker.service_url, name, range(34, 60), batching=False)
        admin.topics.trim(f"persistent://{name}")
        engine.between = lambda step, number: None
        assert numbers(engine.run()) == list(range(60))


def test_a_segment_that_a_hold_was_moved_past_unread_stays_until_that_is_told(
    magnetar_broker_factory: StartBroker,
) -> None:
    broker, name = magnetar_broker_factory(retentionCheckIntervalInSeconds=1, **SMALL), fresh()
    connection = {"serviceUrl": broker.service_url, "adminUrl": broker.admin_url}
    with AdminClient(broker.admin_url) as admin:
        admin.scalable_topics.create(name)
        engine = Engine(connection, topic=name, startingOffsets="earliest", holdName="keeper")
        publish(broker.service_url, name, range(15), key_of, batching=False)
        assert len(engine.run()) == 15
        for start in (15, 35):  # a ledger is full when entries have come, not among them
            values = range(start, start + 20)
            publish(broker.service_url, name, values, key_of, batching=False)
        admin.scalable_topics.split(name, 0)
        publish(broker.service_url, name, range(55, 60), key_of, batching=False)
        admin.scalable_topics.clear_backlog(name, "keeper")
        deadline = time.monotonic() + 60
        while len(left := admin.scalable_topics.segment_internal_stats(name, 0)["ledgers"]) > 1:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert admin.scalable_topics.prune(name) == []
        broker.crash()
        broker.start()
        with pytest.raises(DataLost, match=rf"segment 0 of {name}, after \d+:\S+ and before \d+:0"):
            engine.run()
        rows = numbers(engine.run(failOnDataLoss="false"))
        assert rows == [*range(15), *range(55 - left[0]["entries"], 60)]
        await_gone(admin, name, 0)


def test_a_hold_keeps_what_the_query_has_not_read_and_goes_when_told(
    query: Engine, send: Send, topic: str, admin: AdminClient, connection: dict[str, str]
) -> None:
    send(0, 20)
    query.run(holdName="keeper")
    send(20, 40)
    admin.scalable_topics.split(topic, 0)
    send(40, 60)
    assert admin.scalable_topics.prune(topic) == []
    assert "keeper" in admin.scalable_topics.subscriptions(topic)
    check_order(query.run(), 60)
    release_hold(connection["serviceUrl"], connection["adminUrl"], [topic], "keeper")
    assert "keeper" not in admin.scalable_topics.subscriptions(topic)


def test_a_hold_is_known_by_what_it_is_not_by_its_name(
    query: Engine, send: Send, topic: str, admin: AdminClient
) -> None:
    """Also on segments that came out of those on which the query has made it."""
    admin.scalable_topics.create_subscription(topic, "spark-of-somebody")
    send(0, 20)
    query.run(holdName="keeper")
    admin.scalable_topics.delete_subscription(topic, "spark-of-somebody", force=True)
    admin.scalable_topics.split(topic, 0)
    admin.scalable_topics.create_subscription(topic, "spark-of-somebody")
    await_gone(admin, topic, 0)
    send(20, 40)
    found = {
        name: each["entries"]
        for name, each in admin.reads.holds("public/default").items()
        if f"topic://{topic}" in each["topics"]
    }
    assert found.keys() == {"keeper"} and found["keeper"] > 0
    assert admin.reads.release_hold("public/default", "keeper") >= 1
    assert list(admin.scalable_topics.subscriptions(topic)) == ["spark-of-somebody"]


@pytest.mark.parametrize("step", ["log offsets", "task", "log commit", "commit"])
def test_a_query_has_one_hold_however_often_it_is_started(
    query: Engine, send: Send, topic: str, admin: AdminClient, step: str
) -> None:
    send(0, 20)
    query.between = once(step, kill)
    for count in (20, 40):
        try:
            query.run()
        except Killed:
            query.run()
        assert len(query.rows()) == count
        [name] = admin.scalable_topics.subscriptions(topic)
        assert json.loads(query.offsets[-1])["hold"] == name
        stats = admin.scalable_topics.stats(topic)
        assert stats["subscriptions"][name]["msgBacklog"] == 0
        send(count, count + 20)


def test_the_start_of_a_query_does_not_move_between_two_questions(
    connection: dict[str, str], topic: str, send: Send
) -> None:
    reader = Engine(connection, topic=topic, startingOffsets="latest").make_reader()
    start = reader.initialOffset()
    send(0, 10)
    assert reader.initialOffset() == start
    reader.stop()


def test_a_topic_made_anew_is_a_loss_and_then_read_from_its_start(
    query: Engine, send: Send, topic: str, admin: AdminClient
) -> None:
    send(0, 10)
    admin.scalable_topics.split(topic, 0)
    query.run()
    admin.scalable_topics.delete(topic, force=True)
    admin.scalable_topics.create(topic)
    send(100, 110)
    with pytest.raises(Exception, match="deleted before they were read"):
        query.run()
    assert numbers(query.run(failOnDataLoss="false")) == [*range(10), *range(100, 110)]


def test_new_topics_of_a_pattern_are_read_from_their_start(
    connection: dict[str, str], admin: AdminClient
) -> None:
    prefix = fresh("many")
    engine = Engine(connection, topicPattern=f"{prefix}.*", startingOffsets="latest")
    admin.scalable_topics.create(f"{prefix}-a")
    publish(connection["serviceUrl"], f"{prefix}-a", range(5), key_of)
    assert engine.run() == []
    publish(connection["serviceUrl"], f"{prefix}-a", range(5, 10), key_of)
    admin.scalable_topics.create(f"{prefix}-b")
    publish(connection["serviceUrl"], f"{prefix}-b", range(10, 15), key_of)
    assert numbers(engine.run()) == list(range(5, 15))


def test_a_found_topic_that_vanishes_unread_is_lost_data(
    connection: dict[str, str], admin: AdminClient
) -> None:
    prefix = fresh("gone")
    engine = Engine(connection, topicPattern=f"{prefix}.*", startingOffsets="earliest")
    url = connection["serviceUrl"]
    for name in ("a", "b"):
        admin.scalable_topics.create(f"{prefix}-{name}")
        publish(url, f"{prefix}-{name}", range(5), key_of)
    assert len(engine.run()) == 10
    publish(url, f"{prefix}-b", range(5, 10), key_of)
    admin.scalable_topics.delete(f"{prefix}-b", force=True)
    publish(url, f"{prefix}-a", range(10, 15), key_of)
    with pytest.raises(DataLost, match=f"no topic {prefix}-b any more"):
        engine.run()
    assert len(engine.run(failOnDataLoss="false")) == 15
    assert f"{prefix}-b" not in engine.offsets[-1]


@pytest.mark.parametrize("is_named", [False, True], ids=["found", "named"])
def test_a_topic_that_was_read_to_the_end_may_vanish(
    connection: dict[str, str], admin: AdminClient, is_named: bool
) -> None:
    """It leaves the offset at once, so that another driver does not miss it either."""
    prefix = fresh("read")
    for name in ("a", "b"):
        admin.scalable_topics.create(f"{prefix}-{name}")
        publish(connection["serviceUrl"], f"{prefix}-{name}", range(5), key_of)
    names = {"topics": f"{prefix}-a,{prefix}-b"} if is_named else {"topicPattern": f"{prefix}.*"}
    reader = Engine(connection, inlineBytes="0").make_reader(startingOffsets="earliest", **names)
    try:
        limit = reader.getDefaultReadLimit()
        read = reader.latestOffset(reader.initialOffset(), limit)
        admin.scalable_topics.delete(f"{prefix}-b", force=True)
        after = reader.latestOffset(read, limit)
        assert set(parse_offset(after).topics) == {f"{prefix}-a"}
        assert [task.slices for task in reader.partitions(read, after)] == [()]
        publish(connection["serviceUrl"], f"{prefix}-a", range(5, 10), key_of)
        assert reader.latestOffset(after, limit) != after
    finally:
        reader.stop()


def test_a_topic_that_vanished_is_remembered_as_read_while_there_is_too_little(
    connection: dict[str, str], admin: AdminClient
) -> None:
    prefix = fresh("few")
    for name in ("a", "b"):
        admin.scalable_topics.create(f"{prefix}-{name}")
    reader = Engine(connection, inlineBytes="0").make_reader(
        topicPattern=f"{prefix}.*", startingOffsets="earliest", minMessagesPerTrigger="10"
    )
    try:
        limit = reader.getDefaultReadLimit()
        publish(connection["serviceUrl"], f"{prefix}-b", range(10), key_of, batching=False)
        read = reader.latestOffset(reader.initialOffset(), limit)
        publish(connection["serviceUrl"], f"{prefix}-a", range(5), key_of, batching=False)
        admin.scalable_topics.delete(f"{prefix}-b", force=True)
        assert reader.latestOffset(read, limit) == read
        publish(connection["serviceUrl"], f"{prefix}-a", range(5, 10), key_of, batching=False)
        assert set(parse_offset(reader.latestOffset(read, limit)).topics) == {f"{prefix}-a"}
    finally:
        reader.stop()


def test_a_name_that_is_added_must_be_that_of_a_topic(
    query: Engine, send: Send, topic: str
) -> None:
    send(0, 5)
    query.run()
    missing = fresh()
    with pytest.raises(TopicMissing, match=f"There is no topic {missing}"):
        query.run(topic=f"{topic},{missing}")
    send(5, 10)
    rows = query.run(topic=f"{topic},{missing}", failOnDataLoss="false")
    assert numbers(rows) == list(range(10))


def test_all_topics_of_a_pattern_may_be_others_by_now(
    connection: dict[str, str], admin: AdminClient
) -> None:
    """As with one topic for each day, of which the last ones alone are kept."""
    prefix, url = fresh("day"), connection["serviceUrl"]
    engine = Engine(connection, topicPattern=f"{prefix}.*", startingOffsets="earliest")
    for number in (1, 2):
        name = f"{prefix}-{number}"
        admin.scalable_topics.create(name)
        publish(url, name, range(number * 5 - 5, number * 5), key_of)
        if number == 1:
            assert numbers(engine.run()) == list(range(5))
            admin.scalable_topics.delete(name, force=True)
    with pytest.raises(DataLost, match=f"no topic {prefix}-1 any more"):
        engine.run()
    assert numbers(engine.run(failOnDataLoss="false")) == list(range(10))
    assert set(parse_offset(json.loads(engine.offsets[-1])).topics) == {f"{prefix}-2"}


def test_a_slow_start_from_latest_sees_only_what_comes_after(
    query: Engine, send: Send, magnetar_broker: MagnetarBroker
) -> None:
    send(0, 10)
    assert query.run(startingOffsets="latest") == []
    send(10, 20)
    assert numbers(query.run()) == list(range(10, 20))


def test_progress_tells_what_is_left_to_read(connection: dict[str, str], topic: str) -> None:
    publish(connection["serviceUrl"], topic, range(100), batching=False)
    reader = Engine(connection).make_reader(
        topic=topic, startingOffsets="earliest", maxMessagesPerTrigger="30"
    )
    try:
        end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
        assert parse_offset(end).topics
        latest = json.loads(json.dumps(reader.reportLatestOffset()))
        assert latest[topic]["lag"]["entries"] == 70
        report = {"sources": [{"latestOffset": latest}, {"latestOffset": None}]}
        assert lag_of(report) == latest["lag"]
    finally:
        reader.stop()

"""What topics do beside reading and writing knows of transactions; journals, limits, metrics."""

from __future__ import annotations

from asyncio import gather

import pytest

from magnetar.broker.exposition import render_metrics
from magnetar.broker.transaction.participant import needs_journal
from magnetar.broker.transaction.recovery import describe
from magnetar.errors import StorageFailed
from magnetar.metadata.backends.memory import MemoryStore, MemoryTree
from magnetar.metadata.store import Stat
from magnetar.model.log_path import journal_path, participant_journal
from magnetar.model.position import EARLIEST, Position
from magnetar.model.transaction import Finished, TransactionId
from magnetar.testing.memory_ledger import MemoryLedgerStore
from magnetar.wire.command import (
    BaseCommand,
    CommandNewTxn,
    CommandSend,
    MessageMetadata,
    ServerError,
    encode_payload_command,
    make_command,
)
from magnetar.wire.entry import encode_entry
from tests.unit.broker.broker_place import run
from tests.unit.broker.traffic import EXCLUSIVE, FAILOVER, SHARED
from tests.unit.broker.transaction.transaction_place import (
    TOPIC,
    Place,
    TransactionClient,
    participant,
    run_enabled,
    settle,
    until,
)


async def attach(place: Place) -> TransactionClient:
    client = TransactionClient(place.service)
    await client.produce(TOPIC)
    await client.subscribe(TOPIC, "s", SHARED, consumer_id=1)
    return client


async def transact(client: TransactionClient, text: str, *, is_commit: bool) -> TransactionId:
    id_ = await client.begin()
    assert await client.add_topic(id_) is None
    await client.write(id_, text)
    assert await client.end(id_, commit=is_commit) is None
    return id_


async def reload(place: Place) -> None:
    await place.service.catalog.unload_topic((await place.topic(TOPIC)).name)


# ---------------------------------------------------------------------- journals


def test_begin_and_end_of_a_transaction_are_written_with_what_has_to_be_durable() -> None:
    async def body(place: Place) -> None:
        client = await attach(place)
        await transact(client, "first", is_commit=True)
        coordinator = place.service.transactions.coordinators[0]
        journal, state = coordinator.journal, coordinator.state
        await until(lambda: not state.transactions)
        written = journal.entries_appended
        id_ = await transact(client, "second", is_commit=True)
        assert journal.entries_appended == written + 2, "it joined, and was decided"
        await until(lambda: not state.transactions)
        # What is left is not lost when the coordinator is closed.
        await coordinator.close()
        again = await place.service.transactions.coordinator(0)
        assert again is not coordinator
        assert again.state.ended == state.ended and id_.least in again.state.ended
        assert not again.state.transactions

    run_enabled(body)


def test_a_load_reads_the_last_snapshot_and_what_follows() -> None:
    async def body(place: Place) -> None:
        client = await attach(place)
        for number in range(20):
            await transact(client, f"m{number}", is_commit=number % 10 != 0)
        part, topic = await participant(place), await place.topic(TOPIC)
        assert part.journal is not None
        await part.journal.snapshot(lambda: describe(topic))
        left = await client.begin()
        assert await client.add_topic(left) is None
        await client.write(left, "open")
        assert part.journal.log.sequence.total_entries <= 3, "the snapshot, and one that joined"
        live = await place.service.transactions.coordinator(0)
        await live.journal.snapshot(live.state.records)
        assert live.journal.log.sequence.total_entries == 1
        await live.close()
        await reload(place)
        client = await attach(place)
        await client.subscribe(TOPIC, "late", SHARED, consumer_id=2)
        await client.get(2, 18)
        assert "m10" not in client.texts(2) and "open" not in client.texts(2)
        await client.commit(left)
        await until(lambda: client.texts(2)[-1] == "open")
        assert await client.begin() > left
        assert await client.end(TransactionId(0, 10), commit=False) is None, "known as aborted"
        assert await client.end(TransactionId(0, 11), commit=False) == ServerError.InvalidTxnStatus

    run_enabled(body)


@pytest.mark.parametrize("acknowledges", [True, False])
def test_journals_that_have_grown_are_replaced_by_snapshots(acknowledges: bool) -> None:
    """Of the coordinator and of the topic, by the next transaction, whatever it does."""

    async def body(place: Place) -> None:
        client = await attach(place)
        await transact(client, "first", is_commit=True)
        part, live = await participant(place), await place.service.transactions.coordinator(0)
        journals = [live.journal, part.journal]
        for journal in journals:
            assert journal is not None
            for number in range(4):
                assert not journal.is_snapshot_due
                await journal.append(Finished(number, True, 0, "x" * (1 << 20)))
            assert journal.is_snapshot_due
        id_ = await client.begin()
        if acknowledges:
            assert await client.add_subscription(id_, "s") is None
        else:
            assert await client.add_topic(id_) is None
        await client.commit(id_)
        for journal in journals:
            assert journal is not None
            log = journal.log
            await until(lambda log=log: log.sequence.total_bytes < 1000)  # type: ignore[misc]
            assert not journal.is_snapshot_due

    run_enabled(body)


def test_a_coordinator_that_has_grown_is_loaded_from_its_snapshot() -> None:
    async def body(place: Place) -> None:
        client = await attach(place)
        ids = [await transact(client, f"m{n}", is_commit=n % 2 == 0) for n in range(4)]
        left = await client.begin()
        assert await client.add_topic(left) is None
        live = await place.service.transactions.coordinator(0)
        await until(lambda: list(live.state.transactions) == [left.least])
        await live.journal.append(Finished(0, True, 0, "x" * (5 << 20)))
        await client.abort(await client.begin())
        await until(lambda: live.journal.log.sequence.total_bytes < 5000)
        await live.close()
        again = await place.service.transactions.coordinator(0)
        assert list(again.state.transactions) == [left.least]
        assert [again.state.ended[each.least].is_commit for each in ids] == [True, False] * 2

    run_enabled(body)


def test_aborted_messages_are_forgotten_with_their_ledgers() -> None:
    async def body(place: Place) -> None:
        client = await attach(place)
        for number in range(3):
            await transact(client, f"gone {number}", is_commit=False)
        topic = await place.topic(TOPIC)
        assert len(topic.buffer.aborted) == 3
        await topic.log.roll()
        await client.publish("kept")
        await client.get(1, 1)
        await topic.log.trim()
        assert not topic.buffer.aborted and list(describe(topic)) == []
        assert needs_journal(topic.log.record.properties)
        await reload(place)
        assert not (await place.topic(TOPIC)).buffer.aborted

    run_enabled(body, defaultRetentionTimeInMinutes=0, defaultRetentionSizeInMB=0)


@pytest.mark.parametrize("outcome", [True, False, None])
def test_a_journal_that_leads_to_nothing_is_at_rest_when_its_topic_is_closed(
    outcome: bool | None,
) -> None:
    """Then the log alone tells what readers see, also to brokers that know no journals."""

    async def body(place: Place) -> None:
        client = await attach(place)
        if outcome is None:
            id_ = await client.begin()
            assert await client.add_topic(id_) is None
        else:
            await transact(client, "m", is_commit=outcome)
        await reload(place)
        topic = await place.topic(TOPIC)
        assert needs_journal(topic.log.record.properties) is not (outcome is True)
        again = await attach(place)
        await transact(again, "later", is_commit=False)
        assert needs_journal(topic.log.record.properties) and topic.buffer.aborted
        await reload(place)
        assert (await place.topic(TOPIC)).buffer.aborted

    run_enabled(body)


def test_what_was_aborted_stays_hidden_where_there_are_no_coordinators() -> None:
    trees: list[MemoryTree] = []
    ledgers = MemoryLedgerStore()

    def open_store(tree: MemoryTree) -> MemoryStore:
        trees.append(tree)
        return MemoryStore(trees[0])

    async def begin(place: Place) -> None:
        client = await attach(place)
        await transact(client, "gone", is_commit=False)
        await transact(client, "kept", is_commit=True)

    async def go_on(place: Place) -> None:
        client = TransactionClient(place.service)
        await client.subscribe(TOPIC, "late", SHARED, consumer_id=1)
        assert [each.payload for each in await client.get(1, 1)] == [b"kept"]

    run_enabled(begin, make_store=open_store, make_ledgers=lambda: ledgers)
    run(go_on, make_store=open_store, make_ledgers=lambda: ledgers)


def test_a_journal_at_rest_is_deleted_with_its_topic() -> None:
    async def body(place: Place) -> None:
        await transact(await attach(place), "m", is_commit=True)
        await reload(place)
        topic = await place.topic(TOPIC)
        path = journal_path(participant_journal(topic.name))
        assert await place.service.store.exists(path)
        await place.service.catalog.delete_topic(topic.name, force=True)
        assert not await place.service.store.exists(path)

    run_enabled(body)


def test_retention_keeps_what_is_not_committed_yet() -> None:
    """Also where there is no subscription: one that is made now gets it when it is committed."""

    async def body(place: Place) -> None:
        client = TransactionClient(place.service)
        await client.produce(TOPIC)
        await client.publish("old")
        topic = await place.topic(TOPIC)
        await topic.log.roll()
        id_ = await client.begin()
        assert await client.add_topic(id_) is None
        await client.write(id_, "open", sequence=1)
        await topic.log.roll()
        await client.publish("behind", sequence=2)
        await topic.log.roll()
        await topic.log.trim()
        await client.subscribe(TOPIC, "s", SHARED, consumer_id=1)
        await client.commit(id_)
        await client.get(1, 2)
        assert client.texts(1) == ["open", "behind"], "and nothing of what is older"
        client.ack(1, *(each.position for each in await client.get(1, 2)))
        await until(lambda: topic.log.is_trimmable)

    run_enabled(body, defaultRetentionTimeInMinutes=0, defaultRetentionSizeInMB=0)


@pytest.mark.parametrize("is_told", [True, False])
def test_a_deleted_subscription_takes_along_what_transactions_acknowledge_there(
    is_told: bool,
) -> None:
    """One of the same name that is made later gets everything, also after a load."""

    async def body(place: Place) -> None:
        client = await attach(place)
        await transact(client, "gone", is_commit=False)  # so that the journal is read again
        position = await client.publish("m", sequence=1)
        await client.get(1, 1)
        id_ = await client.begin()
        assert await client.add_subscription(id_, "s") is None
        assert await client.ack_in(id_, 1, position) is None
        topic = await place.topic(TOPIC)
        if is_told:
            await topic.subscriptions.delete("s", force=True)
        else:  # the broker dies before the journal is told
            await topic.log.cursors.delete("s")
            topic.subscriptions.pop("s")
            await reload(place)
        client = await attach(place)
        await client.get(1, 1)
        assert await client.ack_in(id_, 1, position) == ServerError.TransactionNotFound
        await reload(place)
        client = await attach(place)
        await client.get(1, 1)
        await client.commit(id_)
        assert not (await participant(place)).open_ids
        await reload(place)
        client = await attach(place)
        assert [each.position for each in await client.get(1, 1)] == [position]

    run_enabled(body)


# ---------------------------------------------------------------------- what topics do


def test_the_sequence_ids_of_an_aborted_transaction_are_used() -> None:
    async def body(place: Place) -> None:
        client = await attach(place)
        await transact(client, "gone", is_commit=False)
        await client.publish("again", sequence=0)
        await client.publish("next", sequence=1)
        await client.get(1, 1)
        id_ = await client.begin()
        assert await client.add_topic(id_) is None
        for _ in range(2):  # the client lost the receipt
            await client.write(id_, "once", sequence=2)
        await client.commit(id_)
        await until(lambda: "once" in client.texts(1))
        assert client.texts(1) == ["next", "once"]

    run_enabled(body, brokerDeduplicationEnabled=True)


@pytest.mark.parametrize("kind", [SHARED, FAILOVER])
def test_a_delayed_message_of_a_transaction_waits_for_both(kind: int) -> None:
    """As everywhere, only subscriptions that hand out messages one by one delay them."""

    async def body(place: Place) -> None:
        client = TransactionClient(place.service)
        await client.produce(TOPIC)
        await client.subscribe(TOPIC, "s", kind, consumer_id=1)
        id_ = await client.begin()
        assert await client.add_topic(id_) is None
        metadata = MessageMetadata(producer_name="p", sequence_id=0, publish_time=1)
        metadata.deliver_at_time = place.clock.now_ms() + 5_000
        send = CommandSend(producer_id=1, sequence_id=0, txnid_most_bits=0, txnid_least_bits=0)
        data = encode_payload_command(make_command(send), encode_entry(metadata, b"later"))
        client._connection.data_received(data)
        await until(lambda: client.count(BaseCommand.SEND_RECEIPT) == 1)
        assert (send.txnid_most_bits, send.txnid_least_bits) == id_
        place.clock.pass_s(4)
        await client.commit(id_)
        await settle()
        if kind == SHARED:
            assert client.texts(1) == []
            place.clock.pass_s(2)
            (await place.topic(TOPIC)).subscriptions["s"].tick(place.clock.monotonic())
        await until(lambda: client.texts(1) == ["later"])

    run_enabled(body)


def test_a_seek_goes_back_over_aborted_messages_and_not_past_an_open_one() -> None:
    async def body(place: Place) -> None:
        client = await attach(place)
        first = await client.publish("first")
        await transact(client, "gone", is_commit=False)
        await client.publish("second", sequence=1)
        id_ = await client.begin()
        assert await client.add_topic(id_) is None
        await client.write(id_, "open", sequence=2)
        await client.get(1, 2)
        for position in (EARLIEST, first, Position(first.ledger_id, first.entry_id + 1)):
            await client.seek(1, position)
            await client.subscribe(TOPIC, "s", SHARED, consumer_id=1)
            await settle()
            assert "gone" not in client.texts(1) and "open" not in client.texts(1)
        assert client.texts(1)[-1] == "second"
        await client.commit(id_)
        await until(lambda: client.texts(1)[-1] == "open")

    run_enabled(body)


class FullStore(MemoryStore):
    """Takes no changes below a path."""

    full: str | None = None

    async def put(self, path: str, value: bytes, *, expect: int, ephemeral: bool = False) -> Stat:
        if self.full is not None and path.startswith(self.full):
            raise StorageFailed("no space left")
        return await super().put(path, value, expect=expect, ephemeral=ephemeral)


def test_a_seek_that_cannot_be_stored_shows_no_aborted_messages() -> None:
    """The cursor has moved all the same."""

    async def body(place: Place) -> None:
        client = await attach(place)
        await client.publish("first")
        await transact(client, "gone", is_commit=False)
        await client.publish("second", sequence=1)
        await client.get(1, 2)
        store = place.service.store
        assert isinstance(store, FullStore)
        store.full = "/managed-ledgers"
        assert (await client.seek(1, EARLIEST)).type == BaseCommand.ERROR
        store.full = None
        await client.subscribe(TOPIC, "s", SHARED, consumer_id=1)
        await until(lambda: len(client.texts(1)) >= 4)
        await settle()
        assert client.texts(1)[2:] == ["first", "second"]

    run_enabled(body, make_store=FullStore)


@pytest.mark.parametrize("is_commit", [True, False])
def test_acknowledgements_of_every_kind_are_held_over_a_load(is_commit: bool) -> None:
    async def body(place: Place) -> None:
        client = await attach(place)
        await client.subscribe(TOPIC, "all", EXCLUSIVE, consumer_id=2)
        single = await client.publish("single")
        batch = await client.publish_batch(["a", "b", "c"], sequence=1)
        await client.get(1, 2)
        await client.get(2, 2)
        id_ = await client.begin()
        for name in ("s", "all"):
            assert await client.add_subscription(id_, name) is None
        assert await client.ack_in(id_, 1, single) is None
        assert await client.ack_in(id_, 1, batch, remaining=0b100, size=3) is None
        assert await client.ack_in(id_, 2, batch, cumulative=True) is None

        await reload(place)
        client = await attach(place)
        await client.subscribe(TOPIC, "all", EXCLUSIVE, consumer_id=2)
        (left,) = await client.get(1, 1)
        assert (left.position, left.remaining) == (batch, 0b100)
        await settle()
        assert not client.texts(2)
        other = await client.begin()
        assert await client.add_subscription(other, "s") is None
        assert await client.ack_in(other, 1, single) == ServerError.TransactionConflict
        assert await client.end(id_, commit=is_commit) is None
        await reload(place)
        client = await attach(place)
        await client.subscribe(TOPIC, "all", EXCLUSIVE, consumer_id=2)
        if is_commit:
            (left,) = await client.get(1, 1)
            assert (left.position, left.remaining) == (batch, 0b100)
            await settle()
            assert not client.texts(2) and len(client.texts(1)) == 1
        else:
            await client.get(1, 2)
            await client.get(2, 2)

    run_enabled(body)


def test_a_coordinator_whose_journal_failed_is_run_again_unasked() -> None:
    async def body(place: Place) -> None:
        client = await attach(place)
        id_ = await client.begin()
        assert await client.add_topic(id_) is None
        transactions = place.service.transactions
        failed = transactions.coordinators[0]
        failed.journal.log.record.fence()
        await until(lambda: failed.is_closed)
        await transactions.look_round()
        again = transactions.coordinators[0]
        assert again is not failed and not again.is_closed
        assert again.state.find(id_).topics
        await transactions.look_round()
        assert transactions.coordinators[0] is again

    run_enabled(body)


# ---------------------------------------------------------------------- limits and metrics


def test_a_transaction_is_limited_in_what_it_spans_and_how_long_it_takes() -> None:
    async def body(place: Place) -> None:
        client = await attach(place)
        id_ = await client.begin()
        assert await client.add_topic(id_) is None
        assert await client.add_topic(id_) is None, "it is in it"
        assert await client.add_subscription(id_, "s") is None
        await place.topic("persistent://shop/eu/bills")
        refused = await client.add_topic(id_, "persistent://shop/eu/bills")
        assert refused == ServerError.TooManyRequests
        answer = await client.ask(
            CommandNewTxn(tc_id=0, txn_ttl_millis=60_001), BaseCommand.NEW_TXN_RESPONSE
        )
        assert answer.newTxnResponse.error == ServerError.NotAllowedError
        await client.commit(id_)

    run_enabled(body, maxParticipantsPerTransaction=2, maxTransactionTimeoutMillis=60_000)


def test_a_transaction_is_limited_in_what_it_writes_to_a_topic() -> None:
    async def body(place: Place) -> None:
        client = await attach(place)
        id_ = await client.begin()
        assert await client.add_topic(id_) is None
        assert isinstance(await client.write(id_, "x" * 200), Position)
        topic = await place.topic(TOPIC)
        size = topic.buffer.open_bytes
        assert size > 200
        metric = 'magnetar_transaction_open_bytes{cluster="standalone"}'
        assert f"{metric} {size}" in await render_metrics(place.service)
        refusal = ServerError.NotAllowedError
        assert await client.write(id_, "x" * 200, sequence=1) == refusal
        await reload(place)
        client = await attach(place)
        assert (await place.topic(TOPIC)).buffer.open_bytes == size
        assert await client.write(id_, "x" * 200, sequence=1) == refusal
        assert isinstance(await client.write(id_, "y", sequence=2), Position)
        await client.commit(id_)
        assert (await place.topic(TOPIC)).buffer.open_bytes == 0

    run_enabled(body, maxTransactionBytesPerTopic=400)


def test_one_caller_is_limited_in_what_its_open_transactions_write() -> None:
    """Over all topics of the broker, before and after they are loaded again."""

    async def body(place: Place) -> None:
        other = "persistent://shop/eu/bills"
        client = await attach(place)
        await client.produce(other, producer_id=2)
        first, second = await client.begin(), await client.begin()
        assert await client.add_topic(first) is None
        assert await client.add_topic(second, other) is None
        assert isinstance(await client.write(first, "x" * 300), Position)
        refusal = ServerError.NotAllowedError
        assert await client.write(second, "x" * 300, producer_id=2) == refusal
        live = await place.service.transactions.coordinator(0)
        foreign = await live.begin("another", 60_000)
        await live.join(foreign, (other,), ())
        assert isinstance(await client.write(foreign, "x" * 300, producer_id=2), Position)
        await reload(place)
        assert (await place.topic(TOPIC)).buffer.open_bytes > 300
        assert await client.write(second, "x" * 300, producer_id=2, sequence=1) == refusal
        await client.commit(first)
        assert isinstance(
            await client.write(second, "x" * 300, producer_id=2, sequence=2), Position
        )
        await client.abort(second)
        await live.end(foreign, is_commit=True)

    run_enabled(body, maxTransactionBytesPerCaller=500)


def test_a_transaction_is_limited_in_what_it_acknowledges() -> None:
    async def body(place: Place) -> None:
        client = await attach(place)
        for number in range(3):
            await client.publish(f"{number}", sequence=number)
        first, second, third = (each.position for each in await client.get(1, 3))
        id_ = await client.begin()
        assert await client.add_subscription(id_, "s") is None
        assert await client.ack_in(id_, 1, first, second) is None
        assert await client.ack_in(id_, 1, third) == ServerError.TooManyRequests
        assert await client.ack_in(id_, 1, second) is None, "it is held"
        await client.commit(id_)
        other = await client.begin()
        assert await client.add_subscription(other, "s") is None
        assert await client.ack_in(other, 1, third) is None

    run_enabled(body, maxTransactionAcknowledgementsPerSubscription=2)


def test_one_caller_cannot_take_the_place_of_others() -> None:
    async def body(place: Place) -> None:
        live = await place.service.transactions.coordinator(0)
        first = await live.begin("greedy", 60_000)
        client = TransactionClient(place.service)
        await client.begin()
        answer = await client.ask(CommandNewTxn(tc_id=0), BaseCommand.NEW_TXN_RESPONSE)
        assert answer.newTxnResponse.error == ServerError.TooManyRequests
        await live.end(first, is_commit=False)
        await live.begin("greedy", 60_000)

    run_enabled(body, maxActiveTransactionsPerCaller=1)


def test_metrics_count_transactions_by_the_subscriptions_on_which_they_acknowledged() -> None:
    async def body(place: Place) -> None:
        client = await attach(place)
        await client.publish("first")
        (delivery,) = await client.get(1, 1)
        for is_commit in (False, True):
            id_ = await client.begin()
            assert await client.add_subscription(id_, "s") is None
            assert await client.ack_in(id_, 1, delivery.position) is None
            assert await client.end(id_, commit=is_commit) is None
        await settle()
        text = await render_metrics(place.service)
        labels = f'cluster="standalone",namespace="shop/eu",topic="{TOPIC}",subscription="s"'
        for name in ("committed", "aborted"):
            assert f'pulsar_txn_tp_{name}_count_total{{{labels},status="succeed"}} 1' in text
        assert f"pulsar_txn_tp_commit_latency_count{{{labels}}} 1" in text, "of the commit alone"
        assert f"pulsar_txn_tp_commit_latency_sum{{{labels}}} 0" in text, "on virtual time"
        assert (
            'pulsar_txn_tb_client_pending_requests{cluster="standalone",coordinator_id="0"} 0'
            in text
        )

    run_enabled(body)


def test_records_of_one_turn_leave_as_one_entry_and_metrics_tell() -> None:
    async def body(place: Place) -> None:
        client = await attach(place)
        await transact(client, "first", is_commit=True)  # the journals are there from now on
        coordinator = place.service.transactions.coordinators[0]
        part, state = await participant(place), coordinator.state
        await until(lambda: not state.transactions)
        assert part.journal is not None
        before = coordinator.journal.entries_appended, part.journal.entries_appended
        ids = [await client.begin() for _ in range(20)]
        name = (await place.topic(TOPIC)).name.full
        await gather(*(coordinator.join(each, [name], []) for each in ids))
        after = coordinator.journal.entries_appended, part.journal.entries_appended
        assert after == (before[0] + 1, before[1] + 1)
        text = await render_metrics(place.service)
        for kind in ("tc", "pending_ack_store"):
            found = f"pulsar_txn_{kind}_bufferedwriter_batch_records_bucket"
            at_most = {
                line.partition('le="')[2].partition('"')[0]: int(line.rpartition(" ")[2])
                for line in text.splitlines()
                if line.startswith(found)
            }
            # The coordinator's begins leave with the first join.
            assert at_most["50"] - at_most["10"] == 1, kind
            full = f"pulsar_txn_{kind}_bufferedwriter_flush_trigger_max_records_total"
            assert any(line.startswith(full) and line.endswith(" 0") for line in text.splitlines())

    run_enabled(body)


def test_an_entry_that_is_full_leaves_before_the_commit_and_nothing_is_lost() -> None:
    async def body(place: Place) -> None:
        client = await attach(place)
        await transact(client, "first", is_commit=True)
        coordinator = place.service.transactions.coordinators[0]
        name = (await place.topic(TOPIC)).name.full
        ids = [await client.begin() for _ in range(600)]
        written = coordinator.journal.entries_appended
        await gather(*(coordinator.join(each, [name], []) for each in ids))
        assert coordinator.journal.entries_appended - written > 1
        await coordinator.close()
        again = await place.service.transactions.coordinator(0)
        assert again is not coordinator
        assert all(again.state.transactions[each.least].topics == (name,) for each in ids)

    run_enabled(body)


def test_metrics_count_transactions_by_their_outcome() -> None:
    async def body(place: Place) -> None:
        client = await attach(place)
        await transact(client, "kept", is_commit=True)
        await transact(client, "gone", is_commit=False)
        late = await client.begin(timeout_ms=1)
        place.clock.pass_s(1)
        assert await client.end(late, commit=True) == ServerError.InvalidTxnStatus
        await client.begin()
        await settle()
        text = await render_metrics(place.service)
        labels = '{cluster="standalone",coordinator_id="0"}'
        for name, value in (
            ("active_count", 1),
            ("created_total", 4),
            ("committed_total", 1),
            ("aborted_total", 2),
            ("timeout_total", 1),
            ("execution_latency_le_10", 2),
            ("tb_client_commit_latency_count", 1),
            ("tb_client_abort_latency_count", 1),
            ("tb_client_abort_latency_sum", 0),
            ("tb_client_commit_failed_total", 0),
        ):
            assert f"pulsar_txn_{name}{labels} {value}" in text, name

    run_enabled(body)

"""Transactions over the wire: what readers see, what is acknowledged, and what is refused."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from magnetar.broker.ownership import Owner
from magnetar.broker.stats import topic_stats
from magnetar.broker.transaction.service import TransactionService
from magnetar.broker.transaction.watch import AssignmentFeed, AssignmentWatches
from magnetar.model.position import Position
from magnetar.model.transaction import ASSIGN_TOPIC, TransactionId
from magnetar.rules.transaction.coordinator import RESERVED_AT_ONCE
from magnetar.wire.command import (
    BaseCommand,
    CommandGetLastMessageId,
    CommandNewTxn,
    CommandPartitionedTopicMetadata,
    CommandWatchTcAssignments,
    CommandWatchTcAssignmentsClose,
    ServerError,
)
from tests.unit.broker.broker_place import run
from tests.unit.broker.traffic import EXCLUSIVE, FAILOVER, KEY_SHARED, SHARED
from tests.unit.broker.transaction.transaction_place import (
    TOPIC,
    Place,
    TransactionClient,
    participant,
    run_enabled,
    settle,
    until,
)

OTHER = "persistent://shop/eu/bills"
KINDS = (EXCLUSIVE, SHARED, FAILOVER, KEY_SHARED)


async def attach(place: Place, kind: int = SHARED) -> TransactionClient:
    client = TransactionClient(place.service)
    await client.produce(TOPIC)
    await client.subscribe(TOPIC, "s", kind, consumer_id=1)
    return client


async def open_transaction(client: TransactionClient, **options: int) -> TransactionId:
    id_ = await client.begin(**options)
    assert await client.add_topic(id_) is None
    assert await client.add_subscription(id_, "s") is None
    return id_


def texts(client: TransactionClient) -> list[str]:
    return client.texts(1)


# ---------------------------------------------------------------------- coordinators


def test_without_coordinators_every_command_is_refused_and_the_connection_lives() -> None:
    async def body(place: Place) -> None:
        client = await attach(place)
        answer = await client.ask(CommandNewTxn(tc_id=0), BaseCommand.NEW_TXN_RESPONSE)
        assert answer.error.error == ServerError.NotAllowedError
        assert answer.error.message == "Transactions are not enabled."
        assert await client.write(TransactionId(0, 0), "x") == ServerError.NotAllowedError
        refused = await client.ack_in(TransactionId(0, 0), 1, (0, 0))
        assert refused == ServerError.NotAllowedError
        await client.publish("fine")
        assert not client.is_cut_off

    run(body)


def test_the_assign_topic_has_as_many_partitions_as_there_are_coordinators() -> None:
    async def body(place: Place) -> None:
        client = TransactionClient(place.service)
        assert await place.service.transactions.count() == 2
        topic = "persistent://pulsar/system/transaction_coordinator_assign"
        request = CommandPartitionedTopicMetadata(topic=topic)
        answer = await client.ask(request, BaseCommand.PARTITIONED_METADATA_RESPONSE)
        assert answer.partitionMetadataResponse.partitions == 2
        assert not (await client.connect(1)).tcClientConnectResponse.HasField("error")
        wrong = (await client.connect(2)).tcClientConnectResponse
        assert wrong.error == ServerError.TransactionCoordinatorNotFound

    run_enabled(body)


def test_numbers_count_from_zero_at_each_coordinator() -> None:
    async def body(place: Place) -> None:
        client = TransactionClient(place.service)
        assert await client.begin() == (0, 0)
        assert await client.begin() == (0, 1)
        assert await client.begin(number=1) == (1, 0)

    run_enabled(body)


def test_no_number_is_given_out_before_its_reservation_is_durable() -> None:
    """A crash would give it out again. The first range is used up while it is being stored."""

    async def body(place: Place) -> None:
        coordinator = await place.service.transactions.coordinator(0)

        def begin() -> asyncio.Task[TransactionId]:
            return asyncio.ensure_future(coordinator.begin("", 60_000))

        place.ledgers.hold_answers()
        first = [begin() for _ in range(RESERVED_AT_ONCE)]
        await settle()
        assert not any(each.done() for each in first)
        place.ledgers.release_answers()
        place.ledgers.hold_answers()
        second = [begin()]
        await settle()
        second.append(begin())
        await settle()
        assert all(each.done() for each in first) and not any(each.done() for each in second)
        place.ledgers.release_answers()
        numbers = [id_.least for id_ in await asyncio.gather(*first, *second)]
        assert numbers == list(range(RESERVED_AT_ONCE + 2))

    run_enabled(body)


def test_a_watch_gets_all_coordinators_at_once_and_nothing_after_its_close() -> None:
    async def body(place: Place) -> None:
        client = TransactionClient(place.service)
        client.say(CommandWatchTcAssignments(watch_id=7))
        await until(lambda: client.count(BaseCommand.WATCH_TC_ASSIGNMENTS_UPDATE) == 1)
        [update] = client.received(BaseCommand.WATCH_TC_ASSIGNMENTS_UPDATE)
        snapshot = update.watchTcAssignmentsUpdate.snapshot
        assert update.watchTcAssignmentsUpdate.watch_id == 7
        assert snapshot.parallelism == 2
        assert [each.tc_id for each in snapshot.assignments] == [0, 1]
        client.say(CommandWatchTcAssignmentsClose(watch_id=7))
        await place.service.transactions.assignment_feed.look()
        await settle()
        assert client.count(BaseCommand.WATCH_TC_ASSIGNMENTS_UPDATE) == 1

    run_enabled(body)


def test_a_watch_is_told_of_changes_and_again_until_every_coordinator_has_an_owner() -> None:
    async def body(place: Place) -> None:
        client = TransactionClient(place.service)
        here = await place.service.ownership.owner_of(ASSIGN_TOPIC.partition(0))
        there = replace(here, service_url="pulsar://there:6650")
        owners = {0: here}

        async def count() -> int:
            return 2

        async def assignments() -> dict[int, Owner]:
            return owners

        feed = AssignmentFeed(count, assignments)
        await feed.open(client._connection.attached(AssignmentWatches), 7)

        async def told() -> list[dict[int, str]]:
            await feed.look()
            await settle()
            updates = client.received(BaseCommand.WATCH_TC_ASSIGNMENTS_UPDATE)
            snapshots = (each.watchTcAssignmentsUpdate.snapshot for each in updates)
            return [
                {each.tc_id: each.broker_service_url for each in snapshot.assignments}
                for snapshot in snapshots
            ]

        partial = {0: here.service_url}
        assert await told() == [partial, partial], "the first at once, and again"
        owners[1] = here
        assert (await told())[2:] == [{0: here.service_url, 1: here.service_url}]
        assert len(await told()) == 3, "nothing is news"
        owners[0] = there
        assert (await told())[3:] == [{0: there.service_url, 1: here.service_url}]

    run_enabled(body)


def test_answers_of_refusals_carry_the_ids() -> None:
    async def body(place: Place) -> None:
        client = TransactionClient(place.service)
        unknown = TransactionId(1, 99)
        assert await client.add_topic(unknown) == ServerError.TransactionNotFound
        assert await client.end(unknown, commit=True) == ServerError.TransactionNotFound
        answer = await client.ask(CommandNewTxn(tc_id=5), BaseCommand.NEW_TXN_RESPONSE)
        assert answer.newTxnResponse.txnid_most_bits == 5
        assert answer.newTxnResponse.error == ServerError.TransactionCoordinatorNotFound

    run_enabled(body)


def test_an_outcome_may_be_asked_for_again_and_is_never_another() -> None:
    async def body(place: Place) -> None:
        client = await attach(place)
        id_ = await open_transaction(client)
        await client.commit(id_)
        await client.commit(id_)
        assert await client.end(id_, commit=False) == ServerError.InvalidTxnStatus
        assert await client.add_topic(id_, OTHER) == ServerError.TransactionNotFound
        assert await client.write(id_, "late") == ServerError.NotAllowedError

    run_enabled(body)


def test_at_the_limit_of_open_transactions_another_is_refused_with_an_answer() -> None:
    async def body(place: Place) -> None:
        client = TransactionClient(place.service)
        first = await client.begin()
        await client.begin()
        answer = await client.ask(CommandNewTxn(tc_id=0), BaseCommand.NEW_TXN_RESPONSE)
        assert answer.newTxnResponse.error == ServerError.TooManyRequests
        await client.abort(first)
        await settle()
        await client.begin()

    run_enabled(body, maxActiveTransactionsPerCoordinator=2)


def test_a_transaction_past_its_time_is_aborted_and_cannot_be_committed() -> None:
    async def body(place: Place) -> None:
        client = await attach(place)
        id_ = await open_transaction(client, timeout_ms=1_000)
        await client.write(id_, "hidden")
        await client.publish("behind")
        await settle()
        assert texts(client) == []
        place.clock.pass_s(2)
        assert await client.end(id_, commit=True) == ServerError.InvalidTxnStatus
        await until(lambda: texts(client) == ["behind"])
        assert await client.end(id_, commit=True) == ServerError.InvalidTxnStatus

    run_enabled(body)


# ---------------------------------------------------------------------- what readers see


@pytest.mark.parametrize("kind", KINDS)
def test_an_open_transaction_hides_its_messages_and_all_behind_them(kind: int) -> None:
    async def body(place: Place) -> None:
        client = await attach(place, kind)
        await client.publish("before")
        id_ = await open_transaction(client)
        await client.write(id_, "one")
        await client.publish("between")
        await client.write(id_, "two")
        await settle()
        assert texts(client) == ["before"]
        await client.commit(id_)
        await client.get(1, 4)
        assert texts(client) == ["before", "one", "between", "two"]

    run_enabled(body)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("in_metadata", [True, False])
def test_an_aborted_transaction_is_seen_by_no_subscription(kind: int, in_metadata: bool) -> None:
    async def body(place: Place) -> None:
        client = await attach(place, kind)
        id_ = await open_transaction(client)
        await client.write(id_, "gone", in_metadata=in_metadata)
        await client.publish("stays")
        await client.abort(id_)
        await client.get(1, 1)
        assert texts(client) == ["stays"]
        await client.subscribe(TOPIC, "new", kind, consumer_id=2)
        await client.get(2, 1)
        topic = await place.topic(TOPIC)
        assert topic.subscriptions["new"].backlog == 1
        await client.seek(2, Position(-1, -1))
        await client.subscribe(TOPIC, "new", kind, consumer_id=2)
        await until(lambda: client.texts(2) == ["stays", "stays"])

    run_enabled(body)


def test_nothing_is_visible_until_the_earlier_of_two_transactions_has_ended() -> None:
    async def body(place: Place) -> None:
        client = await attach(place)
        first, second = await open_transaction(client), await open_transaction(client)
        await client.write(first, "a")
        await client.write(second, "b")
        await client.write(first, "c")
        await client.commit(second)
        await settle()
        assert texts(client) == []
        await client.abort(first)
        await client.get(1, 1)
        assert texts(client) == ["b"]

    run_enabled(body)


def test_the_last_message_is_never_one_that_is_open_or_aborted() -> None:
    async def body(place: Place) -> None:
        client = await attach(place)
        plain = await client.publish("plain")
        open_, gone = await open_transaction(client), await open_transaction(client)
        await client.write(gone, "gone")

        async def last() -> Position:
            request = CommandGetLastMessageId(consumer_id=1)
            answer = await client.ask(request, BaseCommand.GET_LAST_MESSAGE_ID_RESPONSE)
            found = answer.getLastMessageIdResponse.last_message_id
            return Position(found.ledgerId, found.entryId)

        assert await last() == plain
        await client.abort(gone)
        assert await last() == plain
        written = await client.write(open_, "open")
        await client.publish("behind")
        assert await last() == plain
        await client.commit(open_)
        assert isinstance(written, Position)
        assert await last() == Position(written.ledger_id, written.entry_id + 1)

    run_enabled(body)


def test_a_message_of_a_transaction_that_was_not_announced_is_refused_and_pins_nothing() -> None:
    async def body(place: Place) -> None:
        client = await attach(place)
        assert await client.write(TransactionId(0, 5), "x") == ServerError.TransactionNotFound
        known = await client.begin()
        assert await client.write(known, "x") == ServerError.TransactionNotFound
        await client.publish("fine")
        await client.get(1, 1)

    run_enabled(body)


def test_a_reader_that_begins_at_the_latest_sees_what_is_committed_later() -> None:
    async def body(place: Place) -> None:
        client = await attach(place)
        id_ = await open_transaction(client)
        await client.write(id_, "open")
        topic = await place.topic(TOPIC)
        await topic.subscriptions.create("late")
        await client.commit(id_)
        assert topic.subscriptions["late"].backlog == 1

    run_enabled(body)


def test_a_sealed_topic_is_drained_only_when_its_transactions_have_ended() -> None:
    async def body(place: Place) -> None:
        client = await attach(place)
        id_ = await open_transaction(client)
        await client.write(id_, "open")
        topic = await place.topic(TOPIC)
        await topic.termination.run()
        await settle()
        assert texts(client) == [] and not client.count(BaseCommand.REACHED_END_OF_TOPIC)
        await client.commit(id_)
        [delivery] = await client.get(1, 1)
        client.ack(1, delivery.position)
        await until(lambda: client.count(BaseCommand.REACHED_END_OF_TOPIC) == 1)

    run_enabled(body)


def test_a_sealed_topic_with_an_aborted_tail_is_drained() -> None:
    async def body(place: Place) -> None:
        client = await attach(place)
        id_ = await open_transaction(client)
        await client.write(id_, "gone")
        topic = await place.topic(TOPIC)
        await topic.termination.run()
        await client.abort(id_)
        await until(lambda: client.count(BaseCommand.REACHED_END_OF_TOPIC) == 1)

    run_enabled(body)


def test_expiry_and_clearing_leave_what_is_not_committed_yet() -> None:
    async def body(place: Place) -> None:
        client = await attach(place)
        await client.publish("old")
        id_ = await open_transaction(client)
        await client.write(id_, "open")
        topic = await place.topic(TOPIC)
        subscription = topic.subscriptions["s"]
        await subscription.skip_all()
        assert subscription.backlog == 1
        await subscription.expiry.expire(1)
        assert subscription.backlog == 1
        await client.commit(id_)
        await until(lambda: "open" in texts(client))

    run_enabled(body)


def test_compaction_takes_nothing_of_open_and_aborted_transactions() -> None:
    async def body(place: Place) -> None:
        client = await attach(place)
        first = await client.publish("first", key="k")
        gone, open_ = await open_transaction(client), await open_transaction(client)
        await client.write(gone, "gone", key="k")
        await client.abort(gone)
        written = await client.write(open_, "open", key="k")
        topic = await place.topic(TOPIC)

        async def compact() -> list[Position]:
            before = topic.compactor.compacted
            await topic.compactor.start()
            await until(lambda: topic.compactor.compacted is not before)
            assert topic.compactor.compacted is not None
            return list(topic.compactor.compacted.positions)

        assert await compact() == [first]
        await client.commit(open_)
        assert await compact() == [written]

    run_enabled(body)


def test_the_stats_of_a_topic_count_transactions() -> None:
    async def body(place: Place) -> None:
        client = await attach(place)
        ids = [await open_transaction(client) for _ in range(6)]
        for number, id_ in enumerate(ids):
            await client.write(id_, "x", sequence=number)
        await client.commit(ids[0])
        for id_ in ids[1:3]:
            await client.abort(id_)
        stats = topic_stats(await place.topic(TOPIC))
        names = ("ongoingTxnCount", "committedTxnCount", "abortedTxnCount")
        assert [stats[name] for name in names] == [3, 1, 2]
        assert stats["subscriptions"]["s"]["msgBacklog"] == 4, "what was aborted is none"

    run_enabled(body)


# ---------------------------------------------------------------------- acknowledgements


@pytest.mark.parametrize("kind", KINDS)
def test_an_aborted_acknowledgement_brings_messages_again_and_a_committed_one_does_not(
    kind: int,
) -> None:
    async def body(place: Place) -> None:
        client = await attach(place, kind)
        positions = [await client.publish(text, key=text) for text in "abc"]
        await client.get(1, 3)
        id_ = await open_transaction(client)
        assert await client.ack_in(id_, 1, *positions[:2]) is None
        client.redeliver(1)  # what is held by a transaction does not come
        await client.get(1, 4)
        assert sorted(texts(client)) == ["a", "b", "c", "c"]
        await client.abort(id_)
        await client.get(1, 6)
        assert sorted(texts(client)[4:]) == ["a", "b"]
        again = await open_transaction(client)
        assert await client.ack_in(again, 1, *positions) is None
        await client.commit(again)
        topic = await place.topic(TOPIC)
        assert topic.subscriptions["s"].backlog == 0

    run_enabled(body)


def test_an_aborted_acknowledgement_gives_the_redelivery_count_and_the_permits_back() -> None:
    async def body(place: Place) -> None:
        client = await attach(place, SHARED)
        position = await client.publish("a")
        await client.get(1, 1)
        topic = await place.topic(TOPIC)
        [consumer] = topic.subscriptions["s"].consumers
        for count in (1, 2):
            id_ = await open_transaction(client)
            assert consumer.member.unacked == 1
            assert await client.ack_in(id_, 1, position) is None
            assert consumer.member.unacked == 0
            await client.abort(id_)
            found = await client.get(1, count + 1)
            assert found[-1].redelivery_count == count

    run_enabled(body)


def test_two_transactions_cannot_acknowledge_the_same_message() -> None:
    async def body(place: Place) -> None:
        client = await attach(place)
        position = await client.publish("a")
        await client.get(1, 1)
        first, second = await open_transaction(client), await open_transaction(client)
        assert await client.ack_in(first, 1, position) is None
        assert await client.ack_in(first, 1, position) is None  # it lost the answer
        assert await client.ack_in(second, 1, position) == ServerError.TransactionConflict
        await client.abort(second)
        await settle()
        assert texts(client) == ["a"]
        await client.commit(first)
        third = await open_transaction(client)
        assert await client.ack_in(third, 1, position) == ServerError.TransactionConflict

    run_enabled(body)


def test_two_transactions_share_a_batch_by_its_messages() -> None:
    async def body(place: Place) -> None:
        client = await attach(place)
        position = await client.publish_batch(["a", "b", "c", "d"])
        await client.get(1, 1)
        first, second = await open_transaction(client), await open_transaction(client)
        assert await client.ack_in(first, 1, position, remaining=0b1100, size=4) is None
        assert await client.ack_in(second, 1, position, remaining=0b0011, size=4) is None
        clash = await client.ack_in(second, 1, position, remaining=0b1110, size=4)
        assert clash == ServerError.TransactionConflict
        await client.abort(first)
        found = await client.get(1, 2)
        assert found[1].remaining == 0b0011
        await client.commit(second)
        third = await open_transaction(client)
        assert await client.ack_in(third, 1, position, remaining=0b1100, size=4) is None
        await client.commit(third)
        assert (await place.topic(TOPIC)).subscriptions["s"].backlog == 0

    run_enabled(body)


def test_a_cumulative_acknowledgement_waits_for_its_transaction() -> None:
    async def body(place: Place) -> None:
        client = await attach(place, EXCLUSIVE)
        positions = [await client.publish(text) for text in "abcd"]
        await client.get(1, 4)
        first, second = await open_transaction(client), await open_transaction(client)
        assert await client.ack_in(first, 1, positions[1], cumulative=True) is None
        clash = await client.ack_in(second, 1, positions[2], cumulative=True)
        assert clash == ServerError.TransactionConflict
        assert await client.ack_in(first, 1, positions[2], cumulative=True) is None
        assert await client.ack_in(second, 1, positions[3]) is None
        await client.commit(second)
        topic = await place.topic(TOPIC)
        assert topic.subscriptions["s"].backlog == 3
        await client.abort(first)
        await client.get(1, 7)
        assert texts(client)[4:] == ["a", "b", "c"]
        third = await open_transaction(client)
        assert await client.ack_in(third, 1, positions[2], cumulative=True) is None
        await client.commit(third)
        assert topic.subscriptions["s"].backlog == 0
        fourth = await open_transaction(client)
        assert await client.ack_in(fourth, 1, positions[3], cumulative=True) is None

    run_enabled(body)


def test_an_acknowledgement_of_a_transaction_that_was_not_announced_is_refused() -> None:
    async def body(place: Place) -> None:
        client = await attach(place)
        position = await client.publish("a")
        await client.get(1, 1)
        refused = await client.ack_in(TransactionId(0, 3), 1, position)
        assert refused == ServerError.TransactionNotFound

    run_enabled(body)


# ---------------------------------------------------------------------- more than one topic


def test_a_transaction_ends_on_all_its_topics_and_a_topic_that_is_gone_does_not_matter() -> None:
    async def body(place: Place) -> None:
        client = await attach(place)
        await client.produce(OTHER, producer_id=2)
        await client.subscribe(OTHER, "s", SHARED, consumer_id=2)
        id_ = await open_transaction(client)
        assert await client.add_topic(id_, OTHER) is None
        gone = "persistent://shop/eu/gone"
        await client.produce(gone, producer_id=3)
        assert await client.add_topic(id_, gone) is None
        await client.write(id_, "here")
        await client.write(id_, "there", producer_id=2)
        await place.service.catalog.delete_topic((await place.topic(gone)).name, force=True)
        await client.commit(id_)
        await client.get(1, 1)
        await client.get(2, 1)
        assert not (await participant(place)).open_ids

    run_enabled(body)


def test_the_service_forgets_a_transaction_when_all_have_its_outcome() -> None:
    async def body(place: Place) -> None:
        client = await attach(place)
        id_ = await open_transaction(client)
        await client.write(id_, "x")
        await client.commit(id_)
        transactions: TransactionService = place.service.transactions
        state = transactions.coordinators[0].state
        await until(lambda: not state.transactions)
        assert state.ended[id_.least].is_commit

    run_enabled(body)

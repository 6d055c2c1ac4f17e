"""Outcomes that a topic cannot store, that come to topics which no transaction can span, or before
the topic has joined.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Sequence
from random import Random
from types import FrameType
from typing import Any

import pytest

from magnetar.broker.transaction.batch import Batches
from magnetar.broker.transaction.coordinator import LiveCoordinator
from magnetar.broker.transaction.deadline import DeadlineTimer
from magnetar.broker.transaction.journal import Journal
from magnetar.broker.transaction.participant import Participant
from magnetar.errors import (
    InvalidTransactionStatus,
    StorageFailed,
    TransactionEnded,
)
from magnetar.ledger.cursor import Cursor
from magnetar.model.limit import Limits
from magnetar.model.transaction import Begun, Ended, Finished, TransactionId
from magnetar.rules.transaction.coordinator import CoordinatorState
from magnetar.runtime.configuration import Configuration
from magnetar.testing.simulation.loop import VirtualLoop
from magnetar.wire.command import BaseCommand, CommandEndTxn, CommandEndTxnOnPartition, ServerError
from tests.unit.broker.broker_place import run_virtually
from tests.unit.broker.traffic import EXCLUSIVE, FAILOVER, SHARED
from tests.unit.broker.transaction.transaction_place import (
    ENABLED,
    TOPIC,
    Place,
    TransactionClient,
    participant,
    settle,
    until,
)
from tests.unit.ledger.log_place import Place as LogPlace

FAULT = StorageFailed("no disk")


async def stored_by(part: Participant) -> list[object]:
    assert part.journal is not None
    return list(await part.journal.read())


@pytest.mark.parametrize("is_commit", [True, False])
def test_an_outcome_that_a_topic_could_not_store_is_delivered_again(is_commit: bool) -> None:
    async def body(place: Place) -> None:
        client = TransactionClient(place.service)
        await client.produce(TOPIC)
        await client.subscribe(TOPIC, "s", SHARED, consumer_id=1)
        id_ = await client.begin()
        assert await client.add_topic(id_) is None
        await client.write(id_, "m")
        first = await participant(place)
        coordinator = place.service.transactions.coordinators[0]
        await place.clock.sleep(0.3)  # nothing else is on its way to a disk
        decided = coordinator.journal.entries_appended
        ending = asyncio.ensure_future(client.end(id_, commit=is_commit))
        await until(lambda: coordinator.journal.entries_appended > decided)
        place.ledgers.fail_next(FAULT)
        assert await ending is None
        assert first.journal is not None
        await until(lambda: first.journal is not None and first.journal.failure is FAULT)
        assert id_.least in coordinator.state.transactions, "the topic has it open, as stored"
        await place.clock.sleep(20)
        assert coordinator.state.ended[id_.least].is_commit is is_commit
        again = await participant(place)
        assert again is not first and not again.open_ids
        assert Ended(id_, is_commit) in await stored_by(again)
        late = TransactionClient(place.service)
        await late.subscribe(TOPIC, "late", SHARED, consumer_id=1)
        await late.produce(TOPIC)
        await late.publish("last", sequence=9)
        await until(lambda: "last" in late.texts(1))
        assert late.texts(1) == (["m", "last"] if is_commit else ["last"])

    run_virtually(body, **ENABLED)


def test_a_commit_whose_acknowledgements_could_not_be_stored_is_not_over() -> None:
    """Neither is it forgotten: they are stored when the disk is back."""

    async def body(place: Place) -> None:
        client = TransactionClient(place.service)
        await client.produce(TOPIC)
        await client.subscribe(TOPIC, "s", SHARED, consumer_id=1)
        position = await client.publish("input")
        await client.get(1, 1)
        id_ = await client.begin()
        assert await client.add_subscription(id_, "s") is None
        assert await client.ack_in(id_, 1, position) is None
        part = await participant(place)
        coordinator = place.service.transactions.coordinators[0]
        await place.clock.sleep(0.3)
        decided = coordinator.journal.entries_appended
        ending = asyncio.ensure_future(client.end(id_, commit=True))
        await until(lambda: coordinator.journal.entries_appended > decided)
        place.ledgers.fail_next(FAULT)
        assert await ending is None
        await settle()
        assert id_.least in coordinator.state.transactions
        assert Ended(id_, True) not in await stored_by(part)
        await place.clock.sleep(30)
        assert coordinator.state.ended[id_.least].is_commit
        assert Ended(id_, True) in await stored_by(part)
        (cursor,) = cursors_of(await place.topic(TOPIC), "s")
        assert cursor.is_acknowledged(*position)

    run_virtually(body, **ENABLED)


def cursors_of(topic: object, name: str) -> Sequence[Cursor]:
    return [topic.subscriptions[name].cursor]  # type: ignore[attr-defined]


@pytest.mark.parametrize("is_commit", [True, False])
@pytest.mark.parametrize("turns", range(12))
def test_a_journal_that_is_lost_a_few_turns_before_an_outcome_delays_it(
    turns: int, is_commit: bool
) -> None:
    """In some of them the topic is not closed yet, and refuses at once."""

    async def body(place: Place) -> None:
        client = TransactionClient(place.service)
        await client.produce(TOPIC)
        id_ = await client.begin()
        assert await client.add_topic(id_) is None
        await client.write(id_, "m")
        part = await participant(place)
        assert part.journal is not None
        ending = asyncio.ensure_future(client.end(id_, commit=is_commit))
        for _ in range(turns):
            await asyncio.sleep(0)
        part.journal.log.record.fence()
        assert await ending is None
        await place.clock.sleep(20)
        ended = place.service.transactions.coordinators[0].state.ended
        assert ended[id_.least].is_commit is is_commit
        assert not (await participant(place)).open_ids

    run_virtually(body, **ENABLED)


@pytest.mark.parametrize(
    "topic",
    [
        "non-persistent://shop/eu/loose",
        "topic://shop/eu/orders",
        "persistent://shop/eu/__change_events",
        "persistent://pulsar/system/any",
    ],
)
def test_a_topic_that_no_transaction_can_span_is_refused_and_keeps_none_from_its_end(
    topic: str,
) -> None:
    async def body(place: Place) -> None:
        client = TransactionClient(place.service)
        if topic.startswith("non-persistent"):
            await client.produce(topic)
        id_ = await client.begin()
        assert await client.add_topic(id_, topic) == ServerError.NotAllowedError
        live = place.service.transactions.coordinators[0]
        assert not live.state.transactions[id_.least].participants
        await client.abort(id_)
        participants = place.service.transactions.participants
        assert await participants.end(topic, id_, is_commit=False) is None, "of older journals"

    run_virtually(body, **ENABLED)


def test_a_topic_that_never_had_a_transaction_remembers_that_it_has_ended() -> None:
    """A former owner, which cannot write, must not say so of one that it has not heard of."""

    async def body(place: Place) -> None:
        client = TransactionClient(place.service)
        await client.produce(TOPIC)
        part, id_ = await participant(place), TransactionId(0, 7)
        assert part.journal is None
        stored = await part.end(id_, is_commit=True)
        assert stored is not None
        await stored
        assert await stored_by(part) == [Ended(id_, True)]
        assert await part.end(id_, is_commit=True) is None, "it is durable"
        with pytest.raises(TransactionEnded):
            await part.join_writes(id_, 0, "")
        with pytest.raises(TransactionEnded):
            await part.join_acks(id_, "s", 0)
        assert await client.write(id_, "late") == ServerError.NotAllowedError
        assert not part.open_ids
        assert part.journal is not None
        part.journal.log.record.fence()
        await until(lambda: part.journal is not None and part.journal.failure is not None)
        assert not part.is_quiet(TransactionId(0, 8)), "it may know less than another owner"

    run_virtually(body, **ENABLED)


class SlowTopics:
    """Topics that cannot be reached when a transaction joins them, until they can be."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.steps: list[str] = []

    async def join(
        self,
        topic: str,
        id_: TransactionId,
        deadline_ms: int,
        subscriptions: Sequence[str] | None,
        owner: str,
    ) -> None:
        await self.reached.wait()
        self.steps.append("join")

    def find_quiet(self, topic: str, id_: TransactionId) -> None:
        return None

    async def end(
        self, topic: str, id_: TransactionId, *, is_commit: bool
    ) -> Awaitable[None] | None:
        self.steps.append("commit" if is_commit else "abort")
        return None


def test_what_joins_after_the_end_is_refused_and_ended_again() -> None:
    async def body() -> None:
        place, topics = LogPlace(), SlowTopics()
        journal = Journal(await place.open(), place.clock, Batches("pulsar_txn_tc_bufferedwriter"))
        coordinator = LiveCoordinator.resume(
            0,
            journal,
            [Begun(0, "", 0, 1 << 60)],
            topics,
            clock=place.clock,
            config=Configuration({}),
            limits=Limits(),
            started_ms=0,
        )
        id_ = TransactionId(0, 0)
        joining = asyncio.ensure_future(coordinator.join(id_, [TOPIC], []))
        await asyncio.sleep(0)
        await coordinator.end(id_, is_commit=False)
        await until(lambda: 0 in coordinator.state.ended)
        topics.reached.set()
        with pytest.raises(InvalidTransactionStatus):
            await joining
        await until(lambda: len(topics.steps) > 2)
        assert topics.steps == ["abort", "join", "abort"]
        await coordinator.close()

    with asyncio.Runner(loop_factory=lambda: VirtualLoop(Random(0))) as runner:
        runner.run(body())


@pytest.mark.parametrize("kind", [EXCLUSIVE, FAILOVER])
def test_the_abort_of_a_cumulative_acknowledgement_costs_what_was_delivered(kind: int) -> None:
    """Whatever end the client has named; all of it is delivered again."""

    async def body(place: Place) -> None:
        client = TransactionClient(place.service)
        await client.produce(TOPIC)
        await client.subscribe(TOPIC, "s", kind, consumer_id=1, permits=2)
        for number in range(300):
            last = await client.publish(f"{number}", sequence=number)
        await client.get(1, 2)
        id_ = await client.begin()
        assert await client.add_subscription(id_, "s") is None
        assert await client.ack_in(id_, 1, last, cumulative=True) is None
        sequence = (await place.topic(TOPIC)).log.sequence
        steps = 0

        def count(frame: FrameType, event: str, argument: object) -> None:
            nonlocal steps
            steps += event == "call" and frame.f_code is type(sequence).next_position.__code__

        sys.setprofile(count)
        try:
            await client.abort(id_)
        finally:
            sys.setprofile(None)
        assert steps < 30
        client.flow(1, 2)
        assert [each.payload for each in await client.get(1, 4)] == [b"0", b"1"] * 2

    run_virtually(body, **ENABLED)


def test_deadlines_of_transactions_that_have_ended_are_let_go() -> None:
    async def body(place: Place) -> None:
        state = CoordinatorState(0)
        due: list[int] = []
        deadlines = DeadlineTimer(state, place.clock, lambda: due.append(place.clock.now_ms()))
        for least in range(1000):
            state.apply(Begun(least, "", 0, 1 << 60))
            deadlines.add(state.transactions[least])
            if least % 100:
                state.apply(Finished(least, True, 0))
        assert len(state.transactions) == 10 and len(deadlines) < 100
        deadlines.stop()

    run_virtually(body)


@pytest.mark.parametrize("is_ours", [True, False])
def test_an_outcome_that_is_neither_a_commit_nor_an_abort_is_refused(is_ours: bool) -> None:
    """An action that Protobuf does not know is not there, and would be a commit by default."""

    async def body(place: Place) -> None:
        client = TransactionClient(place.service)
        await client.produce(TOPIC)
        id_ = await client.begin()
        assert await client.add_topic(id_) is None
        fields = {"txnid_most_bits": id_.most, "txnid_least_bits": id_.least}
        if is_ours:
            ask: Any = CommandEndTxn(request_id=0, **fields)
            answer = await client.ask(unknown_action(ask, 4), BaseCommand.END_TXN_RESPONSE)
            refused = answer.endTxnResponse.error
        else:
            ask = CommandEndTxnOnPartition(request_id=0, topic=TOPIC, **fields)
            kind = BaseCommand.END_TXN_ON_PARTITION_RESPONSE
            answer = await client.ask(unknown_action(ask, 5), kind)
            refused = answer.endTxnOnPartitionResponse.error
        assert refused == ServerError.UnknownError
        assert id_ in (await participant(place)).open_ids
        await client.commit(id_)

    run_virtually(body, **ENABLED)


def unknown_action(command: Any, field: int) -> Any:
    return type(command).FromString(command.SerializeToString() + bytes((field << 3, 9)))

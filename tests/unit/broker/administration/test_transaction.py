"""The routes of transactions, answered by a broker in the loop of the test."""

from __future__ import annotations

import asyncio

import pytest

from magnetar.broker.administration import transaction as admin
from magnetar.broker.administration.transaction import find_spanned
from magnetar.errors import (
    CoordinatorNotFound,
    NotAcceptable,
    SubscriptionNotFound,
    TransactionNotFound,
)
from magnetar.model.caller import Caller
from magnetar.model.name import parse_topic
from magnetar.model.transaction import Status
from tests.unit.broker.traffic import SHARED
from tests.unit.broker.transaction.transaction_place import (
    TOPIC,
    Place,
    TransactionClient,
    run_enabled,
    until,
)


def test_an_operator_sees_coordinators_and_adds_more() -> None:
    async def body(place: Place) -> None:
        service = place.service
        coordinators = admin.find_coordinators(service)
        grants, root = service.authorization, Caller("root")
        listed = await admin.list_coordinators(service.transactions)
        assert [each["id"] for each in listed] == [0, 1]
        assert set(await admin.get_coordinator_stats(coordinators, grants, None, root)) == {
            "0",
            "1",
        }
        with pytest.raises(NotAcceptable):
            await admin.scale_coordinators(service.resources, service.transactions, 2)
        await admin.scale_coordinators(service.resources, service.transactions, 3)
        assert (await admin.get_coordinator_stats(coordinators, grants, 2, root))[
            "ongoingTxnSize"
        ] == 0
        with pytest.raises(CoordinatorNotFound):
            await admin.get_coordinator_stats(coordinators, grants, 3, root)
        stats = await admin.get_coordinator_internal_stats(coordinators, 0, True)
        assert stats["transactionLogStats"]["managedLedgerInternalStats"]["ledgers"] == []

    run_enabled(body)


def test_an_operator_sees_a_transaction_with_its_parts_and_aborts_it() -> None:
    async def body(place: Place) -> None:
        service = place.service
        coordinators = admin.find_coordinators(service)
        grants, root = service.authorization, Caller("root")
        client = TransactionClient(service)
        await client.produce(TOPIC)
        await client.subscribe(TOPIC, "s", SHARED, consumer_id=1)
        position = await client.publish("input")
        await client.get(1, 1)
        id_ = await client.begin(timeout_ms=3_600_000)
        assert await client.add_topic(id_) is None
        assert await client.add_subscription(id_, "s") is None
        written = await client.write(id_, "output")
        assert await client.ack_in(id_, 1, position) is None
        found = await admin.get_metadata(coordinators, *id_)
        assert found["status"] == "OPEN" and found["txnId"] == "(0,0)"
        assert found["producedPartitions"][TOPIC]["startPosition"] == str(written)
        assert list(found["ackedPartitions"][TOPIC]) == ["s"]
        place.clock.pass_s(60)
        assert list(await admin.list_slow(coordinators, grants, 30_000, None, root)) == ["(0,0)"]
        assert await admin.list_slow(coordinators, grants, 90_000, 0, root) == {}
        live = await find_spanned(service.catalog, service.transactions, parse_topic(TOPIC))
        stats = await admin.get_buffer_stats(live, True)
        assert stats["maxReadPosition"] == str(position) and stats["ongoingTxnSize"] == 1
        held = await admin.get_position_stats(live, "s", *position, None)
        assert held == {"state": "PendingAck"}
        assert (await admin.get_pending_ack_stats(live, "s", False))["ongoingTxnSize"] == 1
        with pytest.raises(SubscriptionNotFound):
            await admin.get_pending_ack_stats(live, "unknown", False)
        await admin.abort_transaction(coordinators, *id_, Caller("root"))
        await until(lambda: not service.transactions.coordinators[0].state.transactions)
        found = await admin.get_metadata(coordinators, *id_)
        assert (found["status"], found["cause"]) == ("ABORTED", "aborted by root")
        assert (await admin.get_in_buffer_stats(live, *id_))["aborted"]
        with pytest.raises(TransactionNotFound):
            await admin.abort_transaction(coordinators, 0, 99, Caller("root"))

    run_enabled(body)


def test_a_transaction_whose_outcome_is_on_its_way_is_listed_too() -> None:
    """It may be for long: a topic that it spans cannot be reached."""

    async def body(place: Place) -> None:
        service = place.service
        coordinators, client = admin.find_coordinators(service), TransactionClient(service)
        await client.produce(TOPIC)
        id_ = await client.begin()
        assert await client.add_topic(id_) is None
        (await place.topic(TOPIC)).closed = True  # until it is loaded again
        ending = asyncio.ensure_future(client.end(id_, commit=True))
        state = service.transactions.coordinators[0].state
        await until(lambda: state.transactions[id_.least].status is Status.COMMITTING)
        found = await admin.list_slow(coordinators, service.authorization, 0, 0, Caller("root"))
        assert [each["status"] for each in found.values()] == ["COMMITTING"]
        ending.cancel()

    run_enabled(body)

"""Transactions whose coordinator and topics are at different brokers, some of which go."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from magnetar.broker.administration import transaction as admin
from magnetar.broker.transaction.participant import Participant
from magnetar.errors import CoordinatorNotFound, TransactionNotFound
from magnetar.model.caller import Caller
from magnetar.model.name import parse_topic
from magnetar.model.transaction import ASSIGN_TOPIC, TransactionId
from magnetar.wire.command import ServerError
from tests.unit.broker.broker_place import until
from tests.unit.broker.scalable.cluster_place import Broker, Cluster, run_cluster
from tests.unit.broker.traffic import SHARED, TOPIC
from tests.unit.broker.transaction.transaction_place import ENABLED, TransactionClient

OTHER = "persistent://shop/eu/bills"

ROOT = Caller("root")


class Stage:
    """The coordinator is at the first broker, one topic at the second, one at the third."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.first, self.second, self.third = cluster.brokers
        cluster.place(ASSIGN_TOPIC.partition(0), self.first)
        cluster.place(TOPIC, self.second)
        cluster.place(OTHER, self.third)
        self.asking = TransactionClient(self.first.service)

    async def attach(self, topic: str) -> TransactionClient:
        """A producer and a consumer at the topic's owner."""
        service = self.cluster.owner(topic).service
        await service.catalog.load_topic(parse_topic(topic), create=True)
        client = TransactionClient(service)
        await client.produce(topic)
        await client.subscribe(topic, "s", SHARED, consumer_id=1)
        return client

    async def begin(self, *topics: str) -> TransactionId:
        id_ = await self.asking.begin()
        for topic in topics:
            assert await self.asking.add_topic(id_, topic) is None
        return id_

    async def participant(self, broker: Broker, topic: str) -> Participant:
        live: Any = await broker.service.catalog.load_topic(parse_topic(topic))
        assert isinstance(live.transactions, Participant)
        return live.transactions


def test_a_transaction_ends_at_topics_of_other_brokers() -> None:
    async def body(cluster: Cluster) -> None:
        stage = Stage(cluster)
        orders, bills = await stage.attach(TOPIC), await stage.attach(OTHER)
        first = await bills.publish("input")
        await bills.get(1, 1)
        for is_commit, text in ((False, "gone"), (True, "kept")):
            id_ = await stage.begin(TOPIC, OTHER)
            assert await stage.asking.add_subscription(id_, "s", OTHER) is None
            for client in (orders, bills):
                await client.write(id_, text)
            assert await bills.ack_in(id_, 1, first) is None
            assert "gone" not in orders.texts(1) + bills.texts(1)
            assert await stage.asking.end(id_, commit=is_commit) is None
        await until(lambda: "kept" in orders.texts(1) and "kept" in bills.texts(1))
        assert orders.texts(1) == ["kept"]
        assert sorted(set(bills.texts(1))) == ["input", "kept"]
        assert (await stage.participant(stage.third, OTHER)).open_ids == {}

    run_cluster(body, **ENABLED)


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_client_that_believes_in_a_proxy_is_served_by_any_broker(is_commit: bool) -> None:
    async def body(cluster: Cluster) -> None:
        stage = Stage(cluster)
        orders = await stage.attach(TOPIC)
        await orders.publish("input")
        (first,) = await orders.get(1, 1)
        client = TransactionClient(stage.second.service)
        refused = await client.connect()
        assert refused.tcClientConnectResponse.error == ServerError.ServiceNotReady
        client._connection.handshake.proxied_to = "first:6650"
        assert not (await client.connect()).tcClientConnectResponse.HasField("error")
        unknown = await client.connect(99)
        assert unknown.tcClientConnectResponse.HasField("error")
        id_ = await client.begin()
        assert id_.most == 0
        assert await client.add_topic(id_, TOPIC) is None
        assert await client.add_subscription(id_, "s", TOPIC) is None
        await orders.write(id_, "output")
        assert await orders.ack_in(id_, 1, first.position) is None
        assert await client.end(id_, commit=is_commit) is None
        assert await client.end(id_, commit=is_commit) is None, "an answer may be lost"
        await orders.publish("last")
        await until(lambda: "last" in orders.texts(1))
        assert ("output" in orders.texts(1)) == is_commit

    run_cluster(body, **ENABLED)


def test_an_outcome_follows_a_topic_to_its_next_owner() -> None:
    async def body(cluster: Cluster) -> None:
        stage = Stage(cluster)
        cluster.place(TOPIC, stage.first)  # beside its coordinator, at first
        orders = await stage.attach(TOPIC)
        id_ = await stage.begin(TOPIC)
        await orders.write(id_, "kept")
        cluster.place(TOPIC, stage.second)
        await stage.first.service.catalog.unload_topic(parse_topic(TOPIC))
        orders = await stage.attach(TOPIC)
        assert orders.texts(1) == []
        await stage.asking.commit(id_)
        await orders.get(1, 1)
        assert orders.texts(1) == ["kept"]

    run_cluster(body, **ENABLED)


@pytest.mark.parametrize("is_commit", [True, False])
def test_the_next_owner_of_a_coordinator_finishes_what_was_decided(is_commit: bool) -> None:
    async def body(cluster: Cluster) -> None:
        stage = Stage(cluster)
        orders, bills = await stage.attach(TOPIC), await stage.attach(OTHER)
        id_ = await stage.begin(TOPIC, OTHER)
        for client in (orders, bills):
            await client.write(id_, "new")
        cluster.hide(stage.third)
        ending = asyncio.ensure_future(stage.asking.end(id_, commit=is_commit))
        part = await stage.participant(stage.second, TOPIC)
        await until(lambda: id_ not in part.open_ids)
        assert id_ in (await stage.participant(stage.third, OTHER)).open_ids
        await cluster.kill(stage.first)
        ending.cancel()
        cluster.show(stage.third)
        heir = cluster.owner(ASSIGN_TOPIC.partition(0))
        await heir.service.transactions.look_round()
        await bills.publish("last")
        await until(lambda: "last" in bills.texts(1))
        assert bills.texts(1) == (["new", "last"] if is_commit else ["last"])
        client = TransactionClient(heir.service)
        assert await client.end(id_, commit=is_commit) is None, "asked again, the same"
        assert await client.begin() > id_, "no number twice"

    run_cluster(body, **ENABLED)


def test_a_topic_asks_what_became_of_a_transaction_that_its_coordinator_does_not_tell_it() -> None:
    async def body(cluster: Cluster) -> None:
        stage = Stage(cluster)
        orders = await stage.attach(TOPIC)
        known = await stage.begin(TOPIC)
        lost = TransactionId(0, known.least + 500)
        for id_ in (known, lost):
            topics = stage.second.service.transactions.participants
            await topics.join_here(parse_topic(TOPIC), id_, 0, None, "")
        await orders.write(lost, "lost")
        await orders.publish("plain", sequence=1)
        assert orders.texts(1) == []
        await stage.second.service.transactions.look_round()
        await orders.get(1, 1)
        assert orders.texts(1) == ["plain"]
        assert (await stage.participant(stage.second, TOPIC)).open_ids.keys() == {known}

    run_cluster(body, **ENABLED)


def test_operators_ask_any_broker_for_transactions() -> None:
    async def body(cluster: Cluster) -> None:
        stage = Stage(cluster)
        cluster.place(ASSIGN_TOPIC.partition(1), stage.second)
        orders = await stage.attach(TOPIC)
        id_ = await stage.begin(TOPIC)
        written = await orders.write(id_, "m")
        for broker in cluster.brokers:
            service = broker.service
            admin.find_views(service)  # as every broker offers them
            coordinators, grants = admin.find_coordinators(service), service.authorization
            of_all = await admin.get_coordinator_stats(coordinators, grants, None, ROOT)
            assert set(of_all) == {"0", "1"} and of_all["0"]["ongoingTxnSize"] == 1
            stats = await admin.get_coordinator_stats(coordinators, grants, 0, ROOT)
            assert stats["ongoingTxnSize"] == 1
            slow = await admin.list_slow(coordinators, grants, 0, None, ROOT)
            assert list(slow) == [str(id_)]
        for broker in cluster.brokers:
            found = await admin.get_metadata(admin.find_coordinators(broker.service), *id_)
            assert found["status"] == "OPEN"
            assert found["producedPartitions"][TOPIC]["startPosition"] == str(written)
        third = admin.find_coordinators(stage.third.service)
        await admin.abort_transaction(third, *id_, ROOT)
        found = await admin.get_metadata(third, *id_)
        assert (found["status"], found["cause"]) == ("ABORTED", "aborted by root")
        with pytest.raises(TransactionNotFound):
            await admin.abort_transaction(third, 0, 99, ROOT)

    run_cluster(body, **ENABLED)


def test_a_former_owner_of_a_coordinator_tells_no_outcome() -> None:
    async def body(cluster: Cluster) -> None:
        stage = Stage(cluster)
        await stage.attach(TOPIC)
        id_ = await stage.begin(TOPIC)
        former = stage.first.service.transactions.coordinators[0]
        cluster.place(ASSIGN_TOPIC.partition(0), stage.second)
        client = TransactionClient(stage.second.service)
        assert await client.add_topic(id_, OTHER) is not None, "there is no such topic"
        await client.commit(id_)
        with pytest.raises(CoordinatorNotFound):
            await former.find_outcome(id_, TOPIC)
        with pytest.raises(CoordinatorNotFound):
            await former.end(id_, is_commit=False)

    run_cluster(body, **ENABLED)

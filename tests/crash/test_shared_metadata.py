"""Brokers that share one ZooKeeper: who owns what, and what holds when a part of it fails."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pulsar
import pytest

from magnetar.app.doctor import examine_directory
from magnetar.app.standalone import Server, serving
from magnetar.broker.lease import home_path, lease_path
from magnetar.errors import DataDirectoryRefused, InvalidConfiguration, StoreUnavailable
from magnetar.metadata.backends.zookeeper import ZookeeperStore
from magnetar.metadata.store import ABSENT
from magnetar.model.name import parse_namespace
from magnetar.testing import BrokerFailed, MagnetarBroker
from magnetar.testing.zookeeper import ZookeeperEnsemble, ZookeeperServer, shared_zookeeper
from tests.crash.member import (
    LONG_S,
    TOPIC,
    Member,
    Publisher,
    ask,
    broker_on,
    find_owner,
    id_of,
    read_all,
    running,
    until,
)

DEFAULT = parse_namespace("public/default")


@pytest.fixture(scope="module")
def mortal() -> Iterator[ZookeeperServer]:
    with ZookeeperServer() as server:
        yield server


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[MagnetarBroker, MagnetarBroker]]:
    url = shared_zookeeper().new_url()
    with broker_on(url) as first, broker_on(url) as second:
        yield first, second


def test_brokers_know_each_other_and_one_leads(pair: tuple[MagnetarBroker, ...]) -> None:
    expected = sorted(id_of(each) for each in pair)
    for broker in pair:
        assert ask(broker, "GET", "brokers/standalone") == (200, expected)
    leaders = {ask(broker, "GET", "brokers/leaderBroker")[1]["brokerId"] for broker in pair}
    assert len(leaders) == 1
    assert leaders <= set(expected)


def test_a_topic_is_served_by_one_broker_and_found_through_any(
    pair: tuple[MagnetarBroker, ...],
) -> None:
    first, second = pair
    publisher = Publisher(first.service_url)
    publisher.more()
    publisher.close()
    owner = find_owner(first, TOPIC)
    assert find_owner(second, TOPIC) == owner
    other = second if owner == id_of(first) else first
    path = "persistent/public/default/orders/stats"
    assert ask(other, "GET", f"{path}?x=%2F") == (307, f"http://{owner}/admin/v2/{path}?x=%2F")
    assert read_all(other.service_url) == publisher.acknowledged


def test_brokers_that_race_for_new_namespaces_never_both_get_one(
    pair: tuple[MagnetarBroker, ...],
) -> None:
    names = [f"race-{index}" for index in range(12)]
    for name in names:
        assert ask(pair[0], "PUT", f"namespaces/public/{name}")[0] == 204

    def create(broker: MagnetarBroker, name: str) -> int:
        return ask(broker, "PUT", f"persistent/public/{name}/topic")[0]

    with ThreadPoolExecutor(8) as threads:
        wanted = [(broker, name) for name in names for broker in pair]
        made = dict(zip(wanted, threads.map(lambda each: create(*each), wanted), strict=True))
    for name in names:
        topic = f"persistent://public/{name}/topic"
        owners = {find_owner(broker, topic) for broker in pair}
        assert len(owners) == 1
        statuses = sorted(made[broker, name] for broker in pair)
        assert statuses == [204, 307], statuses


def test_brokers_that_race_on_one_policy_lose_no_update(
    pair: tuple[MagnetarBroker, ...],
) -> None:
    assert ask(pair[0], "PUT", "namespaces/public/policies")[0] == 204

    def set_property(index: int) -> int:
        path = f"namespaces/public/policies/property/key-{index}/{index}"
        return ask(pair[index % 2], "PUT", path)[0]

    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(set_property, range(24))) == {204}
    expected = {f"key-{index}": str(index) for index in range(24)}
    path = "namespaces/public/policies/properties"
    until(lambda: all(ask(broker, "GET", path)[1] == expected for broker in pair))


def test_a_killed_broker_takes_its_topics_back_and_nobody_else_does(tmp_path: Path) -> None:
    url = shared_zookeeper().new_url()
    with broker_on(url) as first, broker_on(url) as second:
        publisher = Publisher(first.service_url)
        publisher.more()
        first.crash()
        path = "persistent/public/default/orders/stats"
        status, _ = ask(second, "GET", path)
        assert status in (307, 503)  # the dead broker's session has not ended, or has just
        first.start()
        assert find_owner(second, TOPIC) == id_of(first)
        publisher.more()
        publisher.close()
        assert read_all(second.service_url) == publisher.acknowledged


def test_an_expired_session_is_taken_up_again_under_a_higher_term_and_nothing_is_lost(
    tmp_path: Path,
) -> None:
    server = shared_zookeeper()
    url = server.new_url()

    async def body() -> None:
        async with running(tmp_path / "data", url) as broker:
            store = broker.service.store
            assert isinstance(store, ZookeeperStore)
            publisher = await asyncio.to_thread(Publisher, broker.service.owner.service_url)
            await asyncio.to_thread(publisher.more)
            before = await load_lease(store)
            await asyncio.to_thread(server.expire, store.session)
            async with asyncio.timeout(LONG_S):
                while (lease := await load_lease(store)) is None or lease == before:
                    await asyncio.sleep(0.01)
            assert before is not None
            assert lease["term"] > before["term"]
            assert {**lease, "term": 0} == {**before, "term": 0}
            await asyncio.to_thread(publisher.more)
            await asyncio.to_thread(publisher.close)
            numbers = await asyncio.to_thread(read_all, broker.service.owner.service_url)
            assert numbers == publisher.acknowledged
            topic = broker.service.catalog.topics[TOPIC]
            ledger = topic.log.sequence.last_position.ledger_id
            assert (await broker.service.ledgers.describe(ledger)).term == lease["term"]

    asyncio.run(body())


async def load_lease(store: ZookeeperStore) -> dict[str, Any] | None:
    record = await store.get(lease_path(DEFAULT))
    return None if record is None else json.loads(record.value)


def test_loaded_topics_go_on_while_zookeeper_hangs_or_is_dead(mortal: ZookeeperServer) -> None:
    settings = {"metadataStoreOperationTimeoutSeconds": 5}
    with broker_on(mortal.new_url(), **settings) as broker:
        publisher = Publisher(broker.service_url)
        publisher.more()
        mortal.pause()
        try:
            publisher.more()
            began = time.monotonic()
            status, answer = ask(broker, "PUT", "namespaces/public/new")
            assert (status, "did not answer within 5 s" in str(answer)) == (503, True)
            assert time.monotonic() - began < LONG_S / 2
            publisher.more()
        finally:
            mortal.resume()
        mortal.kill()
        publisher.more()
        mortal.start()
        until(lambda: ask(broker, "PUT", "namespaces/public/new")[0] in (204, 409))
        publisher.more()
        publisher.close()
        assert read_all(broker.service_url) == publisher.acknowledged


def test_a_slow_zookeeper_slows_calls_and_refuses_none(mortal: ZookeeperServer) -> None:
    with broker_on(mortal.new_url()) as broker:
        publisher = Publisher(broker.service_url)
        publisher.more()
        with mortal.slow(), ThreadPoolExecutor(8) as threads:

            def create(index: int) -> tuple[int, int]:
                namespace = ask(broker, "PUT", f"namespaces/public/slow-{index}")[0]
                return namespace, ask(broker, "PUT", f"persistent/public/slow-{index}/topic")[0]

            assert set(threads.map(create, range(8))) == {(204, 204)}
            publisher.more()
        publisher.close()
        assert "leases were lost" not in broker.read_log()
        assert read_all(broker.service_url) == publisher.acknowledged


def test_an_ensemble_goes_on_when_its_leader_is_killed(tmp_path: Path) -> None:
    """Sessions belong to the ensemble: what is owned stays owned, under the same term."""

    async def body(ensemble: ZookeeperEnsemble) -> None:
        async with running(tmp_path / "data", ensemble.url + "/cluster") as broker:
            store = broker.service.store
            publisher = await asyncio.to_thread(Publisher, broker.service.owner.service_url)
            try:
                await asyncio.to_thread(publisher.more)
                before = store.session[0], await load_lease(store)
                await _kill_leader_among_writes(ensemble, store)
                assert (store.session[0], await load_lease(store)) == before
                await asyncio.to_thread(publisher.more)
            finally:
                await asyncio.to_thread(publisher.close)
            numbers = await asyncio.to_thread(read_all, broker.service.owner.service_url)
            assert numbers == publisher.acknowledged

    with ZookeeperEnsemble() as ensemble:
        asyncio.run(body(ensemble))


async def _kill_leader_among_writes(ensemble: ZookeeperEnsemble, store: ZookeeperStore) -> None:
    """What was acknowledged is there; a write that was cut off is there or not."""
    acknowledged: list[int] = []
    uncertain: list[int] = []

    async def write(number: int) -> None:
        try:
            await store.put(f"/written/{number}", b"x", expect=ABSENT)
        except StoreUnavailable:
            uncertain.append(number)
        else:
            acknowledged.append(number)

    for number in range(20):
        await write(number)
    killing = asyncio.ensure_future(asyncio.to_thread(ensemble.leader.kill))
    async with asyncio.timeout(LONG_S):
        for number in range(20, 200):
            await write(number)
        await killing
    assert 199 in acknowledged
    found = set(map(int, await store.children("/written")))
    assert set(acknowledged) <= found <= {*acknowledged, *uncertain}


def test_local_and_configuration_stores_may_be_two(tmp_path: Path) -> None:
    local, shared = shared_zookeeper().new_url(), shared_zookeeper().new_url()

    async def body() -> None:
        async with running(tmp_path, local, f"configurationMetadataStoreUrl={shared}"):
            pass
        local_store = await ZookeeperStore.open(local)
        shared_store = await ZookeeperStore.open(shared)
        assert await shared_store.exists("/admin/policies/public/default")
        assert not await local_store.exists("/admin/policies")
        assert await local_store.exists("/magnetar/directories")
        assert not await shared_store.exists("/magnetar")
        await local_store.close()
        await shared_store.close()

    asyncio.run(body())


def test_a_directory_and_metadata_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    server = shared_zookeeper()

    async def fill(server: Server) -> None:
        await asyncio.to_thread(
            lambda: Publisher(server.service.owner.service_url).close()  # at least one message
        )

    async def body() -> None:
        own, shared = tmp_path / "own", tmp_path / "shared"
        async with serving(data=own, port=0, web_port=0, bind="127.0.0.1") as broker:
            await fill(broker)
        with pytest.raises(DataDirectoryRefused, match=r"its metadata in .*metadata\.db"):
            async with running(own, server.new_url()):
                pass
        async with running(shared, server.new_url()) as broker:
            await fill(broker)
        diagnosis = examine_directory(shared)
        assert diagnosis.faults == []
        assert "the metadata is on a store that brokers share" in diagnosis.notes[-1]
        with pytest.raises(DataDirectoryRefused, match="does not know"):
            async with running(shared, server.new_url()):
                pass
        with pytest.raises(DataDirectoryRefused, match="shared store"):
            async with serving(data=shared, port=0, web_port=0, bind="127.0.0.1"):
                pass

    asyncio.run(body())


@pytest.mark.parametrize("url", ["etcd://a:1", "zk://"])
def test_a_store_that_cannot_be_is_refused_by_name(tmp_path: Path, url: str) -> None:
    async def body() -> None:
        with pytest.raises(InvalidConfiguration, match=url):
            async with running(tmp_path, url):
                pass

    asyncio.run(body())


def test_a_missing_server_is_told_at_start(tmp_path: Path) -> None:
    async def body() -> None:
        with pytest.raises(StoreUnavailable, match="No ZooKeeper answers at 127"):
            async with running(
                tmp_path, "zk://127.0.0.1:9", "metadataStoreOperationTimeoutSeconds=1"
            ):
                pass

    asyncio.run(body())


def test_a_home_is_written_once(tmp_path: Path) -> None:
    """A namespace whose home is another directory is not taken, however long that one is away."""
    url = shared_zookeeper().new_url()

    async def body() -> None:
        async with running(tmp_path / "other", url):
            pass
        store = await ZookeeperStore.open(url)
        await store.put(home_path(DEFAULT), b"somewhere else", expect=ABSENT)
        async with running(tmp_path / "data", url) as broker:
            with pytest.raises(pulsar.PulsarException):
                await asyncio.to_thread(_produce_once, broker.service.owner.service_url)
            assert TOPIC not in broker.service.catalog.topics
        await store.close()

    asyncio.run(body())


def _produce_once(url: str) -> None:
    logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    client = pulsar.Client(url, logger=logger, operation_timeout_seconds=2)
    try:
        client.create_producer(TOPIC).send(b"x")
    finally:
        client.close()


def test_the_broker_command_wants_a_shared_store(tmp_path: Path) -> None:
    url = shared_zookeeper().new_url()
    assert os.environ.get("MAGNETAR_DATA") is None
    with Member(arguments=["--metadata", url], set={"clusterName": "north"}) as broker:
        assert ask(broker, "GET", "clusters") == (200, ["north"])
        assert ask(broker, "GET", "brokers/north") == (200, [id_of(broker)])
    alone = Member()
    try:
        with pytest.raises(BrokerFailed, match="--metadata zk://host:port/chroot"):
            alone.start()
    finally:
        alone.close()

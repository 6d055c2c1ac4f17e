"""Which clusters a broker joins, which it sets up, and which it refuses."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping

import pytest

from magnetar.app.joining import check_neighbours, ensure_bookies, find_cluster
from magnetar.app.metadata import Stores
from magnetar.broker.lease import DIRECTORIES
from magnetar.errors import InvalidConfiguration
from magnetar.metadata.backends.memory import MemoryStore, MemoryTree
from magnetar.metadata.store import ABSENT
from magnetar.runtime.clock import SystemClock
from magnetar.runtime.configuration import Configuration

URL = "zk://here:2181"
BOOKIE = "10.0.0.1:3181"
ID = "a1a7eb5d-9a5c-4a07-a11b-e41b249e5d5e"
APACHE = json.dumps({"loadManagerClassName": "org.apache.pulsar.Modular"})
SET_UP = {"/ledgers/INSTANCEID": ID, f"/ledgers/available/{BOOKIE}": ""}


def cookie(instance: str) -> dict[str, str]:
    return {f"/ledgers/cookies/{BOOKIE}": f'5\nbookieHost: "{BOOKIE}"\ninstanceId: "{instance}"\n'}


async def make_store(records: Mapping[str, str]) -> MemoryStore:
    store = MemoryStore(MemoryTree(SystemClock()))
    for path, value in records.items():
        await store.put(path, value.encode(), expect=ABSENT)
    return store


async def list_paths(store: MemoryStore, path: str = "/") -> list[str]:
    found = []
    for name in await store.children(path):
        child = f"{path.rstrip('/')}/{name}"
        found += [child, *await list_paths(store, child)]
    return found


def test_brokers_of_apache_pulsar_that_run_are_named() -> None:
    async def body() -> None:
        brokers = {f"/loadbalance/brokers/b{number}:8080": APACHE for number in (1, 2)}
        with pytest.raises(InvalidConfiguration, match="b1:8080, b2:8080") as refused:
            await check_neighbours(await make_store(brokers), URL)
        assert "stop them first" in refused.value.sentence
        await check_neighbours(await make_store({"/loadbalance/brokers/b:1": "{}"}), URL)

    asyncio.run(body())


def test_a_store_of_brokers_with_files_is_refused() -> None:
    async def body() -> None:
        with pytest.raises(InvalidConfiguration, match="--ledgers files"):
            await check_neighbours(await make_store({f"{DIRECTORIES}/d1": "{}"}), URL)

    asyncio.run(body())


@pytest.mark.parametrize(
    ("clusters", "has_logs", "asked", "name"),
    [
        ((), False, "", "standalone"),
        ((), False, "c1", "c1"),
        (("c1", "global"), True, "", "c1"),
        (("c1",), True, "c1", "c1"),
        (("c1", "c2"), True, "c2", "c2"),
    ],
)
def test_a_broker_finds_the_name_of_its_cluster(
    clusters: tuple[str, ...], has_logs: bool, asked: str, name: str
) -> None:
    async def body() -> None:
        records = {f"/admin/clusters/{each}": "{}" for each in clusters}
        records |= {"/managed-ledgers/t/n/persistent/x": ""} if has_logs else {}
        store = await make_store(records)
        settings = Configuration({"clusterName": asked})
        assert await find_cluster(Stores(store, store), settings, URL) == name

    asyncio.run(body())


@pytest.mark.parametrize(
    ("clusters", "asked", "sentence"),
    [
        (("c1", "c2"), "", "several clusters in zk://here:2181, which has c1, c2"),
        (("c1",), "c9", "no cluster c9 in zk://here:2181, which has c1"),
        ((), "c1", "has lost a part of its data"),
    ],
)
def test_a_cluster_that_is_not_there_is_refused(
    clusters: tuple[str, ...], asked: str, sentence: str
) -> None:
    async def body() -> None:
        records = {f"/admin/clusters/{each}": "{}" for each in clusters}
        store = await make_store({**records, "/managed-ledgers/t/n/persistent/x": ""})
        settings = Configuration({"clusterName": asked})
        with pytest.raises(InvalidConfiguration, match=sentence):
            await find_cluster(Stores(store, store), settings, URL)

    asyncio.run(body())


def test_bookies_of_this_cluster_are_accepted() -> None:
    async def body() -> None:
        await ensure_bookies(await make_store({**SET_UP, **cookie(ID)}), URL)

    asyncio.run(body())


@pytest.mark.parametrize(
    ("records", "sentence"),
    [
        ({"/ledgers/available/readonly": ""}, "has no INSTANCEID"),
        ({"/managed-ledgers/t/n/persistent/x": ""}, "no /ledgers: it has lost a part"),
        ({"/ledgers/INSTANCEID": ID, "/ledgers/available/readonly": ""}, "no bookie is registered"),
        ({**SET_UP, **cookie("another")}, "belongs to the cluster another.*Stop that bookie"),
        (SET_UP, "has no cookie there: ZooKeeper has lost its data"),
    ],
)
def test_a_part_of_a_bookkeeper_is_refused_and_left_as_it_is(
    records: Mapping[str, str], sentence: str
) -> None:
    async def body() -> None:
        store = await make_store(records)
        before = await list_paths(store)
        with pytest.raises(InvalidConfiguration, match=sentence):
            await ensure_bookies(store, URL)
        assert await list_paths(store) == before

    asyncio.run(body())


def test_what_a_bookkeeper_begins_with_is_written_where_there_is_nothing() -> None:
    async def body() -> None:
        store = await make_store({})
        with pytest.raises(InvalidConfiguration, match="no bookie is registered"):
            await ensure_bookies(store, URL)
        identity = await store.get("/ledgers/INSTANCEID")
        assert identity is not None and len(identity.value) == len(ID)
        assert await store.exists("/ledgers/available/readonly")
        with pytest.raises(InvalidConfiguration, match="no bookie is registered"):
            await ensure_bookies(store, URL)
        again = await store.get("/ledgers/INSTANCEID")
        assert again is not None and again.value == identity.value

    asyncio.run(body())

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping

import pytest

from magnetar.app.neighbour import check_unshared, is_apache_registration
from magnetar.broker.lease import DIRECTORIES
from magnetar.errors import InvalidConfiguration
from magnetar.metadata.backends.memory import MemoryStore, MemoryTree
from magnetar.metadata.store import ABSENT
from magnetar.runtime.clock import SystemClock

URL = "zk://here:2181"
BROKER = "/loadbalance/brokers/127.0.0.1:28080"
MODULAR = "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl"
APACHE = {
    "brokerId": "127.0.0.1:28080",
    "pulsarServiceUrl": "pulsar://127.0.0.1:26650",
    "loadManagerClassName": MODULAR,
    "loadReportType": "LocalBrokerData",
}
OWN = {"brokerId": "127.0.0.1:28080", "pulsarServiceUrl": "pulsar://127.0.0.1:26650"}


def check(records: Mapping[str, object]) -> None:
    async def body() -> None:
        store = MemoryStore(MemoryTree(SystemClock()))
        for path, value in records.items():
            await store.put(path, json.dumps(value).encode(), expect=ABSENT)
        await check_unshared(store, URL)

    asyncio.run(body())


@pytest.mark.parametrize(
    "records",
    [
        {BROKER: APACHE},
        {BROKER: APACHE, f"{DIRECTORIES}/d1": {}},
        {"/namespace/acme/shop/0x00000000_0x40000000": {"brokerId": "127.0.0.1:28080"}},
        {"/loadbalance/broker-time-average/127.0.0.1:28080": {}},
        {"/loadbalance/bundle-data/acme/shop/0x00000000_0x40000000": {}},
        {"/managed-ledgers/acme/shop/persistent/orders": {}},
        {"/ledgers/INSTANCEID": {}},
    ],
)
def test_a_store_of_apache_pulsar_is_refused_with_the_path_and_what_to_do(
    records: Mapping[str, object],
) -> None:
    with pytest.raises(InvalidConfiguration, match="chroot of its own") as refused:
        check(records)
    assert URL in refused.value.sentence
    path = next(iter(records))
    found = [word.strip(".,:") for word in refused.value.sentence.split()]
    assert any(path.startswith(word) for word in found if word.startswith("/"))


@pytest.mark.parametrize(
    "records",
    [
        {},
        {"/admin/clusters/c1": {}, "/admin/policies/acme": {}},
        {BROKER: OWN},
        {BROKER: OWN, f"{DIRECTORIES}/d1": {}, "/managed-ledgers/a/b/persistent/c": {}},
        {f"{DIRECTORIES}/d1": {}, "/namespace/acme/shop/0x00000000_0xffffffff": {"term": 7}},
    ],
)
def test_an_empty_store_and_one_of_our_own_are_taken(records: Mapping[str, object]) -> None:
    check(records)


@pytest.mark.parametrize("value", [b"", b"[]", b"nonsense", b'{"brokerId": 1}'])
def test_what_cannot_be_read_is_no_sign(value: bytes) -> None:
    assert not is_apache_registration(value)

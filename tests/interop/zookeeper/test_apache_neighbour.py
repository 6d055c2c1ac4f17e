"""A ZooKeeper on which brokers of Apache Pulsar run, or ran."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from kazoo.client import KazooClient

from magnetar.app.standalone import serving
from magnetar.errors import InvalidConfiguration
from magnetar.testing.zookeeper import shared_zookeeper

# As brokers of 5.0.0-M1 write them, the registration without its measurements.
REGISTRATION: Final = (
    b'{"brokerId":"127.0.0.1:28080","webServiceUrl":"http://127.0.0.1:28080","pulsarServiceUrl":'
    b'"pulsar://127.0.0.1:26650","persistentTopicsEnabled":true,"nonPersistentTopicsEnabled":true,'
    b'"brokerVersionString":"5.0.0-M1","protocols":{},"loadManagerClassName":'
    b'"org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl","loadReportType":'
    b'"LocalBrokerData"}'
)
OWNER: Final = (
    b'{"brokerId":"127.0.0.1:28080","nativeUrl":"pulsar://127.0.0.1:26650","httpUrl":'
    b'"http://127.0.0.1:28080","disabled":false}'
)
BROKER: Final = "/loadbalance/brokers/127.0.0.1:28080"


@pytest.fixture
def apache() -> Iterator[tuple[str, Any]]:
    """The address of a chroot, and a session of somebody else in it."""
    url = shared_zookeeper().new_url()
    session = KazooClient(url.removeprefix("zk://").partition("/")[0])
    session.start()
    session.chroot = "/" + url.removeprefix("zk://").partition("/")[2]
    session.ensure_path("/")
    yield url, session
    session.stop()
    session.close()


def start(url: str, data: Path) -> None:
    async def body() -> None:
        chosen = [f"metadataStoreUrl={url}"]
        async with serving(data=data, port=0, web_port=0, bind="127.0.0.1", overrides=chosen):
            pass

    asyncio.run(body())


def test_a_broker_does_not_start_beside_one_of_apache_pulsar_and_writes_nothing(
    apache: tuple[str, Any], tmp_path: Path
) -> None:
    url, session = apache
    session.create(BROKER, REGISTRATION, ephemeral=True, makepath=True)
    session.create(
        "/namespace/acme/shop/0x00000000_0x40000000", OWNER, ephemeral=True, makepath=True
    )
    with pytest.raises(InvalidConfiguration, match=BROKER):
        start(url, tmp_path / "data")
    assert sorted(session.get_children("/")) == ["loadbalance", "namespace"]
    session.delete(BROKER)  # the broker has gone, its bundles have not
    with pytest.raises(InvalidConfiguration, match="/namespace/acme"):
        start(url, tmp_path / "data")
    start(f"{url}/magnetar", tmp_path / "data")  # what the refusal proposes


def test_a_broker_that_was_there_first_does_not_start_while_one_of_apache_pulsar_runs(
    apache: tuple[str, Any], tmp_path: Path
) -> None:
    url, session = apache
    start(url, tmp_path / "data")
    session.create(BROKER, REGISTRATION, ephemeral=True, makepath=True)
    with pytest.raises(InvalidConfiguration, match=BROKER):
        start(url, tmp_path / "data")
    session.delete(BROKER)
    start(url, tmp_path / "data")

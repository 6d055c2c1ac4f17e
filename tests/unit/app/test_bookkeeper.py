from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from magnetar.app.bookkeeper import open_bookkeeper, parse_service_uri, plan_policy
from magnetar.errors import InvalidConfiguration
from magnetar.ledger.store import Replication
from magnetar.metadata.backends.memory import MemoryStore, MemoryTree
from magnetar.runtime.clock import SYSTEM
from magnetar.runtime.configuration import Configuration
from magnetar.wire.bookkeeper import DigestType


def configure(*overrides: str) -> Configuration:
    return Configuration.load(None, overrides, standalone=False)


@pytest.mark.parametrize(
    ("uri", "hosts", "root"),
    [
        ("zk+hierarchical://a:2181;b:2181/ledgers", "a:2181,b:2181", "/ledgers"),
        ("zk+null://a:2181/prod/ledgers/", "a:2181", "/prod/ledgers"),
        ("zk://a:2181/ledgers", "a:2181", "/ledgers"),
        ("metadata-store:zk:a:2181,b:2181", "a:2181,b:2181", "/ledgers"),
        ("metadata-store:zk:a:2181/chroot", "a:2181", "/chroot/ledgers"),
    ],
)
def test_the_uris_of_bookkeeper_and_pulsar_are_read(uri: str, hosts: str, root: str) -> None:
    assert parse_service_uri(uri) == (hosts, root)


@pytest.mark.parametrize("uri", ["etcd://a:2379/ledgers", "zk+hierarchical://a:2181", "a:2181"])
def test_other_uris_are_refused(uri: str) -> None:
    with pytest.raises(InvalidConfiguration, match="bookkeeperMetadataServiceUri"):
        parse_service_uri(uri)


def test_the_policy_follows_the_configuration() -> None:
    assert plan_policy(configure()).replication == Replication(2, 2, 2)
    policy = plan_policy(
        configure(
            "managedLedgerDefaultEnsembleSize=5",
            "managedLedgerDefaultWriteQuorum=3",
            "managedLedgerDigestType=MAC",
            "managedLedgerPassword=secret",
            "bookkeeperClientTimeoutInSeconds=7",
            "bookkeeperClientSpeculativeReadTimeoutInMillis=250",
            "bookkeeperClientRackawarePolicyEnabled=false",
            "maxMessageSize=1000",
        )
    )
    assert policy.replication == Replication(5, 3, 2)
    assert (policy.digest, policy.password) == (DigestType.HMAC, b"secret")
    assert (policy.timeout_s, policy.speculative_read_s, policy.min_racks) == (7, 0.25, 1)
    assert policy.frame_bytes_max == 1000 + 10 * 1024
    assert policy.tls is None


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ("managedLedgerDefaultAckQuorum=3", "does not hold"),
        ("bookkeeperTLSTrustCertsFilePath=/nowhere.pem", "/nowhere.pem"),
        ("bookkeeperTLSClientAuthentication=true", "needs bookkeeperTLSCertificateFilePath"),
    ],
)
def test_a_configuration_that_cannot_be_is_refused_by_name(setting: str, named: str) -> None:
    with pytest.raises(InvalidConfiguration, match=named):
        plan_policy(configure(setting))


def test_metadata_in_a_file_has_no_bookies() -> None:
    async def body() -> None:
        store = MemoryStore(MemoryTree(SYSTEM))
        async with AsyncExitStack() as stack:
            await open_bookkeeper(stack, configure(), store, SYSTEM)

    with pytest.raises(InvalidConfiguration, match="metadataStoreUrl=zk"):
        asyncio.run(body())

"""Ledgers on a bookie that speaks TLS, and asks clients for a certificate."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from magnetar.app.bookkeeper import plan_policy
from magnetar.errors import NotEnoughBookies
from magnetar.ledger.store import Replication
from magnetar.runtime.configuration import Configuration
from magnetar.testing.bookkeeper import Bookie, BookieCluster
from tests.authority import Authority
from tests.contract.bookkeeper_place import bookkeeper_store
from tests.interop import java_client
from tests.unit.ledger.file_place import ONE, append, numbered, read_all

ONE_COPY = Replication(1, 1, 1)


class TlsBookie(Bookie):
    """Needs a library for PEM files that other bookies do without; Pulsar's clients have it."""

    def class_path(self) -> str:
        [library] = [
            each for each in java_client.class_path().split(os.pathsep) if "bcprov" in each
        ]
        return f"{super().class_path()}{os.pathsep}{library}"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def configure(authority: Authority, *overrides: str) -> Configuration:
    certificate, key = authority.issue("broker")
    settings = (
        f"bookkeeperTLSTrustCertsFilePath={authority.certificate}",
        f"bookkeeperTLSCertificateFilePath={certificate}",
        f"bookkeeperTLSKeyFilePath={key}",
        "bookkeeperTLSClientAuthentication=true",
        "bookkeeperClientTimeoutInSeconds=5",
    )
    return Configuration.load(None, (*settings, *overrides), standalone=False)


def test_entries_go_over_tls_to_a_bookie_that_asks_for_a_certificate(
    authority: Authority, tmp_path: Path
) -> None:
    certificate, key = authority.issue("bookie", host="localhost")
    settings = {
        "tlsProviderFactoryClass": "org.apache.bookkeeper.tls.TLSContextFactory",
        "tlsProvider": "JDK",
        "tlsClientAuthentication": True,
        "tlsKeyStoreType": "PEM",
        "tlsKeyStore": str(key),
        "tlsCertificatePath": str(certificate),
        "tlsTrustStoreType": "PEM",
        "tlsTrustStore": str(authority.certificate),
    }
    stranger = Authority(tmp_path, "stranger")

    async def body(cluster: BookieCluster) -> None:
        trusted = plan_policy(configure(authority))
        async with bookkeeper_store(cluster, trusted) as store:
            writer = await store.create(term=ONE, properties={}, replication=ONE_COPY)
            await append(writer, numbered(500))
            await writer.seal()
            assert await read_all(store, writer.id) == numbered(500)
        named = plan_policy(configure(authority, "bookkeeper_tlsHostnameVerificationEnabled=true"))
        for refused in (plan_policy(configure(stranger)), named):
            async with bookkeeper_store(cluster, refused, connect_timeout_s=2.0) as store:
                writer = await store.create(term=ONE, properties={}, replication=ONE_COPY)
                with pytest.raises(NotEnoughBookies):
                    await append(writer, [b"secret"])

    with (
        BookieCluster(0) as cluster,
        TlsBookie(cluster.zookeeper, home=tmp_path / "bookie", settings=settings),
    ):
        asyncio.run(body(cluster))


def test_a_bookie_that_offers_no_tls_gets_nothing(
    bookies: BookieCluster, authority: Authority
) -> None:
    async def body() -> None:
        async with bookkeeper_store(bookies, plan_policy(configure(authority))) as store:
            writer = await store.create(term=ONE, properties={}, replication=ONE_COPY)
            with pytest.raises(NotEnoughBookies, match="does not offer TLS"):
                await append(writer, [b"secret"])

    asyncio.run(body())

"""Ledgers on Apache BookKeeper, as the configuration says."""

from __future__ import annotations

import re
import ssl
from contextlib import AsyncExitStack
from typing import Final, TypeVar

from magnetar.app.metadata import open_zookeeper
from magnetar.errors import InvalidConfiguration
from magnetar.ledger.backends.bookkeeper import BookkeeperLedgerStore, BookkeeperPolicy
from magnetar.ledger.store import Replication
from magnetar.metadata.store import MetadataStore
from magnetar.model.bookie import LEDGERS
from magnetar.runtime.clock import Clock
from magnetar.runtime.configuration import Configuration
from magnetar.wire.bookkeeper import DigestType

_FRAME_OVERHEAD: Final = 10 * 1024
"""What Pulsar adds to the largest message for the largest frame of a bookie."""
_PLAIN_URI: Final = re.compile(r"zk(?:\+\w+)?://([^/]+)(/.+)")
_PULSAR_URI: Final = re.compile(r"(?:metadata-store:)?zk:(?://)?([^/]+)(/.*)?")


Ledgers = TypeVar("Ledgers", bound=BookkeeperLedgerStore)


async def open_bookkeeper(
    stack: AsyncExitStack,
    settings: Configuration,
    store: MetadataStore,
    clock: Clock,
) -> BookkeeperLedgerStore:
    """As `open_bookkeeper_as`, for a broker."""
    return await open_bookkeeper_as(BookkeeperLedgerStore, stack, settings, store, clock)


async def open_bookkeeper_as(
    kind: type[Ledgers],
    stack: AsyncExitStack,
    settings: Configuration,
    store: MetadataStore,
    clock: Clock,
) -> Ledgers:
    """The ledgers on the bookies that are registered in the cluster's ZooKeeper, or where
    bookkeeperMetadataServiceUri says; closed with the stack.

    Raise InvalidConfiguration when there is no BookKeeper.
    """
    from magnetar.metadata.backends.zookeeper import ZookeeperStore

    uri = settings.bookkeeperMetadataServiceUri
    root, racks = LEDGERS, store
    if uri:
        hosts, root = parse_service_uri(uri)
        store = await open_zookeeper(stack, settings, f"zk://{hosts}", clock)
    if not isinstance(store, ZookeeperStore):
        raise InvalidConfiguration(
            "ledgers on BookKeeper need the ZooKeeper that its bookies are registered in: set"
            " metadataStoreUrl=zk://host:port/chroot"
        )
    policy = plan_policy(settings)
    ledgers = kind(store, store.take_number, clock=clock, policy=policy, root=root, racks=racks)
    stack.push_async_callback(ledgers.close)
    await ledgers.open()
    return ledgers


def parse_service_uri(uri: str) -> tuple[str, str]:
    """The servers of ZooKeeper, and the path of the ledgers there."""
    plain = _PLAIN_URI.fullmatch(uri)
    if plain is not None:
        return plain.group(1).replace(";", ","), plain.group(2).rstrip("/")
    pulsar = _PULSAR_URI.fullmatch(uri)
    if pulsar is not None:
        return pulsar.group(1).replace(";", ","), (pulsar.group(2) or "").rstrip("/") + LEDGERS
    raise InvalidConfiguration(
        f"bookkeeperMetadataServiceUri: {uri!r} is neither of the form"
        " zk+hierarchical://host:port/ledgers nor metadata-store:zk:host:port/chroot"
    )


def plan_policy(settings: Configuration) -> BookkeeperPolicy:
    ack = settings.managedLedgerDefaultAckQuorum
    write = settings.managedLedgerDefaultWriteQuorum
    ensemble = settings.managedLedgerDefaultEnsembleSize
    if not ensemble >= write >= ack:
        raise InvalidConfiguration(
            f"managedLedgerDefaultEnsembleSize ({ensemble}) >= managedLedgerDefaultWriteQuorum"
            f" ({write}) >= managedLedgerDefaultAckQuorum ({ack}) does not hold"
        )
    digest = settings.managedLedgerDigestType
    return BookkeeperPolicy(
        replication=Replication(ensemble, write, ack),
        digest=DigestType.HMAC if digest == "MAC" else DigestType[digest],
        password=settings.managedLedgerPassword.encode(),
        timeout_s=settings.bookkeeperClientTimeoutInSeconds,
        speculative_read_s=settings.bookkeeperClientSpeculativeReadTimeoutInMillis / 1000,
        explicit_last_s=settings.bookkeeperExplicitLacIntervalInMills / 1000,
        min_racks=settings.bookkeeperClientMinNumRacksPerWriteQuorum
        if settings.bookkeeperClientRackawarePolicyEnabled
        else 1,
        enforce_racks=settings.bookkeeperClientEnforceMinNumRacksPerWriteQuorum,
        frame_bytes_max=settings.maxMessageSize + _FRAME_OVERHEAD,
        tls=_open_tls(settings),
    )


def _open_tls(settings: Configuration) -> ssl.SSLContext | None:
    trust = settings.bookkeeperTLSTrustCertsFilePath
    certificate = settings.bookkeeperTLSCertificateFilePath
    if not trust and not settings.bookkeeperTLSClientAuthentication:
        return None
    try:
        context = ssl.create_default_context(cafile=trust or None)
        context.check_hostname = settings.bookkeeper_tlsHostnameVerificationEnabled
        if certificate:
            # An encrypted key would ask at a terminal that a server does not have.
            context.load_cert_chain(
                certificate, settings.bookkeeperTLSKeyFilePath or None, password=lambda: ""
            )
    except OSError as error:
        raise InvalidConfiguration(
            f"bookkeeperTLSTrustCertsFilePath {trust!r}, bookkeeperTLSCertificateFilePath"
            f" {certificate!r}: {error}"
        ) from None
    if settings.bookkeeperTLSClientAuthentication and not certificate:
        raise InvalidConfiguration(
            "bookkeeperTLSClientAuthentication needs bookkeeperTLSCertificateFilePath"
        )
    return context

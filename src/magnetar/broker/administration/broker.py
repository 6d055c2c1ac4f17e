"""The brokers themselves: health, configuration, what they carry."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from magnetar import __version__
from magnetar.broker.administration.bundle import boundaries_of
from magnetar.broker.administration.port import BundleMoves, BundleOwners, HealthOwners, LoadOwners
from magnetar.broker.administration.registry import Note, carries_out
from magnetar.broker.broker_directory import BROKERS, LEADER
from magnetar.broker.bundle_mover import BundleMover
from magnetar.broker.catalog import AnyTopic, TopicCatalog
from magnetar.broker.exposition import topic_samples
from magnetar.broker.health_check import check_health
from magnetar.broker.ownership import Owner
from magnetar.broker.stats import topic_stats
from magnetar.broker.stored_configuration import StoredConfiguration
from magnetar.broker.upkeep import Upkeep
from magnetar.errors import NotFound, PreconditionFailed, RecordUnreadable, ServiceNotReady
from magnetar.ledger.store import CopiesRecords, LedgerStore
from magnetar.metadata.store import MetadataStore
from magnetar.model.answer.broker import (
    LedgerFiles,
    LedgerRecords,
    LoadReport,
    MetricSums,
    OwnedBundle,
)
from magnetar.model.answer.topic import TopicStats
from magnetar.model.bookie import LEDGERS
from magnetar.model.document import decode_json
from magnetar.model.position import LedgerId
from magnetar.rules.bundle import bundle_of
from magnetar.runtime.configuration import Configuration, dynamic_names
from magnetar.runtime.key import Use, find_key
from magnetar.runtime.spelling import canonical_name

_OWNED: Final[OwnedBundle] = {
    "broker_assignment": "shared",
    "is_controlled": False,
    "is_active": True,
}
_SUMMED: Final = {
    "brk_in_rate": "pulsar_rate_in",
    "brk_in_tp_rate": "pulsar_throughput_in",
    "brk_out_rate": "pulsar_rate_out",
    "brk_out_tp_rate": "pulsar_throughput_out",
    "brk_storage_size": "pulsar_storage_size",
    "brk_storage_backlog_size": "pulsar_storage_backlog_size",
    "brk_no_of_producers": "pulsar_producers_count",
    "brk_no_of_subscriptions": "pulsar_subscriptions_count",
    "brk_no_of_consumers": "pulsar_consumers_count",
    "brk_msg_backlog": "pulsar_msg_backlog",
}
"""Under the names of the samples that Prometheus gets."""


@carries_out("brokers.list")
async def list_brokers(owner: Owner, store: MetadataStore, cluster: str = "") -> Sequence[str]:
    """This broker, and those that registered in the store it shares with them."""
    return sorted({owner.broker_id, *await store.children(BROKERS)})


@carries_out("brokers.leader")
async def get_leader(owner: Owner, store: MetadataStore) -> Mapping[str, str]:
    record = await store.get(LEADER)
    if record is None:
        return {"serviceUrl": owner.web_url, "brokerId": owner.broker_id}
    try:
        return decode_json(record.value, dict[str, str])
    except msgspec.DecodeError as error:
        raise RecordUnreadable(f"{LEADER}: {error}") from None


@carries_out("brokers.ledger_files")
async def get_ledger_files(ledgers: LedgerStore) -> LedgerFiles:
    """Readers on the same machine find the same directory, by its numbers, or it is another one."""
    directory = ledgers.directory
    if directory is None:
        raise NotFound("The ledgers of this broker are not in files")
    place = directory.resolve()
    status = place.stat()
    return {"directory": str(place), "device": status.st_dev, "inode": status.st_ino}


class LedgerQuery(Struct, frozen=True):
    ledgers: Annotated[tuple[int, ...], Meta(max_length=10_000)] = ()


@carries_out("brokers.ledger_records")
async def get_ledger_records(
    ledgers: LedgerStore, config: Configuration, query: LedgerQuery
) -> LedgerRecords:
    """A copy of what a reader needs to find entries at bookies; those that are gone are missing."""
    if not isinstance(ledgers, CopiesRecords):
        raise NotFound("The ledgers of this broker are not on bookies")
    if config.bookkeeperTLSClientAuthentication:
        raise NotFound("The bookies ask readers for certificates, which only brokers have")
    found = await ledgers.copy_records([LedgerId(each) for each in query.ledgers])
    return {"records": {path: b64encode(value).decode() for path, value in found.items()}}


@carries_out("brokers.version")
async def get_version() -> str:
    return __version__


@carries_out("brokers.is_ready")
async def check_ready(ledgers: LedgerStore) -> str:
    if ledgers.trouble is not None:
        raise ServiceNotReady(ledgers.trouble)
    return "ok"


@carries_out("brokers.health")
async def check_broker(owners: HealthOwners, broker_id: str | None) -> str:
    if broker_id not in (None, "", owners.broker_id):
        raise NotFound(f"There is no broker {broker_id}")
    if owners.closing:
        raise ServiceNotReady("The broker is closing")
    await check_health(owners.catalog, owners.broker_id, owners.clock)
    return "ok"


# Configuration
@carries_out("brokers.dynamic_keys")
async def list_dynamic() -> Sequence[str]:
    return dynamic_names()


@carries_out("brokers.dynamic_values")
async def get_dynamic(stored_configuration: StoredConfiguration) -> Mapping[str, str]:
    return await stored_configuration.values()


@carries_out("brokers.set_dynamic")
async def set_dynamic(
    stored_configuration: StoredConfiguration, key: str, value: str
) -> Note | None:
    key = canonical_name(key)
    if key not in dynamic_names():
        raise PreconditionFailed("Can't update non-dynamic configuration")
    await stored_configuration.set(key, value)
    found = find_key(key)
    return None if found.use is Use.ACTING else Note(f"{key} has no effect: {found.meaning}")


@carries_out("brokers.delete_dynamic")
async def delete_dynamic(stored_configuration: StoredConfiguration, key: str) -> None:
    key = canonical_name(key)
    if key not in dynamic_names():
        raise PreconditionFailed("Can't delete non-dynamic configuration")
    await stored_configuration.remove(key)


@carries_out("brokers.runtime_configuration")
async def get_runtime_values(config: Configuration) -> Mapping[str, str]:
    return config.format_values()


@carries_out("brokers.internal_configuration")
async def get_internal_configuration(config: Configuration) -> Mapping[str, str]:
    local = config.metadataStoreUrl
    shared = config.configurationMetadataStoreUrl or local
    return {
        "zookeeperServers": local,
        "configurationStoreServers": shared,
        "metadataStoreUrl": local,
        "configurationMetadataStoreUrl": shared,
        "ledgersRootPath": LEDGERS,
    }


# What is carried
@carries_out("brokers.namespaces")
async def get_owned(owners: BundleMoves, cluster: str, broker: str) -> dict[str, OwnedBundle]:
    if owners.bundles is not None:
        return dict.fromkeys(await _list_owned(owners.owner, owners.bundles, broker), _OWNED)
    if broker != owners.broker_id:
        raise NotFound(f"Broker id '{broker}' not found in available brokers.")
    return {f"{topic.name.namespace}/{bundle}": _OWNED for topic, bundle in await _loaded(owners)}


async def _list_owned(owner: Owner, bundles: BundleMover | None, broker: str) -> Sequence[str]:
    """The bundles of a broker, whether anything is loaded of them or not; of another one those
    that it reported.
    """
    assert bundles is not None, "the caller looked"
    ownership = bundles.ownership
    if broker == owner.broker_id:
        return sorted(map(str, ownership.bundles))
    report = (await ownership.directory.reports()).get(broker)
    if report is None:
        raise NotFound(f"Broker id '{broker}' not found in available brokers.")
    return sorted(report.bundles)


@carries_out("brokers.check_backlog_quota")
async def check_backlog_quota(upkeep: Upkeep) -> None:
    await upkeep.check_backlog_quotas()


@carries_out("brokers.topic_stats")
async def get_topic_stats(
    owners: BundleOwners,
) -> Mapping[str, dict[str, dict[str, dict[str, TopicStats]]]]:
    stats: dict[str, dict[str, dict[str, dict[str, TopicStats]]]] = {}
    for topic, bundle in await _loaded(owners):
        domains = stats.setdefault(str(topic.name.namespace), {}).setdefault(bundle, {})
        domains.setdefault(topic.name.domain.value, {})[topic.name.full] = topic_stats(topic)
    return stats


async def _loaded(owners: BundleOwners) -> Sequence[tuple[AnyTopic, str]]:
    """The loaded topics of namespaces that exist, each with its bundle."""
    found = []
    for topic in list(owners.catalog.topics.values()):
        namespace = topic.name.namespace
        if await owners.resources.namespaces.get(namespace) is not None:
            boundaries = await boundaries_of(owners, namespace)
            found.append((topic, bundle_of(topic.name, boundaries)))
    return found


@carries_out("brokers.metrics")
async def get_metrics(catalog: TopicCatalog) -> Sequence[MetricSums]:
    sums: dict[str, dict[str, float]] = {}
    for topic in list(catalog.topics.values()):
        samples = dict(topic_samples(topic_stats(topic)))
        total = sums.setdefault(str(topic.name.namespace), dict.fromkeys(_SUMMED, 0.0))
        for name, sample in _SUMMED.items():
            total[name] += samples[sample]
    return [{"metrics": total, "dimensions": {"namespace": name}} for name, total in sums.items()]


@carries_out("brokers.load_report")
async def get_load_report(owners: LoadOwners) -> LoadReport:
    totals = [each["metrics"] for each in await get_metrics(owners.catalog)]

    def total(name: str) -> float:
        return sum(each[name] for each in totals)

    return {
        "brokerId": owners.broker_id,
        "webServiceUrl": owners.owner.web_url,
        "webServiceUrlTls": owners.owner.web_url_tls or None,
        "pulsarServiceUrl": owners.owner.service_url,
        "pulsarServiceUrlTls": owners.owner.service_url_tls or None,
        "brokerVersionString": __version__,
        "loadReportType": "LocalBrokerData",
        "startTimestamp": owners.started_ms,
        "lastUpdate": owners.clock.now_ms(),
        "persistentTopicsEnabled": owners.config.enablePersistentTopics,
        "nonPersistentTopicsEnabled": owners.config.enableNonPersistentTopics,
        "protocols": {},
        "bundles": sorted(await get_owned(owners, owners.cluster, owners.broker_id)),
        "numTopics": len(owners.catalog.topics),
        "numProducers": int(total("brk_no_of_producers")),
        "numConsumers": int(total("brk_no_of_consumers")),
        "msgRateIn": total("brk_in_rate"),
        "msgRateOut": total("brk_out_rate"),
        "msgThroughputIn": total("brk_in_tp_rate"),
        "msgThroughputOut": total("brk_out_tp_rate"),
    }

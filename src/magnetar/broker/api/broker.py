"""The brokers themselves: health, configuration, what they carry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from magnetar.broker.api.bundle import BundleApi
from magnetar.broker.api.hash_range import bundle_of
from magnetar.broker.exposition import render_metrics
from magnetar.broker.heartbeat import check_health
from magnetar.broker.upkeep import Upkeep
from magnetar.errors import (
    NotFound,
    PreconditionFailed,
    RecordUnreadable,
    ServiceNotReady,
    VersionConflict,
)
from magnetar.metadata.settle import Settler
from magnetar.metadata.store import ABSENT
from magnetar.runtime.configuration import dynamic_names
from magnetar.runtime.log import Log
from magnetar.runtime.spelling import canonical_name

if TYPE_CHECKING:
    from magnetar.broker.service import Service

DYNAMIC_PATH: Final = "/admin/configuration"
BROKERS: Final = "/loadbalance/brokers"
LEADER: Final = "/loadbalance/leader"
_SUMMED: Final = {
    "brk_in_rate": "msgRateIn",
    "brk_in_tp_rate": "msgThroughputIn",
    "brk_out_rate": "msgRateOut",
    "brk_out_tp_rate": "msgThroughputOut",
    "brk_storage_size": "storageSize",
    "brk_storage_backlog_size": "backlogSize",
}

_log = Log(__name__)


class BrokerSelfApi:
    def __init__(self, service: Service, bundles: BundleApi) -> None:
        self._service = service
        self._bundles = bundles
        self._applied: set[str] = set()
        """Keys whose values came from the store."""
        self._settler = Settler(service.tasks, "configuration", self._follow)

    @property
    def version(self) -> str:
        return self._service.version

    @property
    def is_closing(self) -> bool:
        return self._service.closing

    @property
    def broker_id(self) -> str:
        return self._service.broker_id

    async def list(self) -> Sequence[str]:
        """This broker, and those that registered in the store it shares with them."""
        registered = await self._service.store.children(BROKERS)
        return sorted({self._service.broker_id, *registered})

    async def leader(self) -> Mapping[str, str]:
        record = await self._service.store.get(LEADER)
        if record is None:
            return {"serviceUrl": self._service.web_url, "brokerId": self._service.broker_id}
        try:
            return msgspec.json.decode(record.value, type=dict[str, str])
        except msgspec.DecodeError as error:
            raise RecordUnreadable(f"{LEADER}: {error}") from None

    def ledger_files(self) -> Mapping[str, Any]:
        """Where this broker's ledgers lie, for readers on the same machine: they find the same
        directory, by its numbers, or it is another one.
        """
        directory = self._service.ledgers.directory
        if directory is None:
            raise NotFound("The ledgers of this broker are not in files")
        place = directory.resolve()
        status = place.stat()
        return {"directory": str(place), "device": status.st_dev, "inode": status.st_ino}

    def check_ready(self) -> None:
        """Raise ServiceNotReady while messages are not taken."""
        if self._service.ledgers.trouble is not None:
            raise ServiceNotReady(self._service.ledgers.trouble)

    async def check_health(self, broker_id: str | None = None) -> None:
        if broker_id not in (None, "", self._service.broker_id):
            raise NotFound(f"There is no broker {broker_id}")
        if self._service.closing:
            raise ServiceNotReady("The broker is closing")
        await check_health(self._service)

    async def render_metrics(self) -> str:
        return await render_metrics(self._service)

    # Configuration
    def dynamic_names(self) -> Sequence[str]:
        return dynamic_names()

    async def dynamic_values(self) -> Mapping[str, str]:
        return (await self._load_dynamic())[0]

    def runtime_values(self) -> Mapping[str, str]:
        return self._service.config.format_values()

    def internal_configuration(self) -> Mapping[str, str]:
        config = self._service.config
        local = config.metadataStoreUrl
        shared = config.configurationMetadataStoreUrl or local
        return {
            "zookeeperServers": local,
            "configurationStoreServers": shared,
            "metadataStoreUrl": local,
            "configurationMetadataStoreUrl": shared,
            "ledgersRootPath": "/ledgers",
        }

    async def update_dynamic(self, key: str, value: str) -> None:
        """Keep the value for all brokers; one that does not fit is kept but not applied."""
        key = canonical_name(key)
        if key not in dynamic_names():
            raise PreconditionFailed("Can't update non-dynamic configuration")
        await self._store_dynamic(key, value)
        self._apply(key, value)
        await self._service.revocation.settle()

    async def delete_dynamic(self, key: str) -> None:
        key = canonical_name(key)
        if key not in dynamic_names():
            raise PreconditionFailed("Can't delete non-dynamic configuration")
        await self._store_dynamic(key, None)
        self._service.config.reset_dynamic(key)
        await self._service.revocation.settle()

    async def apply_stored_configuration(self) -> None:
        """Now, and again whenever a broker that shares the store changes it."""
        store = self._service.store
        store.watch(DYNAMIC_PATH, lambda _: self._on_stored())
        store.watch_session(lambda _: self._on_stored())
        await self._apply_stored()

    def _on_stored(self) -> None:
        if not self._service.closing:
            self._settler.request()

    async def _follow(self) -> None:
        try:
            await self._apply_stored()
        except RecordUnreadable as error:
            _log.error("configuration stays as it was", error=error)

    async def _apply_stored(self) -> None:
        values = await self.dynamic_values()
        for key in self._applied - values.keys():
            self._applied.discard(key)
            self._service.config.reset_dynamic(key)
        for key, value in values.items():
            self._apply(key, value)

    def _apply(self, key: str, value: str) -> None:
        try:
            self._service.config.update_dynamic(key, value)
            self._applied.add(key)
        except PreconditionFailed as refusal:
            _log.warning("configuration value not applied", key=key, reason=refusal.sentence)

    async def _load_dynamic(self) -> tuple[dict[str, str], int]:
        record = await self._service.store.get(DYNAMIC_PATH)
        if record is None or not record.value:
            return {}, ABSENT if record is None else record.stat.version
        try:
            values = msgspec.json.decode(record.value, type=dict[str, str])
        except msgspec.DecodeError as error:
            raise RecordUnreadable(f"{DYNAMIC_PATH}: {error}") from None
        return values, record.stat.version

    async def _store_dynamic(self, key: str, value: str | None) -> None:
        while True:
            values, version = await self._load_dynamic()
            values.pop(key, None)
            if value is not None:
                values[key] = value
            try:
                encoded = msgspec.json.encode(values)
                await self._service.store.put(DYNAMIC_PATH, encoded, expect=version)
            except VersionConflict:
                continue
            return

    # What is carried
    async def owned_namespaces(self, broker_id: str) -> Mapping[str, Any]:
        if broker_id != self._service.broker_id:
            raise NotFound(f"Broker id '{broker_id}' not found in available brokers.")
        owned = {}
        for namespace in {topic.name.namespace for topic in self._service.topics.values()}:
            if await self._service.resources.namespaces.get(namespace) is None:
                continue
            boundaries = await self._bundles.boundaries(namespace)
            for topic in list(self._service.topics.values()):
                if topic.name.namespace == namespace:
                    bundle = bundle_of(topic.name, boundaries)
                    owned[f"{namespace}/{bundle}"] = {
                        "broker_assignment": "shared",
                        "is_controlled": False,
                        "is_active": True,
                    }
        return owned

    async def check_backlog_quota(self) -> None:
        await Upkeep(self._service).check_backlog_quotas()

    async def topic_stats(self) -> Mapping[str, Any]:
        """By namespace, bundle and domain."""
        told: dict[str, dict[str, dict[str, dict[str, Any]]]] = {}
        for topic in list(self._service.topics.values()):
            namespace = topic.name.namespace
            if await self._service.resources.namespaces.get(namespace) is None:
                continue
            bundle = bundle_of(topic.name, await self._bundles.boundaries(namespace))
            domains = told.setdefault(str(namespace), {}).setdefault(bundle, {})
            domains.setdefault(topic.name.domain.value, {})[topic.name.full] = topic.stats()
        return told

    def metrics(self) -> Sequence[Mapping[str, Any]]:
        """Sums over the topics of each namespace."""
        sums: dict[str, dict[str, float]] = {}
        for topic in list(self._service.topics.values()):
            stats = topic.stats()
            names = (*_SUMMED, "brk_no_of_producers", "brk_no_of_subscriptions")
            names += ("brk_no_of_consumers", "brk_msg_backlog")
            total = sums.setdefault(str(topic.name.namespace), dict.fromkeys(names, 0.0))
            for name, key in _SUMMED.items():
                total[name] += stats.get(key, 0)
            subscriptions = stats["subscriptions"].values()
            total["brk_no_of_producers"] += len(stats["publishers"])
            total["brk_no_of_subscriptions"] += len(subscriptions)
            total["brk_no_of_consumers"] += sum(len(each["consumers"]) for each in subscriptions)
            total["brk_msg_backlog"] += sum(each.get("msgBacklog", 0) for each in subscriptions)
        return [
            {"metrics": total, "dimensions": {"namespace": name}} for name, total in sums.items()
        ]

    async def load_report(self) -> Mapping[str, Any]:
        totals: list[dict[str, float]] = [each["metrics"] for each in self.metrics()]

        def total(name: str) -> float:
            return sum(each[name] for each in totals)

        service = self._service
        return {
            "brokerId": service.broker_id,
            "webServiceUrl": service.web_url,
            "webServiceUrlTls": service.owner.web_url_tls or None,
            "pulsarServiceUrl": service.service_url,
            "pulsarServiceUrlTls": service.owner.service_url_tls or None,
            "brokerVersionString": service.version,
            "loadReportType": "LocalBrokerData",
            "startTimestamp": service.started_ms,
            "lastUpdate": service.clock.now_ms(),
            "persistentTopicsEnabled": service.config.enablePersistentTopics,
            "nonPersistentTopicsEnabled": service.config.enableNonPersistentTopics,
            "protocols": {},
            "bundles": sorted(await self.owned_namespaces(service.broker_id)),
            "numTopics": len(service.topics),
            "numProducers": int(total("brk_no_of_producers")),
            "numConsumers": int(total("brk_no_of_consumers")),
            "msgRateIn": total("brk_in_rate"),
            "msgRateOut": total("brk_out_rate"),
            "msgThroughputIn": total("brk_in_tp_rate"),
            "msgThroughputOut": total("brk_out_tp_rate"),
        }

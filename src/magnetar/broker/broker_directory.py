"""The brokers of a cluster as their registrations describe them, and which of them leads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from magnetar.broker.bundle_record import INTERNAL
from magnetar.broker.ownership import Owner
from magnetar.broker.resource import document_cache
from magnetar.errors import RecordUnreadable
from magnetar.metadata.election import Election
from magnetar.metadata.store import MetadataStore
from magnetar.model.document import decode_json
from magnetar.model.load import BrokerReport
from magnetar.model.position import Term
from magnetar.model.scalable import BrokerAddress
from magnetar.runtime.clock import Clock
from magnetar.runtime.log import Logger

BROKERS: Final = "/loadbalance/brokers"
LEADER: Final = "/loadbalance/leader"

_log = Logger(__name__)


class LeaderRecord(msgspec.Struct, kw_only=True):
    brokerId: str = ""
    serviceUrl: str = ""


class BrokerDirectory:
    """Reads what the brokers wrote; what was read is remembered until it changes."""

    def __init__(self, store: MetadataStore, election: Election, *, clock: Clock) -> None:
        self._store = store
        self._election = election
        self._cache = document_cache(store, BROKERS, BrokerReport, clock=clock)

    async def reports(self) -> Mapping[str, BrokerReport]:
        """Of all brokers that are registered, by their ids."""
        found = {}
        for broker in await self._store.children(BROKERS):
            try:
                report = await self._cache.get(f"{BROKERS}/{broker}")
            except RecordUnreadable as refusal:
                _log.warning("registration unreadable", broker=broker, reason=refusal.sentence)
                continue
            if report is not None:
                found[broker] = report
        return found

    async def find(self, broker_id: str) -> Owner | None:
        """How a broker is reached; None for one that is not registered."""
        report = await self._cache.get(f"{BROKERS}/{broker_id}")
        return None if report is None else make_peer(broker_id, report)

    @property
    def leader(self) -> str | None:
        """The id of the broker that leads; None while none does."""
        value = self._election.leader_if_known
        if value is None:
            return None
        try:
            return decode_json(value, LeaderRecord).brokerId
        except msgspec.DecodeError:
            return None

    def close(self) -> None:
        self._cache.close()


def make_peer(broker_id: str, report: BrokerReport) -> Owner:
    """A broker as its registration describes it."""
    address = BrokerAddress(report.pulsarServiceUrl or "", report.pulsarServiceUrlTls or "")
    listeners = {
        name: BrokerAddress(urls.get("brokerServiceUrl", ""), urls.get("brokerServiceUrlTls", ""))
        for name, urls in report.advertisedListeners.items()
    }
    return Owner(
        broker_id=broker_id,
        service_url=address.url,
        web_url=report.webServiceUrl or "",
        term=Term(0),
        is_self=False,
        listeners={INTERNAL: address} | listeners,
        service_url_tls=address.url_tls,
        web_url_tls=report.webServiceUrlTls or "",
    )

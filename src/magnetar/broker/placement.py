"""The choice of an owner for a bundle, from what the brokers report of themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from magnetar.broker.broker_directory import BrokerDirectory
from magnetar.broker.resource import IsolationPolicies
from magnetar.model.load import BrokerReport
from magnetar.model.name import NamespaceName
from magnetar.rules.bundle import Bundle
from magnetar.rules.isolation import find_allowed
from magnetar.rules.placement import choose_broker, choose_for_idle
from magnetar.runtime.clock import Clock

_STICKS_MS: Final = 10_000
"""How long a choice stands for a bundle that still has no owner: brokers and clients that ask in
that time get the same answer."""


class Placement:
    """Remembers what it chose lately, since reports do not show it yet."""

    def __init__(
        self,
        directory: BrokerDirectory,
        isolation: IsolationPolicies,
        cluster: str,
        *,
        clock: Clock,
    ) -> None:
        self._directory = directory
        self._isolation = isolation
        self._cluster = cluster
        self._clock = clock
        self._chosen: dict[Bundle, tuple[str, int]] = {}

    async def choose(self, bundle: Bundle) -> str | None:
        """The broker that should own the bundle; None when none may."""
        reports = await self._directory.reports()
        now_ms = self._clock.now_ms()
        self._forget_old(reports, now_ms)
        known = self._chosen.get(bundle)
        allowed = await self.find_allowed(bundle.namespace, reports)
        if known is not None and known[0] in allowed and known[1] > now_ms - _STICKS_MS:
            return known[0]
        pending = self._count_pending(reports)
        chosen = choose_broker(reports, str(bundle), allowed=allowed, pending=pending)
        if chosen is not None:
            self._chosen[bundle] = (chosen, now_ms)
        return chosen

    async def choose_for_idle(self, bundle: Bundle, owner: str) -> str | None:
        """Where a bundle should move before it gets its first topic; None: it stays."""
        reports = await self._directory.reports()
        allowed = await self.find_allowed(bundle.namespace, reports)
        return choose_for_idle(reports, str(bundle), owner, allowed=allowed)

    async def find_allowed(
        self, namespace: NamespaceName, reports: Mapping[str, BrokerReport]
    ) -> frozenset[str]:
        """The brokers that may own bundles of a namespace."""
        policies = await self._isolation.get(self._cluster) or {}
        return find_allowed(tuple(policies.values()), namespace, reports)

    def _forget_old(self, reports: Mapping[str, BrokerReport], now_ms: int) -> None:
        """Drop what a later report shows, and what went to brokers that left."""
        self._chosen = {
            bundle: (broker, at_ms)
            for bundle, (broker, at_ms) in self._chosen.items()
            if broker in reports
            and (at_ms > now_ms - _STICKS_MS or reports[broker].lastUpdate <= at_ms)
        }

    def _count_pending(self, reports: Mapping[str, BrokerReport]) -> dict[str, int]:
        counts: dict[str, int] = {}
        for bundle, (broker, at_ms) in self._chosen.items():
            report = reports[broker]
            if report.lastUpdate <= at_ms and str(bundle) not in report.bundles:
                counts[broker] = counts.get(broker, 0) + 1
        return counts

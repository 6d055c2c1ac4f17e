"""Which brokers may own the bundles of a namespace, by the isolation policies of the cluster."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

from msgspec import Struct

from magnetar.model.load import BrokerReport
from magnetar.model.name import NamespaceName

_MIN_AVAILABLE: Final = "min_available"
_USAGE_MAX: Final = 80.0


class FailoverPolicy(Struct, frozen=True, kw_only=True):
    """When secondary brokers are taken too: while fewer than `min_limit` primary ones are there
    that use less than `usage_threshold` percent.
    """

    policy_type: str = _MIN_AVAILABLE
    parameters: Mapping[str, str] = {}

    @property
    def min_limit(self) -> int:
        return int(_parse_number(self.parameters.get("min_limit"), 1))

    @property
    def usage_max(self) -> float:
        return _parse_number(self.parameters.get("usage_threshold"), _USAGE_MAX) / 100


class IsolationPolicy(Struct, frozen=True, kw_only=True):
    """Regular expressions for namespaces and for the hosts of brokers, as Pulsar keeps them."""

    namespaces: tuple[str, ...] = ()
    primary: tuple[str, ...] = ()
    secondary: tuple[str, ...] = ()
    auto_failover_policy: FailoverPolicy = FailoverPolicy()


def find_allowed(
    policies: Collection[IsolationPolicy],
    namespace: NamespaceName,
    reports: Mapping[str, BrokerReport],
) -> frozenset[str]:
    """The brokers that may own bundles of a namespace. One that no policy names gets the brokers
    that are not primary for another.
    """
    own = [each for each in policies if _matches(each.namespaces, str(namespace))]
    if not own:
        return frozenset(
            broker
            for broker in reports
            if not any(_matches_broker(each.primary, broker) for each in policies)
        )
    allowed: set[str] = set()
    for policy in own:
        primary = {each for each in reports if _matches_broker(policy.primary, each)}
        failover = policy.auto_failover_policy
        calm = [each for each in primary if reports[each].usage <= failover.usage_max]
        allowed |= primary
        if len(calm) < failover.min_limit:
            allowed |= {each for each in reports if _matches_broker(policy.secondary, each)}
    return frozenset(allowed)


def _matches_broker(patterns: Collection[str], broker: str) -> bool:
    """By its host, as Pulsar does, or by host and port, which tell brokers of one host apart."""
    return _matches(patterns, broker.rpartition(":")[0]) or _matches(patterns, broker)


def _matches(patterns: Collection[str], text: str) -> bool:
    for pattern in patterns:
        try:
            if re.fullmatch(pattern, text):
                return True
        except re.error:
            if pattern == text:
                return True
    return False


def _parse_number(text: str | None, default: float) -> float:
    try:
        return default if text is None else float(text)
    except ValueError:
        return default

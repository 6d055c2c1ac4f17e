"""Which brokers may own the bundles of a namespace, by the isolation policies of the cluster."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from msgspec import Struct

from magnetar.errors import BadRequest
from magnetar.model.load import BrokerReport
from magnetar.model.name import NamespaceName

_MIN_AVAILABLE: Final = "min_available"
_USAGE_MAX: Final = 80.0
_PARAMETERS: Final = ("min_limit", "usage_threshold")
_UNLOAD_SCOPES: Final = ("all_matching", "changed", "none")


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
    unload_scope: str | None = None
    """Which namespaces are placed anew when the policy is set: `changed` (the default),
    `all_matching` or `none`.
    """


class IsolatedBroker(Struct, frozen=True, kw_only=True):
    """A broker, and what the policies that name it keep for it."""

    brokerName: str
    policyName: str | None = None
    primary: bool = False
    namespaceRegex: tuple[str, ...] = ()


def check_isolation(policy: IsolationPolicy) -> None:
    """Raise BadRequest for what Pulsar would not take either."""
    failover = policy.auto_failover_policy
    numbers = [failover.parameters.get(name, "") for name in _PARAMETERS]
    for is_right, reason in (
        (policy.namespaces, "namespaces are missing"),
        (policy.primary, "primary brokers are missing"),
        (failover.policy_type == _MIN_AVAILABLE, f"policy_type must be {_MIN_AVAILABLE}"),
        (
            all(re.fullmatch(r"[+-]?\d+", each, re.ASCII) for each in numbers),
            f"{' and '.join(_PARAMETERS)} must be whole numbers",
        ),
        (
            policy.unload_scope in (None, *_UNLOAD_SCOPES),
            f"unload_scope must be one of {', '.join(_UNLOAD_SCOPES)}",
        ),
    ):
        if not is_right:
            raise BadRequest(f"Invalid isolation policy: {reason}")
    for pattern in (*policy.namespaces, *policy.primary, *policy.secondary):
        try:
            re.compile(pattern)
        except re.error as error:
            raise BadRequest(
                f"Invalid isolation policy: {pattern!r} is not a regular expression ({error})"
            ) from None


def plan_unload(
    old: IsolationPolicy | None, new: IsolationPolicy, namespaces: Iterable[NamespaceName]
) -> list[NamespaceName]:
    """The namespaces that a changed policy places anew: those that it begins or ceases to name;
    all of both when other brokers are primary.
    """
    if new.unload_scope == "none":
        return []
    before = set(old.namespaces) if old is not None else set()
    patterns = before.symmetric_difference(new.namespaces)
    has_moved = old is not None and set(old.primary) != set(new.primary)
    if has_moved or new.unload_scope == "all_matching":
        patterns = before.union(new.namespaces)
    return [each for each in namespaces if _matches(patterns, str(each))]


def describe_broker(broker: str, policies: Mapping[str, IsolationPolicy]) -> IsolatedBroker:
    """The last policy that names the broker is the one that is named."""
    found = IsolatedBroker(brokerName=broker)
    for name, policy in policies.items():
        is_primary = _matches_broker(policy.primary, broker)
        if is_primary or _matches_broker(policy.secondary, broker):
            patterns = (*found.namespaceRegex, *policy.namespaces)
            found = IsolatedBroker(
                brokerName=broker, policyName=name, primary=is_primary, namespaceRegex=patterns
            )
    return found


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

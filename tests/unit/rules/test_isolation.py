from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from magnetar.model.load import BrokerReport, ResourceUsage
from magnetar.model.name import parse_namespace
from magnetar.rules.isolation import (
    FailoverPolicy,
    IsolationPolicy,
    describe_broker,
    find_allowed,
    plan_unload,
)

IDLE = BrokerReport()
BUSY = BrokerReport(cpu=ResourceUsage(usage=95.0, limit=100.0))
SPACE = parse_namespace("acme/shop")
POLICY = IsolationPolicy(
    namespaces=("acme/.*",),
    primary=("fast-.*",),
    secondary=("slow-1",),
    auto_failover_policy=FailoverPolicy(parameters={"min_limit": "1", "usage_threshold": "80"}),
)


@pytest.mark.parametrize(
    ("namespace", "brokers", "allowed"),
    [
        ("acme/shop", {"fast-1:80": IDLE, "slow-1:80": IDLE}, {"fast-1:80"}),
        ("acme/shop", {"fast-1:80": BUSY, "slow-1:80": IDLE}, {"fast-1:80", "slow-1:80"}),
        ("acme/shop", {"slow-1:80": IDLE, "slow-2:80": IDLE}, {"slow-1:80"}),
        ("acme/shop", {"slow-2:80": IDLE}, set()),
        ("other/shop", {"fast-1:80": IDLE, "slow-1:80": IDLE}, {"slow-1:80"}),
        ("other/shop", {"fast-1:80": IDLE}, set()),
    ],
)
def test_a_policy_keeps_a_namespace_to_its_brokers_and_others_away(
    namespace: str, brokers: dict[str, BrokerReport], allowed: set[str]
) -> None:
    assert find_allowed([POLICY], parse_namespace(namespace), brokers) == allowed


def test_without_policies_all_brokers_may() -> None:
    assert find_allowed([], SPACE, {"a:1": IDLE, "b:1": BUSY}) == {"a:1", "b:1"}


def test_brokers_of_one_host_are_told_apart_by_their_port() -> None:
    policy = IsolationPolicy(namespaces=("acme/shop",), primary=("host:8081",))
    brokers = {"host:8080": IDLE, "host:8081": IDLE}
    assert find_allowed([policy], SPACE, brokers) == {"host:8081"}


def test_a_pattern_that_is_none_is_a_plain_name() -> None:
    policy = IsolationPolicy(namespaces=("acme/shop",), primary=("*host",))
    assert find_allowed([policy], SPACE, {"host:1": IDLE}) == frozenset()


@pytest.mark.parametrize(
    ("old", "changes", "moved"),
    [
        (None, {}, {"acme/shop"}),
        (None, {"unload_scope": "none"}, set()),
        (POLICY, {}, set()),
        (POLICY, {"unload_scope": "all_matching"}, {"acme/shop"}),
        (POLICY, {"primary": ("slow-1",)}, {"acme/shop"}),
        (POLICY, {"namespaces": ("acme/.*", "other/shop")}, {"other/shop"}),
        (POLICY, {"namespaces": ("other/shop",)}, {"acme/shop", "other/shop"}),
    ],
)
def test_a_changed_policy_places_the_namespaces_anew_that_it_concerns(
    old: IsolationPolicy | None, changes: dict[str, Any], moved: set[str]
) -> None:
    known = [parse_namespace(each) for each in ("acme/shop", "other/shop", "third/shop")]
    found = plan_unload(old, replace(POLICY, **changes), known)
    assert {str(each) for each in found} == moved


def test_a_broker_is_described_by_the_policies_that_name_it() -> None:
    policies = {"p": POLICY, "q": replace(POLICY, namespaces=("b",), primary=("slow-1",))}
    found = describe_broker("slow-1:80", policies)
    assert (found.policyName, found.primary) == ("q", True)
    assert found.namespaceRegex == ("acme/.*", "b")
    assert describe_broker("third:80", policies).policyName is None

"""Who may do what, as values: no broker, no store."""

from __future__ import annotations

import pytest

from magnetar.errors import Forbidden, Unauthorized
from magnetar.model.caller import ANONYMOUS, Caller
from magnetar.model.choice import SubscriptionAuthMode
from magnetar.model.name import parse_namespace, parse_topic
from magnetar.model.permission import (
    AUTHENTICATED,
    NAMESPACE_ADMIN,
    NAMESPACE_CONSUME,
    NAMESPACE_READ,
    OPEN,
    SUPER_USER,
    TENANT_ADMIN,
    TOPIC_ADMIN,
    TOPIC_CONSUME,
    TOPIC_POLICY,
    TOPIC_PRODUCE,
    TOPIC_READ,
    AuthAction,
    Need,
    Target,
)
from magnetar.model.policy import AuthPolicies
from magnetar.rules.permission import Grants, decide_permission, is_about, reaching_names

PRODUCE, CONSUME = AuthAction.PRODUCE, AuthAction.CONSUME
X = "persistent://t/n/x"
TOPIC = Target(topic=parse_topic(X))
NAMESPACE = Target(namespace=parse_namespace("t/n"))


def grants_on(topic: str, role: str, *actions: AuthAction) -> Grants:
    return Grants(auth=AuthPolicies(destination_auth={topic: {role: actions}}))


ROLE = Caller("r")


def may(grants: Grants, topic: str, need: Need = TOPIC_PRODUCE, caller: Caller = ROLE) -> bool:
    return decide_permission(caller, need, Target(topic=parse_topic(topic)), grants) is None


@pytest.mark.parametrize("granted", [X, "topic://t/n/x"])
@pytest.mark.parametrize(
    "reached",
    [
        X,
        "topic://t/n/x",
        "persistent://t/n/x-partition-3",
        "segment://t/n/x/0000-ffff-0",
        "segment://t/n/x/8000-FFFF-7",
    ],
)
def test_a_grant_on_a_topic_reaches_its_partitions_and_its_segments(
    granted: str, reached: str
) -> None:
    assert may(grants_on(granted, "r", PRODUCE), reached)


@pytest.mark.parametrize("granted", [X, "topic://t/n/x"])
@pytest.mark.parametrize(
    "other",
    [
        "non-persistent://t/n/x",
        "persistent://t/n/x2",
        "persistent://t/n2/x",
        "persistent://t2/n/x",
        "topic://t/n/x/y",
        "topic://t/n/y/x",
        "segment://t/n/x2/0000-ffff-0",
        "segment://t/n/x/y/0000-ffff-0",
        "segment://t/n/y/x/0000-ffff-0",
        "segment://t/n/x/0000-ffff-0/0000-ffff-0",
        "segment://t/n/x/nonsense",
        "segment://t/n/x",
    ],
)
def test_and_nothing_more(granted: str, other: str) -> None:
    assert not may(grants_on(granted, "r", PRODUCE), other)


def test_a_grant_on_one_partition_or_segment_stays_there() -> None:
    partition = grants_on(f"{X}-partition-1", "r", PRODUCE)
    assert may(partition, f"{X}-partition-1")
    for other in (X, f"{X}-partition-2", "topic://t/n/x", "segment://t/n/x/0000-ffff-0"):
        assert not may(partition, other)
    segment = grants_on("segment://t/n/x/0000-7fff-1", "r", PRODUCE)
    assert may(segment, "segment://t/n/x/0000-7fff-1")
    assert not may(segment, "segment://t/n/x/8000-ffff-2")
    assert not may(segment, X)


@pytest.mark.parametrize("local", ["__change_events", "__change_events-partition-0"])
def test_no_grant_reaches_the_topics_of_the_broker_itself(local: str) -> None:
    """Who may write to them could set the policies of every topic."""
    everything = AuthPolicies(
        namespace_auth={"r": tuple(AuthAction)},
        destination_auth={f"persistent://t/n/{local}": {"r": tuple(AuthAction)}},
    )
    for need in (TOPIC_PRODUCE, TOPIC_CONSUME, TOPIC_READ):
        grants = Grants(auth=everything, tenant_admins=("boss",))
        assert not may(grants, f"persistent://t/n/{local}", need)
        assert may(grants, f"persistent://t/n/{local}", need, Caller("boss"))


def test_produce_is_not_consume_and_either_lets_look() -> None:
    for held, other, denied in (
        (PRODUCE, CONSUME, TOPIC_CONSUME),
        (CONSUME, PRODUCE, TOPIC_PRODUCE),
    ):
        grants = grants_on(X, "r", held)
        assert may(grants, X, TOPIC_READ)
        assert not may(grants, X, denied)
        assert other not in grants.auth.destination_auth[X]["r"]
    assert not may(grants_on(X, "r", AuthAction.FUNCTIONS), X, TOPIC_READ)


def test_a_grant_on_a_topic_says_nothing_about_its_namespace() -> None:
    grants = grants_on(X, "r", PRODUCE, CONSUME)
    assert isinstance(decide_permission(Caller("r"), NAMESPACE_READ, NAMESPACE, grants), Forbidden)


def test_no_grant_makes_an_administrator() -> None:
    everything = Grants(auth=AuthPolicies(namespace_auth={"r": tuple(AuthAction)}))
    for need in (TOPIC_ADMIN, TENANT_ADMIN, SUPER_USER):
        assert isinstance(decide_permission(Caller("r"), need, TOPIC, everything), Unauthorized)
    for need in (NAMESPACE_ADMIN, TOPIC_POLICY):
        assert isinstance(decide_permission(Caller("r"), need, TOPIC, everything), Forbidden)


def test_an_administrator_of_the_tenant_may_do_all_but_what_takes_a_super_user() -> None:
    grants = Grants(frozenset({"root"}), tenant_admins=("boss",))
    for need in (TOPIC_PRODUCE, TOPIC_ADMIN, NAMESPACE_ADMIN, TENANT_ADMIN, TOPIC_POLICY):
        assert decide_permission(Caller("boss"), need, TOPIC, grants) is None
        assert decide_permission(Caller("root"), need, TOPIC, grants) is None
    assert decide_permission(Caller("boss"), SUPER_USER, TOPIC, grants) is not None
    assert decide_permission(Caller("root"), SUPER_USER, TOPIC, grants) is None
    assert decide_permission(Caller("any"), SUPER_USER, TOPIC, Grants(frozenset("*"))) is None


def test_who_has_no_role_gets_what_is_open_and_nothing_else() -> None:
    everybody = Grants(frozenset("*"))
    assert decide_permission(ANONYMOUS, OPEN, Target(), everybody) is None
    for need in (AUTHENTICATED, SUPER_USER, TOPIC_READ):
        assert decide_permission(ANONYMOUS, need, TOPIC, everybody) is not None


def test_a_proxy_and_the_one_it_speaks_for_both_need_permission() -> None:
    grants = Grants(
        frozenset({"root"}),
        auth=AuthPolicies(namespace_auth={"proxy": (PRODUCE,), "r": (PRODUCE,)}),
    )
    assert may(grants, X, caller=Caller("proxy", "r"))
    assert not may(grants, X, caller=Caller("proxy", "stranger"))
    assert not may(grants, X, caller=Caller("stranger", "r"))
    assert not may(grants, X, SUPER_USER, caller=Caller("root", "r"))


def test_subscriptions_may_be_kept_for_some_roles() -> None:
    grants = Grants(
        auth=AuthPolicies(
            namespace_auth={"a": (CONSUME,), "b": (CONSUME,)},
            subscription_auth_roles={"mine": ("a",), "free": ()},
        ),
        tenant_admins=("boss",),
    )

    def may_use(role: str, subscription: str | None) -> bool:
        target = Target(topic=parse_topic(X), subscription=subscription)
        return decide_permission(Caller(role), TOPIC_CONSUME, target, grants) is None

    assert may_use("a", "mine") and may_use("boss", "mine")
    assert not may_use("b", "mine")
    assert may_use("b", "free") and may_use("b", "other") and may_use("b", None)
    of_namespace = Target(namespace=parse_namespace("t/n"), subscription="mine")
    assert decide_permission(Caller("b"), NAMESPACE_CONSUME, of_namespace, grants) is not None


def test_a_namespace_may_demand_that_subscriptions_begin_with_the_role() -> None:
    grants = Grants(
        auth=AuthPolicies(namespace_auth={"r": (CONSUME,)}),
        subscription_mode=SubscriptionAuthMode.PREFIX,
    )

    def refusal(subscription: str) -> object:
        target = Target(topic=parse_topic(X), subscription=subscription)
        return decide_permission(Caller("r"), TOPIC_CONSUME, target, grants)

    assert refusal("r-orders") is None
    assert isinstance(refusal("orders"), Unauthorized)
    assert "begin with the role 'r'" in str(refusal("orders"))


@pytest.mark.parametrize(
    ("pattern", "role", "fits"),
    [
        ("a-*", "a-1", True),
        ("*-a", "1-a", True),
        ("*", "any", True),
        ("a-*", "b-a-", False),
        ("a*b", "axb", False),
    ],
)
def test_a_star_in_a_granted_role_counts_only_where_it_is_switched_on(
    pattern: str, role: str, fits: bool
) -> None:
    auth = AuthPolicies(namespace_auth={pattern: (PRODUCE,)})
    assert may(Grants(auth=auth, wildcards=True), X, caller=Caller(role)) is fits
    assert not may(Grants(auth=auth), X, caller=Caller(role))


def test_a_refusal_says_who_what_and_what_is_missing() -> None:
    refusal = decide_permission(Caller("r"), TOPIC_CONSUME, TOPIC, Grants())
    assert refusal is not None
    assert refusal.sentence == (
        "The role 'r' may not do this to persistent://t/n/x: it takes consume permission on"
        " persistent://t/n/x or the namespace t/n, or a role that administers the tenant t"
    )


def test_what_a_revocation_is_about() -> None:
    x, scalable = parse_topic(X), parse_topic("topic://t/n/x")
    for name in (X, "topic://t/n/x", f"{X}-partition-0", "segment://t/n/x/0000-ffff-0"):
        assert is_about(parse_topic(name), x)
        assert is_about(parse_topic(name), scalable)
    for name in ("persistent://t/n/y", "non-persistent://t/n/x", "topic://t/n/x/y"):
        assert not is_about(parse_topic(name), x)
    assert not is_about(x, parse_topic(f"{X}-partition-0"))
    assert list(reaching_names(parse_topic("non-persistent://t/n/x"))) == ["non-persistent://t/n/x"]

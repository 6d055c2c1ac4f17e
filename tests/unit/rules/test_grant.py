from __future__ import annotations

from magnetar.model.name import parse_topic
from magnetar.model.permission import AuthAction
from magnetar.model.policy import AuthPolicies
from magnetar.model.tenancy import TopicGrant
from magnetar.rules.grant import (
    forget_topic,
    grant_on_topics,
    revoke_on_subscription,
    revoke_on_topics,
)

ORDERS = "persistent://t1/n1/orders"
PRODUCE, CONSUME = AuthAction.PRODUCE, AuthAction.CONSUME


def granted(*pairs: tuple[str, str]) -> AuthPolicies:
    return AuthPolicies(destination_auth={name: {role: (CONSUME,)} for name, role in pairs})


def test_a_grant_replaces_that_of_the_same_role_and_keeps_the_others() -> None:
    grant = TopicGrant(topic=ORDERS, role="ann", actions=[PRODUCE, PRODUCE])
    before = AuthPolicies(destination_auth={ORDERS: {"ann": (CONSUME,), "bob": (CONSUME,)}})
    after = grant_on_topics([(ORDERS, grant)], before)
    assert after.destination_auth == {ORDERS: {"ann": (PRODUCE,), "bob": (CONSUME,)}}


def test_revoking_reaches_the_partitions_and_the_scalable_spelling() -> None:
    spellings = (ORDERS, f"{ORDERS}-partition-0", "topic://t1/n1/orders")
    before = granted(*((name, "ann") for name in spellings), ("persistent://t1/n1/other", "ann"))
    after = revoke_on_topics([(parse_topic(ORDERS), "ann")], before)
    assert after.destination_auth == {"persistent://t1/n1/other": {"ann": (CONSUME,)}}


def test_revoking_keeps_what_other_roles_may() -> None:
    before = AuthPolicies(destination_auth={ORDERS: {"ann": (CONSUME,), "bob": (CONSUME,)}})
    after = revoke_on_topics([(parse_topic(ORDERS), "ann")], before)
    assert after.destination_auth == {ORDERS: {"bob": (CONSUME,)}}


def test_a_deleted_topic_leaves_no_grants() -> None:
    before = granted((ORDERS, "ann"), (f"{ORDERS}-partition-1", "ann"), (f"{ORDERS}2", "ann"))
    after = forget_topic(parse_topic(ORDERS), before)
    assert after.destination_auth == {f"{ORDERS}2": {"ann": (CONSUME,)}}


def test_a_subscription_without_roles_is_not_kept() -> None:
    before = AuthPolicies(subscription_auth_roles={"s1": ("ann", "bob")})
    once = revoke_on_subscription("s1", "ann", before)
    assert once.subscription_auth_roles == {"s1": ("bob",)}
    assert revoke_on_subscription("s1", "bob", once).subscription_auth_roles == {}

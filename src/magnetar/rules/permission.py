"""Who may do what: caller, need and grants in, nothing or a refusal out.

Super-users may do everything, administrators of a tenant everything inside it. Everybody else needs
a grant on the namespace or on the topic. A grant on a topic reaches its partitions, and, whichever
way the topic is spelled, what it becomes when it is migrated and split: its segments. It reaches
nothing else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias, assert_never

from magnetar.errors import BrokerError, Forbidden, InvalidName, Unauthorized
from magnetar.model.caller import Caller
from magnetar.model.choice import SubscriptionAuthMode
from magnetar.model.name import TopicDomain, TopicName
from magnetar.model.permission import AuthAction, Need, Scope, Target
from magnetar.model.policy import AuthPolicies
from magnetar.model.segment import parse_segment
from magnetar.rules.system import is_system_topic

Permissions: TypeAlias = Mapping[str, Collection[AuthAction]]
"""What each role may do."""


@dataclass(frozen=True, slots=True)
class Grants:
    """Everything that decides, for one target."""

    super_users: frozenset[str] = frozenset()
    tenant_admins: Collection[str] = ()
    auth: AuthPolicies = field(default_factory=AuthPolicies)
    subscription_mode: SubscriptionAuthMode = SubscriptionAuthMode.NONE
    wildcards: bool = False


def decide_permission(
    caller: Caller, need: Need, target: Target, grants: Grants
) -> BrokerError | None:
    """None, or why not. One who speaks for another needs what both need."""
    if need.scope in (Scope.OPEN, Scope.ATTACHED):
        return None
    if caller.role is None:
        return _refuse(need, target, "The caller has no role")
    if need.scope is Scope.AUTHENTICATED:
        return None
    roles = [caller.role] if caller.original_role is None else [caller.role, caller.original_role]
    for role in roles:
        refusal = _decide_role(role, need, target, grants)
        if refusal is not None:
            return refusal
    return None


def is_super_user(role: str, super_users: frozenset[str]) -> bool:
    return role in super_users or "*" in super_users


def _decide_role(role: str, need: Need, target: Target, grants: Grants) -> BrokerError | None:
    if is_super_user(role, grants.super_users):
        return None
    if need.scope is Scope.SUPER_USER:
        return _refuse(need, target, f"The role {role!r} is not a super-user")
    if role in grants.tenant_admins:
        return None
    if target.topic is not None and is_system_topic(target.topic):
        # Who writes to some of these sets policies, which no grant allows.
        return _refuse(replace(need, actions=()), target, f"{target.topic} is the broker's own")
    if target.subscription and need.actions == (AuthAction.CONSUME,):
        reason = _check_subscription(role, target.subscription, grants)
        if reason is not None:
            return _refuse(need, target, reason)
    if any(_is_granted(role, action, target, grants) for action in need.actions):
        return None
    return _refuse(need, target, f"The role {role!r} may not do this to {target}")


def _check_subscription(role: str, subscription: str, grants: Grants) -> str | None:
    roles = grants.auth.subscription_auth_roles.get(subscription, ())
    if roles and role not in roles:
        return f"The role {role!r} is not one of those that may use the subscription {subscription}"
    prefixed = grants.subscription_mode is SubscriptionAuthMode.PREFIX
    if prefixed and not subscription.startswith(role):
        return (
            f"The subscription {subscription} does not begin with the role {role!r},"
            " as its namespace demands"
        )
    return None


def _is_granted(role: str, action: AuthAction, target: Target, grants: Grants) -> bool:
    if _holds(grants.auth.namespace_auth, role, action, wildcards=grants.wildcards):
        return True
    if target.topic is None:
        return False
    on_topics = grants.auth.destination_auth
    return any(
        _holds(on_topics[name], role, action, wildcards=grants.wildcards)
        for name in reaching_names(target.topic)
        if name in on_topics
    )


def _holds(granted: Permissions, role: str, action: AuthAction, *, wildcards: bool) -> bool:
    if action in granted.get(role, ()):
        return True
    return wildcards and any(
        action in actions and _fits(pattern, role) for pattern, actions in granted.items()
    )


def _fits(pattern: str, role: str) -> bool:
    """A star at the end or at the beginning stands for anything."""
    if pattern.endswith("*") and role.startswith(pattern[:-1]):
        return True
    return pattern.startswith("*") and role.endswith(pattern[1:])


def reaching_names(topic: TopicName) -> Iterator[str]:
    """The names on which a grant reaches `topic`: its own, and that of the topic it is a part of.

    A regular topic and the scalable one of the same name are one topic at two times.
    """
    yield topic.full
    match topic.domain:
        case TopicDomain.SEGMENT:
            try:
                whole = parse_segment(topic).topic
            except InvalidName:
                return  # no segment is called so
            yield whole.full
            yield _spell(whole, TopicDomain.PERSISTENT)
        case TopicDomain.TOPIC:
            yield _spell(topic, TopicDomain.PERSISTENT)
        case TopicDomain.PERSISTENT | TopicDomain.NON_PERSISTENT:
            if topic.is_partition:
                yield topic.base.full
            if topic.domain is TopicDomain.PERSISTENT:
                yield _spell(topic.base, TopicDomain.TOPIC)
        case _:
            assert_never(topic.domain)


def is_about(name: TopicName, topic: TopicName) -> bool:
    """Whether a grant on `name` is one on `topic`, or on a part of it."""
    if topic.is_partition or name.full == topic.full:
        return name.full == topic.full
    return topic.full in (*reaching_names(name), *reaching_names(name.base))


def _spell(topic: TopicName, domain: TopicDomain) -> str:
    return f"{domain.value}://{topic.namespace}/{topic.local}"


def _refuse(need: Need, target: Target, why: str) -> BrokerError:
    """The REST interface tells refusals of namespaces and policies by another status."""
    sentence = f"{why}: {_say_missing(need, target)}"
    if need.scope in (Scope.NAMESPACE, Scope.TOPIC_POLICY):
        return Forbidden(sentence)
    return Unauthorized(sentence)


def _say_missing(need: Need, target: Target) -> str:
    match need.scope:
        case Scope.SUPER_USER:
            return "this takes a role named in superUserRoles"
        case Scope.AUTHENTICATED | Scope.OPEN | Scope.ATTACHED:
            return "this takes a caller who is authenticated"
        case Scope.TENANT | Scope.NAMESPACE | Scope.TOPIC | Scope.TOPIC_POLICY:
            admin = f"a role that administers the tenant {target.tenant_name}"
            if not need.actions:
                return f"it takes {admin}, or a super-user"
            wanted = " or ".join(action.value for action in need.actions)
            place = f"the namespace {target.namespace_name}"
            if target.topic is not None:
                place = f"{target.topic} or {place}"
            return f"it takes {wanted} permission on {place}, or {admin}"
        case _:
            assert_never(need.scope)

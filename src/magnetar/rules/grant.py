"""Granting and revoking: what a namespace's policies say of topics afterwards."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from magnetar.model.name import TopicName, parse_stored_topic
from magnetar.model.permission import AuthAction
from magnetar.model.policy import AuthPolicies
from magnetar.model.tenancy import TopicGrant
from magnetar.rules.permission import is_about, reaching_names


def distinct(actions: Sequence[AuthAction]) -> tuple[AuthAction, ...]:
    return tuple(dict.fromkeys(actions))


def grant_on_topics(rows: Sequence[tuple[str, TopicGrant]], auth: AuthPolicies) -> AuthPolicies:
    """Each grant, on the topic that stands before it."""
    added: dict[str, dict[str, tuple[AuthAction, ...]]] = {}
    for name, grant in rows:
        added.setdefault(name, {})[grant.role] = distinct(grant.actions)
    known = auth.destination_auth
    granted = {name: {**known.get(name, {}), **roles} for name, roles in added.items()}
    return replace(auth, destination_auth={**known, **granted})


def revoke_on_topics(rows: Sequence[tuple[TopicName, str]], auth: AuthPolicies) -> AuthPolicies:
    """However a topic was spelled when the permissions were granted, and on its parts."""
    wanted: dict[TopicName, set[str]] = {}
    for topic, role in rows:
        wanted.setdefault(topic, set()).add(role)
    by_name = {topic.full: topic for topic in wanted}
    kept: dict[str, dict[str, tuple[AuthAction, ...]]] = {}
    for name, granted in auth.destination_auth.items():
        spelled = parse_stored_topic(name)
        reaching = {spelled.full, *reaching_names(spelled), *reaching_names(spelled.base)}
        topics = [by_name[each] for each in reaching if each in by_name]
        revoked = [wanted[topic] for topic in topics if is_about(spelled, topic)]
        left = {
            role: actions
            for role, actions in granted.items()
            if not any(role in roles for roles in revoked)
        }
        if left:
            kept[name] = left
    return replace(auth, destination_auth=kept)


def forget_topic(topic: TopicName, auth: AuthPolicies) -> AuthPolicies:
    """A topic that comes to have the name of one that was deleted is another topic."""
    kept = {
        name: granted
        for name, granted in auth.destination_auth.items()
        if not is_about(parse_stored_topic(name), topic)
    }
    return replace(auth, destination_auth=kept)


def revoke_on_subscription(subscription: str, role: str, auth: AuthPolicies) -> AuthPolicies:
    """A subscription without roles is open to all that may consume."""
    kept = dict(auth.subscription_auth_roles)
    roles = tuple(each for each in kept.pop(subscription, ()) if each != role)
    if roles:
        kept[subscription] = roles
    return replace(auth, subscription_auth_roles=kept)

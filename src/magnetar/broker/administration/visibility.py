"""What a caller may see of a broker's topics, and what it may do: for pages that show many at once.

A call names one thing and is refused or not. A page shows what is left after all refusals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from magnetar.broker.administration.port import VisibilityOwners
from magnetar.broker.administration.registry import carries_out
from magnetar.broker.authorization import Authorization
from magnetar.errors import InvalidName
from magnetar.model.caller import Caller
from magnetar.model.name import (
    NamespaceName,
    TopicDomain,
    TopicName,
    parse_namespace,
    parse_topic,
)
from magnetar.model.permission import (
    NAMESPACE_READ,
    SUPER_USER,
    TENANT_ADMIN,
    TOPIC_READ,
    Scope,
    Target,
)
from magnetar.model.segment import scalable_name
from magnetar.operation.table import all_operations


@dataclass(frozen=True, slots=True)
class Visibility:
    is_super: bool
    """Everything is seen, the broker itself included."""
    namespaces: frozenset[NamespaceName] = frozenset()
    """Those whose topics are all seen."""
    topics: frozenset[TopicName] = frozenset()
    """Single topics of other namespaces, by grants of their own."""

    def sees(self, topic: TopicName) -> bool:
        """Of a partition or a segment: whether its topic is seen."""
        if self.is_super or topic.namespace in self.namespaces:
            return True
        return bool(self.topics) and shown_name(topic) in self.topics


def shown_name(topic: TopicName) -> TopicName:
    """The name that people have for a partition or a segment: that of its topic."""
    return scalable_name(topic) if topic.domain is TopicDomain.SEGMENT else topic.base


@carries_out("console.tenants")
async def get_tenants(owners: VisibilityOwners, caller: Caller) -> Mapping[str, Sequence[str]]:
    found = await list_tenants(owners, caller)
    return {tenant: [str(name) for name in names] for tenant, names in found.items()}


async def list_tenants(
    owners: VisibilityOwners, caller: Caller
) -> Mapping[str, Sequence[NamespaceName]]:
    """Tenants with their namespaces, as far as the caller sees anything of them."""
    found: dict[str, Sequence[NamespaceName]] = {}
    is_super = await owners.authorization.may(caller, SUPER_USER, Target())
    for tenant in sorted(await owners.resources.tenants.list()):
        names = sorted(await owners.resources.namespaces.list(tenant), key=str)
        is_admin = is_super or await owners.authorization.may(
            caller, TENANT_ADMIN, Target(tenant=tenant)
        )
        seen = [name for name in names if is_admin or await _sees_any(owners, caller, name)]
        if is_admin or seen:
            found[tenant] = seen
    return found


async def find_visibility(owners: VisibilityOwners, caller: Caller) -> Visibility:
    if await owners.authorization.may(caller, SUPER_USER, Target()):
        return Visibility(is_super=True)
    whole: set[NamespaceName] = set()
    single: set[TopicName] = set()
    for names in (await list_tenants(owners, caller)).values():
        for name in names:
            if await owners.authorization.may(caller, NAMESPACE_READ, Target(namespace=name)):
                whole.add(name)
            else:
                single.update(await _granted_topics(owners, caller, name))
    return Visibility(False, frozenset(whole), frozenset(single))


@carries_out("console.rights")
async def find_rights(
    authorization: Authorization,
    caller: Caller,
    tenant: str | None,
    namespace: str | None,
    topic: str | None,
) -> Sequence[str]:
    """The narrowest name counts; what is about something that it does not name is left out."""
    target = Target()
    if topic:
        target = Target(topic=parse_topic(topic))
    elif namespace:
        target = Target(namespace=parse_namespace(namespace))
    elif tenant:
        target = Target(tenant=tenant)
    named = {Scope.OPEN, Scope.AUTHENTICATED, Scope.SUPER_USER}
    if target.tenant_name is not None:
        named.add(Scope.TENANT)
    if target.namespace_name is not None:
        named.add(Scope.NAMESPACE)
    if target.topic is not None:
        named |= {Scope.TOPIC, Scope.TOPIC_POLICY}
    asked = {
        each.name: each.need
        for each in all_operations()
        if each.need is not None and each.need.scope in named and not each.is_internal
    }
    allowed = {
        need for need in set(asked.values()) if await authorization.may(caller, need, target)
    }
    return sorted(name for name, need in asked.items() if need in allowed)


async def _sees_any(owners: VisibilityOwners, caller: Caller, namespace: NamespaceName) -> bool:
    if await owners.authorization.may(caller, NAMESPACE_READ, Target(namespace=namespace)):
        return True
    return bool(await _granted_topics(owners, caller, namespace))


async def _granted_topics(
    owners: VisibilityOwners, caller: Caller, namespace: NamespaceName
) -> Sequence[TopicName]:
    """Topics with grants of their own, as far as these allow the caller to read or write them."""
    policies = await owners.resources.namespaces.get(namespace)
    found = []
    for name in () if policies is None else policies.auth_policies.destination_auth:
        try:
            topic = parse_topic(name)
        except InvalidName:
            continue
        if await owners.authorization.may(caller, TOPIC_READ, Target(topic=topic)):
            found.append(shown_name(topic))
    return found

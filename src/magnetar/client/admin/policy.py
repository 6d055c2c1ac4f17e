"""The settings of namespaces and topics: under which path each is read, written and removed."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from magnetar.client.admin.transport import Transport, format_path
from magnetar.client.admin.value import format_namespace, format_topic
from magnetar.client.error import ConfigurationError

if TYPE_CHECKING:
    from magnetar.operation.policy import At

_OF_ONE: Final = "subscription-dispatch-rate"
"""The policy of a topic that one subscription may have for itself."""


@cache
def load_policies(level: str) -> Mapping[str, At]:
    """How REST spells the policies of a `namespace` or a `topic`, by their names."""
    from magnetar.operation.policy import Level, policies_by_name
    from magnetar.operation.policy_table import POLICIES

    return policies_by_name(POLICIES, Level(level))


def find_policy(level: str, key: str) -> At:
    policies = load_policies(level)
    if key not in policies:
        raise ConfigurationError(f"No policy is called {key!r}; there are {', '.join(policies)}")
    return policies[key]


async def write_policy(
    transport: Transport, root: str, policy: At, value: Any, query: Mapping[str, Any]
) -> None:
    path = f"{root}/{policy.path}"
    if policy.in_query:
        await transport.call(policy.write, path, query={policy.path: value, **query})
    else:
        await transport.call(policy.write, path, body=value, query=query)


async def remove_policy(
    transport: Transport, root: str, policy: At, query: Mapping[str, Any]
) -> None:
    if not policy.remove:
        raise ConfigurationError(f"The policy {policy.name} can be set but not removed")
    if policy.remove == "DELETE":
        await transport.delete(f"{root}/{policy.remove_path}", query)
    else:
        await write_policy(transport, root, policy, None, query)


class AsyncTopicPolicyAdmin:
    """What is set on a topic itself, local or (`is_global`) for every cluster."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def get(
        self,
        topic: str,
        key: str,
        *,
        applied: bool = False,
        is_global: bool = False,
        subscription: str = "",
    ) -> Any:
        """None when unset; `applied` looks further up, to the namespace and the broker.

        With a `subscription` it is the `subscription-dispatch-rate` of that one alone.
        """
        policy = _find(key, subscription)
        query = {"applied": applied, "isGlobal": is_global}
        return await self._transport.get(f"{_root(topic)}/{policy.read_path}", query)

    async def set(
        self,
        /,
        topic: str,
        key: str,
        value: Any,
        *,
        is_global: bool = False,
        subscription: str = "",
        **query: Any,
    ) -> None:
        policy = _find(key, subscription)
        query["isGlobal"] = is_global
        await write_policy(self._transport, _root(topic), policy, value, query)

    async def remove(
        self,
        /,
        topic: str,
        key: str,
        *,
        is_global: bool = False,
        subscription: str = "",
        **query: Any,
    ) -> None:
        policy = _find(key, subscription)
        query["isGlobal"] = is_global
        await remove_policy(self._transport, _root(topic), policy, query)

    async def backend(self, namespace: str) -> Mapping[str, str]:
        """What keeps the policies of a namespace's topics (`backend`), and why (`reason`)."""
        path = f"admin/v2/namespaces/{format_namespace(namespace, 'topicPoliciesBackend')}"
        found: Mapping[str, str] = await self._transport.get(path)
        return found

    async def delete(self, topic: str) -> None:
        """Remove every setting of the topic; works even when the topic is gone."""
        await self._transport.delete(f"{_root(topic)}/policies")


def _find(key: str, subscription: str) -> At:
    policy = find_policy("topic", key)
    if not subscription:
        return policy
    if key != _OF_ONE:
        raise ConfigurationError(f"A subscription has no {key} of its own: {_OF_ONE}")
    path = format_path(subscription, "dispatchRate")
    return policy._replace(path=path, read_path=path, remove_path=path)


def _root(topic: str) -> str:
    return f"admin/v2/{format_topic(topic)}"

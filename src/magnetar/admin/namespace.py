"""/admin/v2/namespaces: namespaces as a whole, their bundles and permissions."""

from __future__ import annotations

from magnetar.admin.listing import PAGE, answer_names
from magnetar.admin.request import Call
from magnetar.admin.response import NDJSON
from magnetar.admin.route import Body, Priority, Query, Table
from magnetar.broker.administration import permission
from magnetar.broker.administration.topic_list import parse_mode
from magnetar.broker.api import BrokerApi
from magnetar.model.permission import (
    NAMESPACE_ADMIN,
    NAMESPACE_CONSUME,
    NAMESPACE_READ,
    SUPER_USER,
    TENANT_ADMIN,
    AuthAction,
)
from magnetar.model.policy import Policies, TopicGrant, TopicRevocation

ROOT_TABLE = Table("namespaces", "/admin/v2/namespaces")
TENANT_TABLE = Table("namespaces", "/admin/v2/namespaces/{tenant}")
TABLE = Table("namespaces", "/admin/v2/namespaces/{tenant}/{namespace}")

_ACTIONS = Body(list[AuthAction], required=True, missing="Actions should not be null")
_ROLES = Body(list[str], required=True, missing="Roles should not be null")


async def list_namespaces(api: BrokerApi, call: Call) -> object:
    """Namespaces of a tenant."""
    return await api.namespaces.list(call.tenant)


async def get_namespace(api: BrokerApi, call: Call) -> object:
    """All policies of a namespace."""
    return await api.namespaces.get(call.namespace)


async def create_namespace(api: BrokerApi, call: Call) -> object:
    """Create a namespace."""
    await api.namespaces.create(call.namespace, call.payload)
    return None


async def delete_namespace(api: BrokerApi, call: Call) -> object:
    """Delete a namespace without topics, or with them when forced."""
    await api.namespaces.delete(call.namespace, force=call.flag("force"))
    return None


async def list_topics(api: BrokerApi, call: Call) -> object:
    """Topics of a namespace: persistent ones, the others, or all; whole, by page, or by line."""
    return await answer_names(api, call, parse_mode(call.query("mode") or "PERSISTENT"))


async def get_topic_buckets(api: BrokerApi, call: Call) -> object:
    """In how many buckets the metadata of a namespace's topics is kept."""
    return await api.namespaces.buckets(call.namespace)


async def set_topic_buckets(api: BrokerApi, call: Call) -> object:
    """Refused unless it is the number the namespace was created with."""
    await api.namespaces.set_buckets(call.namespace, call.payload)
    return None


# Bundles
async def get_bundles(api: BrokerApi, call: Call) -> object:
    """The hash ranges of a namespace."""
    return await api.bundles.get(call.namespace)


async def unload_namespace(api: BrokerApi, call: Call) -> object:
    """Close all topics of a namespace, so that their clients connect again."""
    await api.bundles.unload(call.namespace)
    return None


async def unload_bundle(api: BrokerApi, call: Call) -> object:
    """Close all topics of a bundle."""
    await api.bundles.unload(
        call.namespace, call.text("bundle"), destination=call.query("destinationBroker")
    )
    return None


async def split_bundle(api: BrokerApi, call: Call) -> object:
    """Cut a bundle in two."""
    await api.bundles.split(
        call.namespace,
        call.text("bundle"),
        unload=call.flag("unload"),
        algorithm=call.query("splitAlgorithmName"),
    )
    return None


async def delete_bundle(api: BrokerApi, call: Call) -> object:
    """Delete the topics of a bundle; refused while there are any unless forced."""
    await api.bundles.delete(call.namespace, call.text("bundle"), force=call.flag("force"))
    return None


async def clear_backlog(api: BrokerApi, call: Call) -> object:
    """Acknowledge everything in every subscription of a namespace."""
    await api.bundles.clear_backlog(call.namespace)
    return None


async def clear_subscription_backlog(api: BrokerApi, call: Call) -> object:
    """Acknowledge everything in one subscription of every topic."""
    await api.bundles.clear_backlog(call.namespace, subscription=call.subscription)
    return None


async def clear_bundle_backlog(api: BrokerApi, call: Call) -> object:
    """Acknowledge everything in every subscription of a bundle."""
    await api.bundles.clear_backlog(call.namespace, call.text("bundle"))
    return None


async def clear_bundle_subscription_backlog(api: BrokerApi, call: Call) -> object:
    """Acknowledge everything in one subscription of every topic of a bundle."""
    bundle = call.text("bundle")
    await api.bundles.clear_backlog(call.namespace, bundle, subscription=call.subscription)
    return None


async def unsubscribe(api: BrokerApi, call: Call) -> object:
    """Delete a subscription from every topic of a namespace."""
    await api.bundles.unsubscribe(call.namespace, call.subscription)
    return None


async def unsubscribe_bundle(api: BrokerApi, call: Call) -> object:
    """Delete a subscription from every topic of a bundle."""
    await api.bundles.unsubscribe(call.namespace, call.subscription, call.text("bundle"))
    return None


# Permissions
async def get_permissions(api: BrokerApi, call: Call) -> object:
    """What roles may do in a namespace."""
    return await permission.namespace_permissions(api.service, call.namespace)


async def grant_permission(api: BrokerApi, call: Call) -> object:
    """Let a role do things in a namespace."""
    await permission.grant_on_namespace(
        api.service, call.namespace, call.text("role"), call.payload
    )
    return None


async def revoke_permission(api: BrokerApi, call: Call) -> object:
    """Take a role's permissions in a namespace away."""
    await permission.revoke_on_namespace(api.service, call.namespace, call.text("role"))
    return None


async def get_subscription_permissions(api: BrokerApi, call: Call) -> object:
    """Which roles may use which subscriptions."""
    return await permission.subscription_permissions(api.service, call.namespace)


async def grant_subscription_permission(api: BrokerApi, call: Call) -> object:
    """Let roles use a subscription."""
    name = call.subscription
    await permission.grant_on_subscription(api.service, call.namespace, name, call.payload)
    return None


async def revoke_subscription_permission(api: BrokerApi, call: Call) -> object:
    """Take a subscription away from a role."""
    await permission.revoke_on_subscription(
        api.service, call.namespace, call.subscription, call.text("role")
    )
    return None


async def grant_permissions_on_topics(api: BrokerApi, call: Call) -> object:
    """Let roles do things with topics, many at once; all of them exist or nothing changes."""
    await permission.grant_on_topics(api.service, call.payload)
    return None


async def revoke_permissions_on_topics(api: BrokerApi, call: Call) -> object:
    """Take permissions on topics away from roles, many at once."""
    await permission.revoke_on_topics(api.service, call.payload)
    return None


P0, P2 = Priority.P0, Priority.P2
_FORCE = (Query("force", default=False),)
_SPLIT = (Query("unload", default=False), Query("splitAlgorithmName", str))
_MODE = (Query("mode", str, "PERSISTENT"), Query("includeSystemTopic", default=False))

ROOT_TABLE.add(
    "POST",
    "/grantPermissionsOnTopics",
    grant_permissions_on_topics,
    SUPER_USER,
    priority=P2,
    body=Body(list[TopicGrant], required=True),
)
ROOT_TABLE.add(
    "POST",
    "/revokePermissionsOnTopics",
    revoke_permissions_on_topics,
    SUPER_USER,
    priority=P2,
    body=Body(list[TopicRevocation], required=True),
)
TENANT_TABLE.add("GET", "", list_namespaces, TENANT_ADMIN, priority=P0)
TABLE.add("GET", "", get_namespace, NAMESPACE_ADMIN, priority=P0)
TABLE.add(
    "PUT",
    "",
    create_namespace,
    TENANT_ADMIN,
    priority=P0,
    body=Body(Policies, policy="the namespace's policies"),
)
TABLE.add("DELETE", "", delete_namespace, TENANT_ADMIN, priority=P0, query=_FORCE)
TABLE.add(
    "GET",
    "/topics",
    list_topics,
    NAMESPACE_READ,
    priority=P0,
    query=(*_MODE, *PAGE),
    or_produces=(NDJSON,),
)
TABLE.add("GET", "/numberOfTopicBuckets", get_topic_buckets, NAMESPACE_ADMIN)
TABLE.add(
    "POST",
    "/numberOfTopicBuckets",
    set_topic_buckets,
    NAMESPACE_ADMIN,
    body=Body(int, required=True, policy="numberOfTopicBuckets"),
)
TABLE.add("GET", "/bundles", get_bundles, NAMESPACE_READ)
TABLE.add("PUT", "/unload", unload_namespace, SUPER_USER)
TABLE.add(
    "PUT", "/{bundle}/unload", unload_bundle, SUPER_USER, query=(Query("destinationBroker", str),)
)
TABLE.add("PUT", "/{bundle}/split", split_bundle, SUPER_USER, query=_SPLIT)
TABLE.add("DELETE", "/{bundle}", delete_bundle, NAMESPACE_ADMIN, query=_FORCE)
TABLE.add("POST", "/clearBacklog", clear_backlog, NAMESPACE_CONSUME)
TABLE.add("POST", "/clearBacklog/{subscription}", clear_subscription_backlog, NAMESPACE_CONSUME)
TABLE.add("POST", "/{bundle}/clearBacklog", clear_bundle_backlog, NAMESPACE_CONSUME)
TABLE.add(
    "POST",
    "/{bundle}/clearBacklog/{subscription}",
    clear_bundle_subscription_backlog,
    NAMESPACE_CONSUME,
)
TABLE.add("POST", "/unsubscribe/{subscription}", unsubscribe, NAMESPACE_CONSUME)
TABLE.add("POST", "/{bundle}/unsubscribe/{subscription}", unsubscribe_bundle, NAMESPACE_CONSUME)
TABLE.add("GET", "/permissions", get_permissions, NAMESPACE_ADMIN, priority=P0)
TABLE.add(
    "POST", "/permissions/{role}", grant_permission, NAMESPACE_ADMIN, priority=P0, body=_ACTIONS
)
TABLE.add("DELETE", "/permissions/{role}", revoke_permission, NAMESPACE_ADMIN, priority=P0)
TABLE.add(
    "GET", "/permissions/subscription", get_subscription_permissions, NAMESPACE_ADMIN, priority=P2
)
TABLE.add(
    "POST",
    "/permissions/subscription/{subscription}",
    grant_subscription_permission,
    NAMESPACE_ADMIN,
    priority=P2,
    body=_ROLES,
)
TABLE.add(
    "DELETE",
    "/permissions/{subscription}/{role}",
    revoke_subscription_permission,
    NAMESPACE_ADMIN,
    priority=P2,
)

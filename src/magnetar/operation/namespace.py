"""Namespaces: their life, topics, permissions, bundles and properties."""

from __future__ import annotations

from typing import Final

from magnetar.model.answer.namespace import TopicHashPositions
from magnetar.model.answer.record import BundlesAnswer, NamespacePolicies
from magnetar.model.permission import (
    NAMESPACE_ADMIN,
    NAMESPACE_CONSUME,
    NAMESPACE_READ,
    SUPER_USER,
    TENANT_ADMIN,
)
from magnetar.operation.row import (
    FORCE,
    JSON,
    NAMESPACE,
    NDJSON,
    SUBSCRIPTION,
    TENANT,
    TEXT_PLAIN,
    Answer,
    Kind,
    Place,
    Result,
    Table,
    Verb,
    body,
    flag,
    local,
    path,
    query,
)

ROOT: Final = Table("namespaces", "/admin/v2/namespaces")
TABLE: Final = Table("namespaces", "/admin/v2/namespaces/{tenant}/{namespace}", NAMESPACE)
_ROLE: Final = path("role", "name of the role", "-r", "--role")
_KEY: Final = path("key", "name of the property", "-k", "--key")
_AFFINITY: Final = "/persistence/bookieAffinity"
_BUNDLE: Final = path(
    "bundle", "one bundle, as 0x00000000_0x40000000", "-b", "--bundle", default=None
)

ROOT.add(
    "list",
    "GET /{tenant}",
    TENANT_ADMIN,
    "Namespaces of a tenant.",
    TENANT,
    result=Result.NAMES,
    cli=Verb("list", "list the namespaces of a tenant"),
)
ROOT.add(
    "grant_on_topics",
    "POST /grantPermissionsOnTopics",
    SUPER_USER,
    "Let roles do things with topics, many at once; all of them exist or nothing changes.\n\n"
    "A grant has `topic`, `role` and `actions`.",
    body("grants", Kind.DOCUMENTS),
)
ROOT.add(
    "revoke_on_topics",
    "POST /revokePermissionsOnTopics",
    SUPER_USER,
    "Take permissions on topics away from roles, many at once.\n\n"
    "A revocation has `topic` and `role`.",
    body("revocations", Kind.DOCUMENTS),
)

TABLE.add(
    "topics",
    "GET /topics",
    NAMESPACE_READ,
    "Topics of a namespace: persistent ones, the others, or all; whole, by page or by line.",
    query("mode")
    .asked("which topics", "-m", "--mode", choices=("PERSISTENT", "NON_PERSISTENT", "ALL"))
    ._replace(absent="PERSISTENT"),
    flag("include_system", "includeSystemTopic").asked(
        "also the broker's own topics", "-ist", "--include-system-topic"
    ),
    query("limit", Kind.NUMBER),
    query("after"),
    result=Result.NAMES,
    produces=(JSON, NDJSON),
    cli=Verb("topics", "list the topics of a namespace", ("destinations",)),
)
TABLE.add(
    "get",
    "GET",
    NAMESPACE_ADMIN,
    "All policies of a namespace.",
    result=Answer(NamespacePolicies),
    cli=Verb("policies", "show every policy of a namespace"),
)
TABLE.add(
    "create",
    "PUT",
    TENANT_ADMIN,
    "Create a namespace.",
    body("policies", Kind.DOCUMENT, None, policy="the namespace's policies"),
    local("clusters", Kind.NAMES).asked("clusters to replicate to", "-c", "--clusters", many=True),
    local("bundles", Kind.NUMBER, 0).asked(
        "how many bundles (the broker's own)", "-b", "--bundles"
    ),
    local("topic_buckets", Kind.NUMBER).asked(
        "how many buckets of topic metadata", "--topic-buckets"
    ),
    cli=Verb("create", "add a namespace"),
    is_written=True,
)
TABLE.add(
    "topic_buckets",
    "GET /numberOfTopicBuckets",
    NAMESPACE_ADMIN,
    "In how many buckets the metadata of a namespace's topics is kept.",
    result=Result.NUMBER,
    cli=Verb("topic-buckets", "show in how many buckets the metadata of its topics is kept"),
)
TABLE.add(
    "rebucket",
    "POST /numberOfTopicBuckets",
    NAMESPACE_ADMIN,
    "Refused unless it is the number the namespace was created with.",
    body("topic_buckets", Kind.NUMBER, policy="numberOfTopicBuckets").asked(
        "how many buckets are wanted", "--topic-buckets"
    ),
    cli=Verb(
        "rebucket",
        "always refused: topics are found by the number of buckets; says what to do instead",
    ),
)
TABLE.add(
    "delete",
    "DELETE",
    TENANT_ADMIN,
    "Delete a namespace without topics, or with them when forced.",
    FORCE.asked("with its topics", "-f", "--force"),
    for_owner=True,
    cli=Verb("delete", "remove a namespace"),
)
# Permissions
TABLE.add(
    "permissions",
    "GET /permissions",
    NAMESPACE_ADMIN,
    "What roles may do in a namespace.",
    result=Result.GRANTS,
    cli=Verb("permissions", "show who may do what"),
)
TABLE.add(
    "grant",
    "POST /permissions/{role}",
    NAMESPACE_ADMIN,
    "Let a role do things in a namespace.",
    _ROLE,
    body("actions", Kind.NAMES, missing="Actions should not be null").asked(
        "produce, consume, functions, sources, sinks, packages, with commas", "-a", "--actions"
    ),
    cli=Verb("grant-permission", "allow a role something"),
)
TABLE.add(
    "revoke",
    "DELETE /permissions/{role}",
    NAMESPACE_ADMIN,
    "Take a role's permissions in a namespace away.",
    _ROLE,
    cli=Verb("revoke-permission", "take a role's permissions back"),
)
TABLE.add(
    "subscription_permissions",
    "GET /permissions/subscription",
    NAMESPACE_ADMIN,
    "Which roles may use which subscriptions.\n\n"
    "A subscription that is not named may be used by everybody.",
    result=Result.GRANTS,
    cli=Verb("subscription-permission", "show which roles each subscription is kept for"),
)
TABLE.add(
    "grant_subscription",
    "POST /permissions/subscription/{subscription}",
    NAMESPACE_ADMIN,
    "Let roles use a subscription.",
    SUBSCRIPTION,
    body("roles", Kind.NAMES, missing="Roles should not be null").asked(
        "names of the roles, with commas", "-r", "--roles"
    ),
    cli=Verb("grant-subscription-permission", "keep a subscription for some roles"),
)
TABLE.add(
    "revoke_subscription",
    "DELETE /permissions/{subscription}/{role}",
    NAMESPACE_ADMIN,
    "Take a subscription away from a role.",
    SUBSCRIPTION,
    _ROLE,
    cli=Verb("revoke-subscription-permission", "take a subscription from a role"),
)
# Bundles
TABLE.add(
    "bundles",
    "GET /bundles",
    NAMESPACE_READ,
    "The hash ranges of a namespace.",
    result=Answer(BundlesAnswer),
    cli=Verb("bundles", "show the bundles"),
)
TABLE.add(
    "unload",
    "PUT /unload",
    SUPER_USER,
    "Close all topics of a namespace, so that their clients connect again.",
    _BUNDLE._replace(place=Place.LOCAL),
    local("destination").asked("who should take it next", "-d", "--destinationBroker"),
    for_owner=True,
    cli=Verb("unload", "let the broker go of a namespace or one bundle"),
    is_written=True,
)
TABLE.add(
    "unload_bundle",
    "PUT /{bundle}/unload",
    SUPER_USER,
    "Close all topics of a bundle.",
    path("bundle"),
    query("destination")._replace(wire="destinationBroker"),
    for_owner=True,
)
TABLE.add(
    "split_bundle",
    "PUT /{bundle}/split",
    SUPER_USER,
    "Cut a bundle in two, or at several hashes.",
    path("bundle", "bundle, as 0x00000000_0x40000000, or LARGEST", "-b", "--bundle"),
    flag("unload").asked("unload the halves afterwards", "-u", "--unload"),
    query("algorithm")
    .asked("where to cut", "-san", "--split-algorithm-name")
    ._replace(wire="splitAlgorithmName"),
    body("positions", Kind.NAMES, None).asked(
        "hashes to cut at, with commas; with specified_positions_divide",
        "-sb",
        "--split-boundary",
    ),
    for_owner=True,
    cli=Verb("split-bundle", "cut a bundle in two, or at several hashes"),
)
TABLE.add(
    "topic_hash_positions",
    "GET /{bundle}/topicHashPositions",
    NAMESPACE_ADMIN,
    "The hashes of the topics of a bundle, or of those that are named: where it can be cut.",
    path("bundle", "bundle, as 0x00000000_0x40000000", "-b", "--bundle"),
    query("topics", Kind.NAMES).asked("full names, with commas (all)", "-tl", "--topic-list"),
    result=Answer(TopicHashPositions),
    cli=Verb("get-topic-positions", "show the hashes of the topics of a bundle"),
)
TABLE.add(
    "delete_bundle",
    "DELETE /{bundle}",
    NAMESPACE_ADMIN,
    "Delete the topics of a bundle; refused while there are any unless forced.",
    path("bundle"),
    FORCE,
    for_owner=True,
)
TABLE.add(
    "clear_backlog",
    "POST /clearBacklog",
    NAMESPACE_CONSUME,
    "Acknowledge everything in all subscriptions or one, of a namespace or a bundle.",
    path("subscription", "of one subscription only", "-s", "--sub", default=None),
    _BUNDLE,
    local("force", Kind.FLAG)
    .asked("accepted; there is no question to skip", "-force", "--force")
    ._replace(is_ignored=True),
    for_owner=True,
    also=(
        "/clearBacklog/{subscription}",
        "/{bundle}/clearBacklog",
        "/{bundle}/clearBacklog/{subscription}",
    ),
    cli=Verb("clear-backlog", "acknowledge everything that waits"),
)
TABLE.add(
    "unsubscribe",
    "POST /unsubscribe/{subscription}",
    NAMESPACE_CONSUME,
    "Delete a subscription from every topic of a namespace or a bundle.",
    path("subscription", "name of the subscription", "-s", "--sub"),
    _BUNDLE,
    for_owner=True,
    also=("/{bundle}/unsubscribe/{subscription}",),
    cli=Verb("unsubscribe", "delete a subscription from every topic"),
)
# Properties, and what one cluster keeps by itself
TABLE.add(
    "properties",
    "GET /properties",
    TENANT_ADMIN,
    "The namespace's properties.",
    result=Result.PROPERTIES,
    cli=Verb("get-properties", "show all properties"),
)
TABLE.add(
    "set_properties",
    "PUT /properties",
    TENANT_ADMIN,
    "Add properties, or replace those of the same name.",
    body("properties", Kind.PROPERTIES).asked(
        "a property; may be given again", "-p", "--properties", many=True, variable="KEY=VALUE"
    ),
    cli=Verb("set-properties", "set properties"),
)
TABLE.add(
    "clear_properties",
    "DELETE /properties",
    TENANT_ADMIN,
    "Remove all properties.",
    cli=Verb("clear-properties", "remove all properties"),
)
TABLE.add(
    "property",
    "GET /property/{key}",
    TENANT_ADMIN,
    "One property.",
    _KEY,
    result=Result.MAYBE_TEXT,
    produces=(TEXT_PLAIN,),
    cli=Verb("get-property", "show a property"),
)
TABLE.add(
    "set_property",
    "PUT /property/{key}/{value}",
    TENANT_ADMIN,
    "Set one property.",
    _KEY,
    path("value", "its value", "-v", "--value"),
    cli=Verb("set-property", "set a property"),
)
TABLE.add(
    "remove_property",
    "DELETE /property/{key}",
    TENANT_ADMIN,
    "Remove one property; the answer is what it was.",
    _KEY,
    result=Result.MAYBE_TEXT,
    status=200,
    produces=(TEXT_PLAIN,),
    cli=Verb("remove-property", "remove a property", is_silent=True),
)
TABLE.add(
    "bookie_affinity",
    f"GET {_AFFINITY}",
    SUPER_USER,
    "The groups of storage nodes the namespace prefers.",
    result=Result.MAYBE_DOCUMENT,
)
TABLE.add(
    "set_bookie_affinity",
    f"POST {_AFFINITY}",
    SUPER_USER,
    "Set the groups of storage nodes the namespace prefers.",
    body("group", Kind.PROPERTIES),
)
TABLE.add("remove_bookie_affinity", f"DELETE {_AFFINITY}", SUPER_USER, "Prefer no storage nodes.")
TABLE.add(
    "anti_affinity",
    "GET /antiAffinity",
    NAMESPACE_ADMIN,
    "The group of namespaces that are kept apart.",
    result=Result.MAYBE_TEXT,
    produces=(TEXT_PLAIN,),
)
TABLE.add(
    "set_anti_affinity",
    "POST /antiAffinity",
    NAMESPACE_ADMIN,
    "Put the namespace into a group of namespaces that are kept apart.",
    body("group", Kind.TEXT),
)
TABLE.add(
    "remove_anti_affinity",
    "DELETE /antiAffinity",
    NAMESPACE_ADMIN,
    "Take the namespace out of its group.",
)

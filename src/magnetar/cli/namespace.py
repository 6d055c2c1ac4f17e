"""`magnetar admin namespaces`."""

from __future__ import annotations

from typing import Any, Final

from magnetar.cli.command import NAMESPACE, Argument, Flag, Options, Switch, Verb
from magnetar.cli.value import join, parse_list, parse_pair

_ROLE: Final = Flag(("-r", "--role"), "name of the role", required=True)
_SUBSCRIPTION: Final = Flag(("-s", "--subscription"), "name of the subscription", required=True)
_BUNDLE: Final = Flag(("-b", "--bundle"), "one bundle, as 0x00000000_0x40000000")
_SYSTEM: Final = Switch(("-ist", "--include-system-topic"), "also the broker's own topics")
_KEY: Final = Flag(("-k", "--key"), "name of the property", required=True)


def _create(admin: Any, options: Options) -> None:
    admin.namespaces.create(
        options.namespace,
        clusters=join(options.clusters),
        bundles=options.bundles,
        topic_buckets=options.topic_buckets,
    )


def _topics(admin: Any, options: Options) -> Any:
    return admin.namespaces.topics(
        options.namespace, mode=options.mode, include_system=options.include_system_topic
    )


def _clear_backlog(admin: Any, options: Options) -> None:
    admin.namespaces.clear_backlog(
        options.namespace, subscription=options.sub, bundle=options.bundle
    )


VERBS: Final = (
    Verb(
        "list",
        "list the namespaces of a tenant",
        (Argument("tenant", "name of the tenant"),),
        lambda a, o: a.namespaces.list(o.tenant),
    ),
    Verb(
        "topics",
        "list the topics of a namespace",
        (
            NAMESPACE,
            Flag(
                ("-m", "--mode"),
                "which topics",
                choices=("PERSISTENT", "NON_PERSISTENT", "ALL"),
            ),
            _SYSTEM,
        ),
        _topics,
        aliases=("destinations",),
    ),
    Verb(
        "policies",
        "show every policy of a namespace",
        (NAMESPACE,),
        lambda a, o: a.namespaces.get(o.namespace),
    ),
    Verb(
        "create",
        "add a namespace",
        (
            NAMESPACE,
            Flag(("-c", "--clusters"), "clusters to replicate to", parse=parse_list, many=True),
            Flag(("-b", "--bundles"), "how many bundles (the broker's own)", parse=int, default=0),
            Flag(("--topic-buckets",), "how many buckets of topic metadata", parse=int),
        ),
        _create,
        shows=False,
    ),
    Verb(
        "topic-buckets",
        "show in how many buckets the metadata of its topics is kept",
        (NAMESPACE,),
        lambda a, o: a.namespaces.topic_buckets(o.namespace),
    ),
    Verb(
        "rebucket",
        "always refused: topics are found by the number of buckets; says what to do instead",
        (
            NAMESPACE,
            Flag(("--topic-buckets",), "how many buckets are wanted", parse=int, required=True),
        ),
        lambda a, o: a.namespaces.rebucket(o.namespace, o.topic_buckets),
        shows=False,
    ),
    Verb(
        "delete",
        "remove a namespace",
        (NAMESPACE, Switch(("-f", "--force"), "with its topics")),
        lambda a, o: a.namespaces.delete(o.namespace, force=o.force),
        shows=False,
    ),
    Verb(
        "permissions",
        "show who may do what",
        (NAMESPACE,),
        lambda a, o: a.namespaces.permissions(o.namespace),
    ),
    Verb(
        "grant-permission",
        "allow a role something",
        (
            NAMESPACE,
            _ROLE,
            Flag(
                ("-a", "--actions"),
                "produce, consume, functions, sources, sinks, packages, with commas",
                parse=parse_list,
                required=True,
            ),
        ),
        lambda a, o: a.namespaces.grant(o.namespace, o.role, o.actions),
        shows=False,
    ),
    Verb(
        "revoke-permission",
        "take a role's permissions back",
        (NAMESPACE, _ROLE),
        lambda a, o: a.namespaces.revoke(o.namespace, o.role),
        shows=False,
    ),
    Verb(
        "subscription-permission",
        "show which roles each subscription is kept for",
        (NAMESPACE,),
        lambda a, o: a.namespaces.subscription_permissions(o.namespace),
    ),
    Verb(
        "grant-subscription-permission",
        "keep a subscription for some roles",
        (
            NAMESPACE,
            _SUBSCRIPTION,
            Flag(
                ("-r", "--roles"),
                "names of the roles, with commas",
                parse=parse_list,
                required=True,
            ),
        ),
        lambda a, o: a.namespaces.grant_subscription(o.namespace, o.subscription, o.roles),
        shows=False,
    ),
    Verb(
        "revoke-subscription-permission",
        "take a subscription from a role",
        (NAMESPACE, _SUBSCRIPTION, _ROLE),
        lambda a, o: a.namespaces.revoke_subscription(o.namespace, o.subscription, o.role),
        shows=False,
    ),
    Verb(
        "bundles", "show the bundles", (NAMESPACE,), lambda a, o: a.namespaces.bundles(o.namespace)
    ),
    Verb(
        "unload",
        "let the broker go of a namespace or one bundle",
        (NAMESPACE, _BUNDLE, Flag(("-d", "--destinationBroker"), "who should take it next")),
        lambda a, o: a.namespaces.unload(
            o.namespace, bundle=o.bundle, destination=o.destinationBroker
        ),
        shows=False,
    ),
    Verb(
        "split-bundle",
        "cut a bundle in two",
        (
            NAMESPACE,
            Flag(("-b", "--bundle"), "bundle, as 0x00000000_0x40000000, or LARGEST", required=True),
            Switch(("-u", "--unload"), "unload the halves afterwards"),
            Flag(("-san", "--split-algorithm-name"), "where to cut"),
        ),
        lambda a, o: a.namespaces.split_bundle(
            o.namespace, o.bundle, unload=o.unload, algorithm=o.split_algorithm_name
        ),
        shows=False,
    ),
    Verb(
        "clear-backlog",
        "acknowledge everything that waits",
        (
            NAMESPACE,
            Flag(("-s", "--sub"), "of one subscription only"),
            _BUNDLE,
            Switch(("-force", "--force"), "accepted; there is no question to skip"),
        ),
        _clear_backlog,
        shows=False,
    ),
    Verb(
        "unsubscribe",
        "delete a subscription from every topic",
        (NAMESPACE, Flag(("-s", "--sub"), "name of the subscription", required=True), _BUNDLE),
        lambda a, o: a.namespaces.unsubscribe(o.namespace, o.sub, bundle=o.bundle),
        shows=False,
    ),
    Verb(
        "get-properties",
        "show all properties",
        (NAMESPACE,),
        lambda a, o: a.namespaces.properties(o.namespace),
    ),
    Verb(
        "set-properties",
        "set properties",
        (
            NAMESPACE,
            Flag(
                ("-p", "--properties"),
                "a property; may be given again",
                parse=parse_pair,
                required=True,
                many=True,
                variable="KEY=VALUE",
            ),
        ),
        lambda a, o: a.namespaces.set_properties(o.namespace, dict(o.properties)),
        shows=False,
    ),
    Verb(
        "clear-properties",
        "remove all properties",
        (NAMESPACE,),
        lambda a, o: a.namespaces.clear_properties(o.namespace),
        shows=False,
    ),
    Verb(
        "get-property",
        "show a property",
        (NAMESPACE, _KEY),
        lambda a, o: a.namespaces.property(o.namespace, o.key),
    ),
    Verb(
        "set-property",
        "set a property",
        (NAMESPACE, _KEY, Flag(("-v", "--value"), "its value", required=True)),
        lambda a, o: a.namespaces.set_property(o.namespace, o.key, o.value),
        shows=False,
    ),
    Verb(
        "remove-property",
        "remove a property",
        (NAMESPACE, _KEY),
        lambda a, o: a.namespaces.remove_property(o.namespace, o.key),
        shows=False,
    ),
    Verb(
        "clear-offload-deletion-lag",
        "remove how long moved data stays where it was",
        (NAMESPACE,),
        lambda a, o: a.namespaces.remove_policy(o.namespace, "offload-deletion-lag"),
        shows=False,
    ),
)

"""`magnetar admin namespaces`: properties."""

from __future__ import annotations

from typing import Final

from magnetar.cli.command import NAMESPACE, Flag, Verb
from magnetar.cli.value import parse_pair

_KEY: Final = Flag(("-k", "--key"), "name of the property", required=True)

VERBS: Final = (
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

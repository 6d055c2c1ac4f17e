"""`magnetar admin GROUP VERB`: find the row, parse the rest, call, print."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from magnetar.cli.command import (
    Argument,
    Flag,
    Switch,
    UsageError,
    Verb,
    build_parser,
    format_rows,
    suggest,
)
from magnetar.cli.derive import derive_verbs
from magnetar.cli.output import format_lines, format_result
from magnetar.cli.security import make_authentication, make_tls
from magnetar.cli.table import ADMIN_PARTS
from magnetar.client.admin import AdminClient
from magnetar.operation.row import Table


class Group(NamedTuple):
    """A group's verbs stand in tables of their own, so that one call reads one table."""

    help: str
    tables: tuple[str, ...]
    """Where the verbs are, as module:name below the package, searched in this order. A table of
    operations may be followed by a + and where the commands written by hand are.
    """


_GROUPS: Final[Mapping[str, Group]] = {
    "clusters": Group("clusters and their peers", ("operation.cluster:TABLE+cli.cluster:OWN",)),
    "brokers": Group("brokers, their health and configuration", ("operation.broker:TABLE",)),
    "broker-stats": Group("what a broker counts", ("operation.broker:STATS_TABLE",)),
    "tenants": Group("tenants", ("operation.tenant:TABLE",)),
    "namespaces": Group(
        "namespaces, their policies and bundles",
        (
            "operation.namespace:ROOT",
            "operation.namespace:TABLE",
            "operation.namespace_property:TABLE",
            "cli.policy:NAMESPACE_VERBS",
        ),
    ),
    "topics": Group(
        "topics, their subscriptions, stats and policies",
        (
            "operation.topic:LISTS",
            "operation.topic:TABLE",
            "operation.lookup:TABLE+cli.topic:OWN",
            "operation.topic:ACCESS+cli.topic:OWN",
            "operation.topic_message:TABLE+cli.topic:OWN",
            "operation.subscription:TABLE+cli.subscription:OWN",
            "cli.policy:TOPIC_VERBS",
        ),
    ),
    "scalable-topics": Group(
        "topics of segments that split and merge",
        (
            "operation.scalable:NAMESPACE_TABLE",
            "operation.scalable:TABLE+cli.scalable:OWN",
            "operation.scalable_subscription:TABLE+cli.scalable:OWN",
            "operation.scalable:MIGRATION_TABLE+cli.migration:OWN",
        ),
    ),
    "subscriptions": Group(
        "subscriptions of a topic", ("operation.subscription:TABLE+cli.subscription:OWN",)
    ),
    "topicPolicies": Group("policies set on a topic itself", ("cli.policy:VERBS",)),
    "schemas": Group("schemas of topics", ("operation.schema:TABLE+cli.schema:OWN",)),
}
_ALIASES: Final[Mapping[str, str]] = {
    "cluster": "clusters",
    "broker": "brokers",
    "tenant": "tenants",
    "properties": "tenants",
    "namespace": "namespaces",
    "topic": "topics",
    "persistent": "topics",
    "non-persistent": "topics",
    "scalable-topic": "scalable-topics",
    "scalable": "scalable-topics",
    "subscription": "subscriptions",
    "topic-policies": "topicPolicies",
    "schema": "schemas",
}


def group_names() -> tuple[str, ...]:
    return tuple(_GROUPS)


def _load(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(f"magnetar.{module}"), name)


def _load_table(group: str, place: str) -> Iterable[Verb]:
    place, _, own = place.partition("+")
    table: Table | tuple[Verb, ...] = _load(place)
    if isinstance(table, Table):
        return derive_verbs(table.rows, group, _load(own) if own else {})
    return table


def load_verbs(group: str) -> tuple[Verb, ...]:
    return tuple(verb for place in _GROUPS[group].tables for verb in _load_table(group, place))


def find_verb(group: str, word: str) -> Verb | None:
    for place in _GROUPS[group].tables:
        for verb in _load_table(group, place):
            if verb.is_called(word):
                return verb
    return None


def run(words: list[str]) -> int:
    leading, rest = _split_options(words)
    if not rest or rest[0] in ("-h", "--help"):
        print(_overview())
        return 0 if rest else 2
    name = _ALIASES.get(rest[0], rest[0])
    if name not in _GROUPS:
        raise UsageError(
            f"magnetar admin: no group is called {rest[0]!r}.{suggest(rest[0], _GROUPS)}",
            hint="Try: magnetar admin --help",
        )
    between, rest = _split_options(rest[1:])
    if not rest or rest[0] in ("-h", "--help"):
        print(_describe(name))
        return 0 if rest else 2
    verb = find_verb(name, rest[0])
    if verb is None:
        known = [verb.name for verb in load_verbs(name)]
        raise UsageError(
            f"magnetar admin {name}: no verb is called {rest[0]!r}.{suggest(rest[0], known)}",
            hint=f"Try: magnetar admin {name} --help",
        )
    return _call(name, verb, [*leading, *between, *rest[1:]])


def _call(group: str, verb: Verb, words: list[str]) -> int:
    program = f"magnetar admin {group} {verb.name}"
    parser = build_parser(program, verb.help, verb.parts, ADMIN_PARTS)
    try:
        options = parser.parse_args(words)
    except SystemExit as end:  # --help printed its text
        return int(end.code or 0)
    with (
        warnings.catch_warnings(record=True, action="always", category=UserWarning) as notes,
        AdminClient(
            options.admin_url,
            authentication=make_authentication(options),
            tls=make_tls(options),
            timeout=options.timeout,
        ) as admin,
    ):
        result = verb.run(admin, options)
        if isinstance(result, Iterator):
            for line in format_lines(result, options.output):
                print(line)
            return 0
    for note in notes:
        print(f"magnetar: {note.message}", file=sys.stderr)
    if verb.shows:
        text = format_result(result, options.output)
        if text:
            print(text)
    return 0


def _split_options(words: list[str]) -> tuple[list[str], list[str]]:
    """Take the common options that stand before the next word."""
    flags = {name for part in ADMIN_PARTS if isinstance(part, Flag) for name in part.names}
    switches = {name for part in ADMIN_PARTS if isinstance(part, Switch) for name in part.names}
    place = 0
    while place < len(words) and words[place].startswith("-"):
        name, separator, _ = words[place].partition("=")
        if name in ("-h", "--help"):
            break
        if name not in flags and name not in switches:
            raise UsageError(
                f"magnetar admin: no option is called {name!r}.{suggest(name, flags | switches)}",
                hint="Try: magnetar admin --help",
            )
        place += 1 if separator or name in switches else 2
    return words[:place], words[place:]


def _overview() -> str:
    return "\n".join(
        (
            "usage: magnetar admin [OPTIONS] GROUP VERB [ARGUMENTS]",
            "",
            format_rows((name, group.help) for name, group in _GROUPS.items()),
            "",
            "options, before the group or after the verb:",
            format_rows(
                (", ".join(part.names), part.help)
                for part in ADMIN_PARTS
                if not isinstance(part, Argument)
            ),
            "",
            "The verbs of a group: magnetar admin GROUP --help",
        )
    )


def _describe(group: str) -> str:
    return "\n".join(
        (
            f"usage: magnetar admin {group} VERB [ARGUMENTS]",
            "",
            format_rows((verb.name, verb.help) for verb in load_verbs(group)),
            "",
            f"The arguments of a verb: magnetar admin {group} VERB --help",
        )
    )

"""`magnetar admin GROUP VERB`: find the row, parse the rest, call, print."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from magnetar.cli.command import (
    Argument,
    Flag,
    Switch,
    Verb,
    build_parser,
    choose,
    format_rows,
    unknown,
)
from magnetar.cli.derive import derive_verbs
from magnetar.cli.output import format_lines, format_result
from magnetar.cli.security import make_authentication, make_tls
from magnetar.cli.table import ADMIN_PARTS
from magnetar.operation.row import Table

if TYPE_CHECKING:
    from magnetar.client.admin import AdminClient


class Group(NamedTuple):
    """A group's verbs stand in tables of their own, so that one call reads one table."""

    name: str
    help: str
    tables: str
    """Where the verbs are, as module:name below the package, searched in this order. A table of
    operations may be followed by a + and the module of the commands written by hand.
    """
    aliases: tuple[str, ...] = ()


_GROUPS: Final = (
    Group(
        "clusters", "clusters and their peers", "operation.cluster:TABLE+cli.cluster", ("cluster",)
    ),
    Group(
        "brokers",
        "brokers, their health and configuration",
        "operation.broker:TABLE",
        ("broker",),
    ),
    Group("broker-stats", "what a broker counts", "operation.broker:STATS_TABLE"),
    Group("tenants", "tenants", "operation.tenant:TABLE", ("tenant", "properties")),
    Group(
        "namespaces",
        "namespaces, their policies and bundles",
        "operation.namespace:ROOT operation.namespace:TABLE operation.namespace_property:TABLE"
        " cli.policy:NAMESPACE_VERBS",
        ("namespace",),
    ),
    Group(
        "topics",
        "topics, their subscriptions, stats and policies",
        "operation.topic:LISTS operation.topic:TABLE operation.lookup:TABLE+cli.topic"
        " operation.topic:ACCESS+cli.topic operation.topic_message:TABLE+cli.topic"
        " operation.subscription:TABLE+cli.subscription cli.policy:TOPIC_VERBS",
        ("topic", "persistent", "non-persistent"),
    ),
    Group(
        "scalable-topics",
        "topics of segments that split and merge",
        "operation.scalable:NAMESPACE_TABLE operation.scalable:TABLE+cli.scalable"
        " operation.scalable_subscription:TABLE+cli.scalable"
        " operation.scalable:MIGRATION_TABLE+cli.migration",
        ("scalable-topic", "scalable"),
    ),
    Group(
        "subscriptions",
        "subscriptions of a topic",
        "operation.subscription:TABLE+cli.subscription",
        ("subscription",),
    ),
    Group(
        "topicPolicies",
        "policies set on a topic itself",
        "cli.policy:VERBS",
        ("topic-policies",),
    ),
    Group("schemas", "schemas of topics", "operation.schema:TABLE+cli.schema", ("schema",)),
)


def group_names() -> tuple[str, ...]:
    return tuple(group.name for group in _GROUPS)


def load_verbs(name: str) -> Iterator[Verb]:
    """The tables are read one by one, as their verbs are asked for."""
    group = next(each for each in _GROUPS if each.name == name)
    for place in group.tables.split():
        place, _, own = place.partition("+")
        table: Table | tuple[Verb, ...] = _load(place)
        if isinstance(table, Table):
            yield from derive_verbs(table.rows, name, _load(f"{own}:OWN") if own else {})
        else:
            yield from table


def _load(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(f"magnetar.{module}"), name)


def run(words: list[str]) -> int:
    leading, rest = _split_options(words)
    group = choose("magnetar admin", "group", rest, _GROUPS, _overview)
    between, rest = _split_options(rest[1:])
    program = f"magnetar admin {group.name}"
    verb = choose(program, "verb", rest, load_verbs(group.name), lambda: _describe(group.name))
    return _call(f"{program} {verb.name}", verb, [*leading, *between, *rest[1:]])


def _call(program: str, verb: Verb, words: list[str]) -> int:
    options = build_parser(program, verb.help, verb.parts, ADMIN_PARTS).parse_args(words)
    make_client: type[AdminClient] = _load("client.admin:AdminClient")
    with (
        warnings.catch_warnings(record=True, action="always", category=UserWarning) as notes,
        make_client(
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
            raise unknown("magnetar admin", "option", name, flags | switches)
        place += 1 if separator or name in switches else 2
    return words[:place], words[place:]


def _overview() -> str:
    return "\n\n".join(
        (
            "usage: magnetar admin [OPTIONS] GROUP VERB [ARGUMENTS]",
            format_rows((group.name, group.help) for group in _GROUPS),
            "options, before the group or after the verb:\n"
            + format_rows(
                (", ".join(part.names), part.help)
                for part in ADMIN_PARTS
                if not isinstance(part, Argument)
            ),
            "The verbs of a group: magnetar admin GROUP --help",
        )
    )


def _describe(group: str) -> str:
    return "\n\n".join(
        (
            f"usage: magnetar admin {group} VERB [ARGUMENTS]",
            format_rows((verb.name, verb.help) for verb in load_verbs(group)),
            f"The arguments of a verb: magnetar admin {group} VERB --help",
        )
    )

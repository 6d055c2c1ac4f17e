"""`magnetar admin GROUP VERB`: find the row, parse the rest, call, print."""

from __future__ import annotations

import importlib
import sys
import time
import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from magnetar.cli.command import Argument, Options, Verb, build_parser, choose, format_rows, unknown
from magnetar.cli.derive import derive_verbs
from magnetar.cli.output import format_lines, format_result
from magnetar.cli.screen import BOLD, follow, paint
from magnetar.cli.table import ADMIN_ARGUMENTS
from magnetar.cli.value import parse_seconds
from magnetar.operation.row import Table
from magnetar.runtime import wall

_WATCH: Final = Argument(
    "--watch",
    "show it again and again, every so many seconds (2), until Ctrl-C",
    parse_seconds,
    variable="SECONDS",
    alone=2.0,
)


def _group(name: str, help: str, tables: str, *aliases: str, written: str = "written") -> Verb:
    """A group's verbs stand in tables of their own, so that one call reads one table.

    They are searched in the order of `tables`: modules of `operation/`, with the table's name if it
    is another, or whole commands. What they do beside a single call is in the module `written`.
    """
    load = partial(_load_verbs, name, tables.split(), written)
    return Verb(name, help, (), load, aliases, is_group=True)


def _load_verbs(group: str, places: list[str], written: str) -> Iterator[Verb]:
    """What only looks can be watched."""
    for place in places:
        module, _, table = place.partition(":")
        found = _load(module if "." in module else f"operation.{module}", table or "TABLE")
        if isinstance(found, Table):
            found = derive_verbs(found.rows, group, _load(f"cli.{written}", "OWN"))
        for verb in found:
            yield verb._replace(arguments=(*verb.arguments, _WATCH)) if verb.only_looks else verb


def _load(module: str, name: str) -> Any:
    return getattr(importlib.import_module(f"magnetar.{module}"), name)


GROUPS: Final = (
    _group("clusters", "clusters and their peers", "cluster", "cluster"),
    _group("brokers", "brokers, their health and configuration", "broker", "broker"),
    _group("broker-stats", "what a broker counts", "broker:STATS_TABLE"),
    _group("bookies", "bookies and their racks", "bookie", "bookie"),
    _group("ns-isolation-policy", "brokers that are kept for namespaces", "cluster"),
    _group("tenants", "tenants", "tenant", "tenant", "properties"),
    _group(
        "namespaces",
        "namespaces, their policies and bundles",
        "namespace:ROOT namespace cli.policy:NAMESPACE_VERBS",
        "namespace",
    ),
    _group(
        "topics",
        "topics, their subscriptions, stats and policies",
        "topic:LISTS console topic lookup topic:ACCESS topic_message subscription"
        " cli.policy:TOPIC_VERBS",
        *("topic", "persistent", "non-persistent"),
    ),
    _group(
        "scalable-topics",
        "topics of segments that split and merge",
        "scalable:NAMESPACE_TABLE scalable scalable_subscription scalable:MIGRATION_TABLE",
        *("scalable-topic", "scalable"),
        written="scalable",
    ),
    _group("subscriptions", "subscriptions of a topic", "subscription", "subscription"),
    _group("topicPolicies", "policies set on a topic itself", "cli.policy:VERBS", "topic-policies"),
    _group("schemas", "schemas of topics", "schema", "schema"),
    _group("transactions", "transactions and their coordinators", "transaction", "transaction"),
)


def group_names() -> list[str]:
    return [group.name for group in GROUPS]


def load_verbs(name: str) -> Iterator[Verb]:
    """The tables are read one by one, as their verbs are asked for."""
    verbs: Iterator[Verb] = next(group for group in GROUPS if group.name == name).run()
    return verbs


def run(words: list[str]) -> int:
    leading, rest = _split_options(words)
    common = format_rows((", ".join(argument.names), argument.help) for argument in ADMIN_ARGUMENTS)
    group = choose(
        "magnetar admin",
        "group",
        rest,
        GROUPS,
        usage="usage: magnetar admin [OPTIONS] GROUP VERB [ARGUMENTS]",
        more=f"options, before the group or after the verb:\n{common}\n\n"
        "The verbs of a group: magnetar admin GROUP --help",
    )
    between, rest = _split_options(rest[1:])
    program = f"magnetar admin {group.name}"
    more = f"The arguments of a verb: {program} VERB --help"
    verb = choose(program, "verb", rest, group.run(), more=more)
    return _call(f"{program} {verb.name}", verb, [*leading, *between, *rest[1:]])


def _call(program: str, verb: Verb, words: list[str]) -> int:
    options = build_parser(program, verb, ADMIN_ARGUMENTS).parse_args(close_watch(words))
    from magnetar import Admin
    from magnetar.cli.security import make_authentication, make_tls

    with (
        warnings.catch_warnings(record=True, action="always", category=UserWarning) as notes,
        Admin(
            options.admin_url,
            authentication=make_authentication(options),
            tls=make_tls(options),
            timeout=options.timeout,
        ) as admin,
    ):
        if vars(options).get("watch"):
            _watch(f"{program} {' '.join(words)}", verb, admin, options)
            return 0
        result = verb.run(admin, options)
        if isinstance(result, Iterator):
            for line in format_lines(result, options.output):
                print(line)
            return 0
    for note in notes:
        print(f"magnetar: {note.message}", file=sys.stderr)
    if verb.shows:
        text = format_result(result, options.output, _emphasize)
        if text:
            print(text)
    return 0


def _emphasize(heading: str) -> str:
    return paint(heading, BOLD, sys.stdout)


def _watch(title: str, verb: Verb, admin: Any, options: Options) -> None:
    def look() -> str:
        found = verb.run(admin, options)
        found = list(found) if isinstance(found, Iterator) else found
        return format_result(found, options.output, _emphasize)

    def pause() -> bool:
        time.sleep(options.watch)
        return True

    follow(look, sys.stdout, title=title, now_ms=wall.now_ms, pause=pause)


def close_watch(words: list[str]) -> list[str]:
    """The word after a bare --watch is not its value unless it is a number."""
    if "--watch" not in words:
        return words
    place = words.index("--watch")
    after = words[place + 1 : place + 2]
    is_value = bool(after) and after[0].replace(".", "", 1).isdigit()
    return words if is_value else [*words[:place], f"--watch={_WATCH.alone}", *words[place + 1 :]]


def _split_options(words: list[str]) -> tuple[list[str], list[str]]:
    """Take the common options that stand before the next word."""
    takes_value = {
        name: argument.parse is not None for argument in ADMIN_ARGUMENTS for name in argument.names
    }
    place = 0
    while place < len(words) and words[place].startswith("-"):
        name, separator, _ = words[place].partition("=")
        if name in ("-h", "--help"):
            break
        if name not in takes_value:
            raise unknown("magnetar admin", "option", name, takes_value)
        place += 2 if takes_value[name] and not separator else 1
    return words[:place], words[place:]

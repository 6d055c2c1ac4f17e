"""`magnetar admin scalable-topics migrate-to-scalable`: rehearse, do, and follow what is left."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from magnetar.cli.command import Argument, Options, Switch, UsageError, Verb, format_rows
from magnetar.model.name import parse_topic
from magnetar.model.segment import scalable_name

_TOPIC: Final = Argument("topic", "persistent://tenant/namespace/topic, or without persistent://")
_LOOK_AGAIN_S: Final = 0.5
_BAR_WIDTH: Final = 30
_LISTED_MAX: Final = 8


def _migrate(admin: Any, options: Options) -> Any:
    if options.dry_run:
        if options.wait:
            raise UsageError(
                "magnetar: --dry-run changes nothing, so there is nothing to --wait for"
            )
        return _rehearse(admin, options)
    admin.scalable_topics.migrate_to_scalable(options.topic, force=options.force)
    name = scalable_name(parse_topic(options.topic)).full
    if options.wait:
        for left in _follow(admin, name):
            print(left, end="\r" if sys.stderr.isatty() else "\n", file=sys.stderr, flush=True)
        if sys.stderr.isatty():
            print(file=sys.stderr)
    return {"scalable": name} if options.output == "json" else f"scalable now: {name}"


def _follow(admin: Any, topic: str) -> Iterator[str]:
    """A line for each look at what must be read of the regular topic, until nothing is left."""
    first = 0
    while True:
        segments = admin.scalable_topics.segments(topic)
        left = count_left(segments)
        first = max(first, left)
        yield format_progress(first - left, first)
        if not left:
            return
        time.sleep(_LOOK_AGAIN_S)


def count_left(segments: Mapping[str, Mapping[str, Any]]) -> int:
    """Entries of what was regular, counted once for each subscription that has to read them."""
    return sum(
        backlog["msgBacklog"]
        for segment in segments.values()
        if segment["name"].startswith("persistent://")
        for backlog in segment["subscriptions"].values()
    )


def format_progress(done: int, total: int) -> str:
    share = done / total if total else 1.0
    filled = int(share * _BAR_WIDTH)
    bar = "#" * filled + "." * (_BAR_WIDTH - filled)
    return f"[{bar}] {share:4.0%}  {total - done:,} to read"


def _rehearse(admin: Any, options: Options) -> Any:
    found = admin.scalable_topics.migration_check(options.topic)
    return found if options.output == "json" else format_rehearsal(found)


def format_rehearsal(found: Mapping[str, Any]) -> str:
    partitions = found["partitions"]
    kind = f"{partitions} partitions" if partitions else "no partitions"
    parts = [f"{found['topic']} ({kind}) would become {found['scalableTopic']}"]
    if found["segments"]:
        rows = [(state.lower(), name) for name, state in found["segments"].items()]
        hidden = len(rows) - 2 * _LISTED_MAX
        if hidden > 0:
            rows = [*rows[:_LISTED_MAX], ("...", f"{hidden} more"), *rows[-_LISTED_MAX:]]
        parts.append("Segments:\n" + format_rows(rows))
    if found["subscriptions"]:
        rows = [(name, _describe_backlog(each)) for name, each in found["subscriptions"].items()]
        parts.append("To be read before new messages, in order:\n" + format_rows(rows))
    if found["v4Clients"]:
        rows = [
            (f"{each['type']} {each['name']}", f"{each['address']}  {each['clientVersion']}")
            for each in found["v4Clients"]
        ]
        parts.append("v4 clients that would be locked out:\n" + format_rows(rows))
    refusals = "\n".join(f"  {sentence}" for sentence in found["refusals"])
    parts.append(f"It would be refused:\n{refusals}" if refusals else "Nothing is in the way.")
    return "\n\n".join(parts)


def _describe_backlog(backlog: Mapping[str, Any]) -> str:
    count, seconds = backlog["msgBacklog"], backlog.get("drainSeconds")
    if not count:
        return "nothing"
    if seconds is None:
        return f"{count:,} entries, and nobody is reading"
    return f"{count:,} entries, about {seconds:,.0f} s at {backlog['msgRateOut']:,.0f} messages/s"


VERBS: Final = (
    Verb(
        "migrate-to-scalable",
        "make a regular topic scalable; there is no way back",
        (
            _TOPIC,
            Switch(("-f", "--force"), "even with v4 clients attached, which are locked out"),
            Switch(("-n", "--dry-run"), "say what would be done and what is in the way"),
            Switch(("-w", "--wait"), "follow until everything of the regular topic is read"),
        ),
        _migrate,
        aliases=("migrate",),
    ),
    Verb(
        "migration-check",
        "say what migrating would do and what is in the way",
        (_TOPIC,),
        _rehearse,
    ),
)

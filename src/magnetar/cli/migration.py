"""`magnetar admin scalable-topics migrate-to-scalable`: rehearse, do, and follow what is left."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from magnetar.cli.command import Options, UsageError, format_rows
from magnetar.cli.progress import format_bar
from magnetar.model.name import parse_topic
from magnetar.model.segment import scalable_name

_LOOK_AGAIN_S: Final = 0.5
_LISTED_MAX: Final = 8
_PATIENCE_LOOKS: Final = 6


def migrate(admin: Any, options: Options) -> Any:
    if options.dry_run:
        if options.wait:
            raise UsageError(
                "magnetar: --dry-run changes nothing, so there is nothing to --wait for"
            )
        found = admin.scalable_topics.migration_check(options.topic, segments=options.segments)
        return found if options.output == "json" else format_rehearsal(found)
    admin.scalable_topics.migrate_to_scalable(
        options.topic, force=options.force, segments=options.segments
    )
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
    standstill = Standstill()
    while True:
        left = count_left(admin.scalable_topics.segments(topic))
        first = max(first, left)
        unread: Sequence[str] = ()
        if standstill.look(left):
            unread = find_unread(admin.scalable_topics.subscriptions(topic))
        yield format_progress(first - left, first, unread)
        if not left:
            return
        time.sleep(_LOOK_AGAIN_S)


class Standstill:
    """Explain to the operator why nothing was read for a while."""

    def __init__(self) -> None:
        self._before: int | None = None
        self._looks = 0

    def look(self, left: int) -> bool:
        self._looks = self._looks + 1 if left and left == self._before else 0
        self._before = left
        return self._looks >= _PATIENCE_LOOKS


def find_unread(subscriptions: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Those with a backlog and without a consumer."""
    found = subscriptions.items()
    return [name for name, each in found if each["msgBacklog"] and not each["consumerCount"]]


def count_left(segments: Mapping[str, Mapping[str, Any]]) -> int:
    """Entries of what was regular, counted once for each subscription that has to read them."""
    return sum(
        backlog["msgBacklog"]
        for segment in segments.values()
        if segment["name"].startswith("persistent://")
        for backlog in segment["subscriptions"].values()
    )


def format_progress(done: int, total: int, unread: Sequence[str] = ()) -> str:
    waits = f"; no consumer on {', '.join(unread)}" if unread else ""
    return f"{format_bar(done, total)}  {total - done:,} to read{waits}"


def format_rehearsal(found: Mapping[str, Any]) -> str:
    parts = []
    if found["segments"]:
        count = found["partitions"]
        kind = f"{count} partition{'s' if count > 1 else ''}" if count else "no partitions"
        parts.append(f"{found['topic']} ({kind}) would become {found['scalableTopic']}")
        rows = [(state.lower(), name) for name, state in found["segments"].items()]
        hidden = len(rows) - 2 * _LISTED_MAX
        if hidden > 0:
            rows = [*rows[:_LISTED_MAX], ("...", f"{hidden} more"), *rows[-_LISTED_MAX:]]
        parts.append("Segments:\n" + format_rows(rows))
    if found["subscriptions"]:
        rows = [(name, _describe_backlog(each)) for name, each in found["subscriptions"].items()]
        parts.append("To be read before new messages, in order:\n" + format_rows(rows))
    if found["v4Clients"]:
        rows = _describe_clients(found["v4Clients"])
        parts.append("v4 clients that would be locked out:\n" + format_rows(rows))
    if found["notes"]:
        parts.append("To be known:\n" + "\n".join(f"  {note}" for note in found["notes"]))
    refusals = "\n".join(f"  {sentence}" for sentence in found["refusals"])
    parts.append(f"It would be refused:\n{refusals}" if refusals else "Nothing is in the way.")
    return "\n\n".join(parts)


def _describe_clients(clients: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """A client of several partitions is attached to each of them; one line tells of all."""
    places = Counter(
        (
            f"{each['type']} {each['name']}"
            + (f" of {each['subscription']}" if "subscription" in each else ""),
            f"{each['address']}  {each['clientVersion'] or 'unknown'}",
        )
        for each in clients
    )
    return [
        (who, where if count == 1 else f"{where}  on {count} partitions")
        for (who, where), count in places.items()
    ]


def _describe_backlog(backlog: Mapping[str, Any]) -> str:
    count, seconds = backlog["msgBacklog"], backlog.get("drainSeconds")
    if not count:
        return "nothing"
    if seconds is None:
        return f"{count:,} entries, of which none is being read at present"
    rate = backlog["msgRateOut"]
    return f"{count:,} entries, about {_format_time(seconds)} at {rate:,.0f} messages/s"


def _format_time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:,.0f} h"

"""`magnetar top`: brokers and their busiest topics, live."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from magnetar import Admin, AdminNotFound
from magnetar.cli.command import Options, UsageError
from magnetar.cli.output import format_result
from magnetar.cli.quantity import format_bytes, format_rate, format_span
from magnetar.cli.screen import BOLD, follow, is_terminal, paint
from magnetar.cli.security import make_authentication, make_tls
from magnetar.runtime import wall

SORTS: Final[Mapping[str, str]] = {
    "in": "msgRateIn",
    "out": "msgRateOut",
    "lag": "lag",
    "storage": "storageSize",
    "name": "name",
}
"""What the rows may be sorted by, and what the broker calls it."""
_HEAD_LINES: Final = 8
_ROWS_MIN: Final = 5


def run(options: Options) -> int:
    if options.times < 0:
        raise UsageError("magnetar top: --times is 0 at least")
    with Admin(
        options.admin_url,
        authentication=make_authentication(options),
        tls=make_tls(options),
        timeout=options.timeout,
    ) as admin:
        _show(admin, options)
    return 0


def _show(admin: Admin, options: Options) -> None:
    before: dict[str, Any] = {}
    left: int = options.times

    def look() -> str:
        nonlocal before
        found = _load(admin, options)
        if options.output == "json":
            return json.dumps(found)
        text = format_look(
            found, before.get("overview"), lambda head: paint(head, BOLD, sys.stdout)
        )
        before = found
        return text

    def pause() -> bool:
        nonlocal left
        left -= 1
        if left:
            time.sleep(options.interval)
        return left != 0

    if options.output == "json":
        print(look(), flush=True)
        while pause():
            print(look(), flush=True)
        return
    follow(look, sys.stdout, title="magnetar top", now_ms=wall.now_ms, pause=pause)


def _load(admin: Admin, options: Options) -> dict[str, Any]:
    rows = options.rows
    if rows is None:
        height = shutil.get_terminal_size().lines if is_terminal(sys.stdout) else 30
        rows = max(_ROWS_MIN, height - _HEAD_LINES)
    try:
        table = admin.topics.table(
            text=options.filter,
            sort=SORTS[options.sort],
            descending=options.sort != "name",
            limit=rows,
        )
        return {"overview": admin.brokers.overview(), "topics": table}
    except AdminNotFound as refusal:
        refusal.add_note("It is served with the web console: is webConsoleEnabled=false there?")
        raise


def format_look(
    found: Mapping[str, Any], before: Mapping[str, Any] | None, emphasize: Any = str
) -> str:
    """`before` is an earlier overview: what is counted since the start is shown as a rate."""
    now, table = found["overview"], found["topics"]
    lines = [*_format_broker(now, before)]
    rows = [_format_row(row) for row in table["rows"]]
    if rows:
        lines += ["", format_result(rows, "table", emphasize)]
    hidden = table["total"] - len(rows)
    if hidden > 0:
        lines.append(f"{hidden:,} more topics; --rows, --sort and --filter choose")
    return "\n".join(lines)


def _format_broker(now: Mapping[str, Any], before: Mapping[str, Any] | None) -> Iterator[str]:
    total = now["topics"]
    since = format_span((now["atMs"] - now["startedMs"]) / 1000)
    brokers = now.get("brokers", {})
    others = f" and {len(brokers) - 1} more" if len(brokers) > 1 else ""
    name = f"broker {now['brokerId']}{others}"
    yield f"{now['cluster']}, {name}, version {now['version']}, up {since}"
    yield (
        f"in {format_rate(total['msgRateIn'])} messages/s ({format_bytes(total['bytesRateIn'])}/s)"
        f"   out {format_rate(total['msgRateOut'])} messages/s"
        f" ({format_bytes(total['bytesRateOut'])}/s)"
        f"   lag {_format_lag(total)}   stored {format_bytes(total['storageSize'])}"
    )
    if brokers:
        connections = sum(each["connections"] for each in brokers.values())
        memory = sum(each["residentBytes"] for each in brokers.values())
        earlier = {} if before is None else before.get("brokers", {})
        yield (
            f"topics {total['parts']:,}   connections {connections:,}"
            f"   memory {format_bytes(memory)}{_format_work(brokers, earlier)}"
        )
    for broker_id, each in brokers.items():
        if each["trouble"]:
            yield f"TROUBLE: {each['trouble']}{others and f' ({broker_id})'}"
    for broker_id in now.get("silentBrokers", ()):
        yield f"TROUBLE: {broker_id} does not answer"


def _format_work(now: Mapping[str, Any], before: Mapping[str, Any]) -> str:
    """Of the time between two looks, of all brokers that were there."""
    spans = [
        (each, before[name])
        for name, each in now.items()
        if name in before and each["atMs"] > before[name]["atMs"]
    ]
    if not spans:
        return ""

    def grown(name: str) -> float:
        return sum(float(each[name] - earlier[name]) for each, earlier in spans)

    seconds = grown("atMs") / len(spans) / 1000
    held_ms = 1000 * grown("loopHeldSeconds") / max(1, grown("loopLooks"))
    return f"   cpu {100 * grown('cpuSeconds') / seconds:.0f} %   loop held {held_ms:.1f} ms"


def _format_row(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "topic": row["name"],
        "kind": row["kind"],
        "parts": row["parts"],
        "in/s": format_rate(row["msgRateIn"]),
        "out/s": format_rate(row["msgRateOut"]),
        "lag": _format_lag(row),
        "stored": format_bytes(row["storageSize"]),
        "producers": row["producers"],
        "consumers": row["consumers"],
    }


def _format_lag(row: Mapping[str, Any]) -> str:
    return f"{'' if row['isLagExact'] else '~'}{row['lag']:,}"

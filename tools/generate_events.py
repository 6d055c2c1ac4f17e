"""Write docs/events.md: every event that a log line can have, read from the calls in the source.

python tools/generate_events.py           write it
python tools/generate_events.py --check   fail when it is not what would be written

An event is a fixed text: a call that makes one up is refused here, since nothing could wait for it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "magnetar"
PAGE = ROOT / "docs" / "events.md"
LOGGER = SOURCE / "runtime" / "log.py"
LEVELS = ("error", "warning", "info")
ROOMS = ("app", "broker", "admin", "metadata", "ledger", "runtime")
"""What runs in a broker; clients log by the standard library's names too."""
HEAD = """\
# Log events

Written by `tools/generate_events.py` from the source. A log line is a time, a level, a logger, an
**event** and fields: as text, or with `--log-format json` as one object with the members `time`,
`level`, `logger`, `event`, `error` and the fields. Events are fixed texts: they name what
happened, the fields tell to what. Alert on `event`, not on a whole line; a change of one is noted
in the changelog. Fields whose names speak of secrets are masked. Lines that a stranger or a
failing disk could cause without end come once a second at most, with `left_out` telling how many
did not. `--log-level debug` adds more, which is not listed.

| event | level | logger | fields |
| --- | --- | --- | --- |
"""


class Event(NamedTuple):
    text: str
    level: str
    logger: str
    fields: tuple[str, ...]


def find_events(path: Path) -> Iterator[Event]:
    logger = ".".join(("magnetar", *path.relative_to(SOURCE).with_suffix("").parts))
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if node.func.attr not in LEVELS or not is_log(node.func.value) or not node.args:
            continue
        fields = tuple(each.arg or "…" for each in node.keywords if each.arg != "error")
        for text in texts_of(node.args[0], f"{path}:{node.lineno}"):
            yield Event(text, node.func.attr, logger, fields)


def is_log(node: ast.expr) -> bool:
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return name.strip("_").endswith(("log", "logger")) and name != "self"


def texts_of(node: ast.expr, where: str) -> Iterator[str]:
    match node:
        case ast.Constant(value=str() as text):
            yield text
        case ast.IfExp():
            yield from texts_of(node.body, where)
            yield from texts_of(node.orelse, where)
        case _:
            raise SystemExit(f"{where}: the event of a log line is not a fixed text")


def all_events() -> list[Event]:
    files = (path for room in ROOMS for path in sorted((SOURCE / room).rglob("*.py")))
    found = {event for path in files if path != LOGGER for event in find_events(path)}
    return sorted(found, key=lambda each: (each.logger, each.text, each.level, each.fields))


def write_page() -> str:
    rows = (
        f"| {each.text} | {each.level} | `{each.logger}` | {', '.join(each.fields)} |\n"
        for each in all_events()
    )
    return HEAD + "".join(rows)


if __name__ == "__main__":
    from output import finish

    finish({PAGE: write_page()})

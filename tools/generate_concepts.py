"""Write the pictures of docs/concepts.md: the log of a topic with a cursor, and a layout over time.

python tools/generate_concepts.py [--check]
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from output import ROOT, finish

LOG = ROOT / "docs" / "concept-log.svg"
LAYOUT = ROOT / "docs" / "concept-layout.svg"
FONT = 'font-family="sans-serif"'
ACKNOWLEDGED, PENDING, EMPTY, ACTIVE, SEALED = "#eaf6e6", "#fbf1dc", "#ffffff", "#e4f0fb", "#e6e6e6"

# Entries of three ledgers: whether each is acknowledged. The last ledger is open.
LEDGERS = ((7, "aaaaaa"), (9, "aa-a-a"), (12, "----"))
CELL = 34


class Segment(NamedTuple):
    """A hash range in hexadecimal, and the epochs that it was active in."""

    number: int
    first: int
    last: int
    born: int
    sealed: int | None = None
    parents: tuple[int, ...] = ()


SEGMENTS = (
    Segment(0, 0x0000, 0xFFFF, 0, 1),
    Segment(1, 0x0000, 0x7FFF, 1, 2, (0,)),
    Segment(2, 0x8000, 0xFFFF, 1, 3, (0,)),
    Segment(3, 0x0000, 0x3FFF, 2, None, (1,)),
    Segment(4, 0x4000, 0x7FFF, 2, 3, (1,)),
    Segment(5, 0x4000, 0xFFFF, 3, None, (2, 4)),
)
EPOCHS = ("created", "split of 0", "split of 1", "merge of 2 and 4")
COLUMN, HEIGHT, LEFT, TOP = 170, 256, 70, 40


def text(x: int, y: int, words: str, *, size: int = 12, anchor: str = "middle") -> str:
    return f'<text x="{x}" y="{y}" {FONT} font-size="{size}" text-anchor="{anchor}">{words}</text>'


def box(x: int, y: int, width: int, height: int, colour: str) -> str:
    place = f'x="{x}" y="{y}" width="{width}" height="{height}"'
    return f'<rect {place} rx="4" fill="{colour}" stroke="#555"/>'


def picture(width: int, height: int, title: str, parts: Iterator[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">'
    ground = f'<rect width="{width}" height="{height}" fill="#ffffff"/>'
    return "\n".join((head, f"<title>{title}</title>", ground, *parts, "</svg>", ""))


def draw_log() -> Iterator[str]:
    x = 20
    mark = "".join(entries for _, entries in LEDGERS).index("-")
    seen = 0
    for ledger, entries in LEDGERS:
        is_open = ledger == LEDGERS[-1][0]
        state = "open" if is_open else "sealed"
        yield text(x + len(entries) * CELL // 2, 28, f"ledger {ledger}, {state}")
        for number, kind in enumerate(entries):
            colour = ACKNOWLEDGED if kind == "a" else PENDING
            yield box(x + number * CELL, 40, CELL - 4, CELL, colour)
            yield text(x + number * CELL + (CELL - 4) // 2, 62, f"{ledger}:{number}", size=10)
            if seen + number == mark - 1:
                edge = x + (number + 1) * CELL - 2
                yield f'<path d="M{edge} 34 V104" stroke="#c00" stroke-width="2"/>'
                yield text(edge, 120, "mark-delete position: all before it is acknowledged")
        seen += len(entries)
        x += len(entries) * CELL + 24
        if is_open:
            yield box(x - 24, 40, CELL - 4, CELL, EMPTY)
            yield text(x - 24 + (CELL - 4) // 2, 62, "next", size=10)
    yield text(20, 150, "green: acknowledged; behind the position entry by entry", anchor="start")
    yield text(20, 168, "yellow: the backlog of the subscription", anchor="start")


def draw_layout() -> Iterator[str]:
    for column, what in enumerate(EPOCHS):
        yield text(LEFT + column * COLUMN + COLUMN // 2, 24, f"epoch {column}: {what}")
    for place in range(5):
        value = min(0xFFFF, place * 0x4000)
        yield text(LEFT - 10, TOP + place * HEIGHT // 4 + 4, f"{value:04x}", size=11, anchor="end")
    for segment in SEGMENTS:
        end = len(EPOCHS) if segment.sealed is None else segment.sealed
        for column in range(segment.born, end):
            y = TOP + segment.first * HEIGHT // 0x10000
            height = (segment.last + 1 - segment.first) * HEIGHT // 0x10000
            is_last = segment.sealed is not None and column == end - 1
            x = LEFT + column * COLUMN
            yield box(x + 4, y + 2, COLUMN - 8, height - 4, SEALED if is_last else ACTIVE)
            after = f", after {' and '.join(map(str, segment.parents))}" if segment.parents else ""
            label = f"segment {segment.number}{after if column == segment.born else ''}"
            yield text(x + COLUMN // 2, y + height // 2 + 4, label)
    foot = "grey: sealed at the end of its column; read to its end before its children"
    yield text(LEFT, TOP + HEIGHT + 24, foot, anchor="start")


def check() -> None:
    """In every epoch the active segments cover each hash once."""
    for epoch in range(len(EPOCHS)):
        active = sorted(
            (each.first, each.last)
            for each in SEGMENTS
            if each.born <= epoch and (each.sealed is None or epoch < each.sealed)
        )
        firsts = [first for first, _ in active]
        assert firsts == [0, *(last + 1 for _, last in active[:-1])] and active[-1][1] == 0xFFFF


if __name__ == "__main__":
    check()
    width = LEFT + len(EPOCHS) * COLUMN + 20
    finish(
        {
            LOG: picture(665, 185, "The log of a topic and a subscription's cursor", draw_log()),
            LAYOUT: picture(width, TOP + HEIGHT + 40, "A layout over time", draw_layout()),
        }
    )

"""Write docs/spark.svg: the way of the data between topics, Spark and tables.

python tools/generate_spark.py [--check]
"""

from __future__ import annotations

from html import escape
from typing import NamedTuple

from output import ROOT, finish

TARGET = ROOT / "docs" / "spark.svg"
WIDTH, HEIGHT = 900, 330
FONT = 'font-family="sans-serif"'


class Box(NamedTuple):
    x: int
    y: int
    width: int
    height: int
    colour: str
    text: str
    """A title and lines, with bars between them."""


BOXES = (
    Box(20, 60, 190, 200, "#e8f1fb", "topic|segment 0, sealed|segment 1|segment 2"),
    Box(280, 20, 200, 86, "#f4f4f4", "driver: plan|layout and ends of segments|offsets, hold"),
    Box(280, 126, 200, 86, "#eaf6ea", "tasks: read|one segment each, in order|Arrow batches"),
    Box(280, 232, 200, 86, "#eaf6ea", "tasks: write|numbered rows, one name|per task"),
    Box(550, 126, 140, 192, "#fdf6e3", "your query|select, filter,|windows, joins,|or a pipeline"),
    Box(750, 126, 130, 192, "#fbeaea", "table|Delta Lake,|Parquet;|file, s3a,|hdfs, abfs"),
)
# From, to, what goes there.
ARROWS = (
    ((210, 75), (280, 62), "admin"),
    ((380, 106), (380, 126), ""),
    ((210, 165), (280, 168), "binary"),
    ((480, 168), (550, 168), "rows"),
    ((690, 190), (750, 190), "commit"),
    ((750, 285), (690, 285), "replay"),
    ((550, 275), (480, 275), "rows"),
    ((280, 275), (210, 240), "send"),
)


def draw_box(box: Box) -> list[str]:
    title, *lines = box.text.split("|")
    parts = [
        f'<rect x="{box.x}" y="{box.y}" width="{box.width}" height="{box.height}" rx="6"'
        f' fill="{box.colour}" stroke="#555"/>',
        f'<text x="{box.x + 12}" y="{box.y + 24}" font-weight="bold">{escape(title)}</text>',
    ]
    for number, line in enumerate(lines):
        y = box.y + 48 + 20 * number
        parts.append(f'<text x="{box.x + 12}" y="{y}">{escape(line)}</text>')
    return parts


def draw() -> str:
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" {FONT}'
        ' font-size="13">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8"'
        ' markerHeight="8" orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="#555"/></marker></defs>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    ]
    for box in BOXES:
        parts += draw_box(box)
    for (x1, y1), (x2, y2), words in ARROWS:
        parts.append(
            f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="#555" stroke-width="1.5"'
            ' marker-end="url(#tip)"/>'
        )
        if words:
            x, y = (x1 + x2) // 2, (y1 + y2) // 2 - 6
            parts.append(
                f'<text x="{x}" y="{y}" text-anchor="middle" font-size="11">{escape(words)}</text>'
            )
    return "\n".join((*parts, "</svg>", ""))


def main() -> None:
    finish({TARGET: draw()})


if __name__ == "__main__":
    main()

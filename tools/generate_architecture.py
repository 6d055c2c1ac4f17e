"""Write docs/architecture.svg: the rooms of the package and who imports whom, by the source itself.

python tools/generate_architecture.py [--check]
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from output import ROOT, finish

PACKAGE = ROOT / "src" / "magnetar"
TARGET = ROOT / "docs" / "architecture.svg"
# From the top: a room imports rooms of the rows below it.
ROWS = (
    ("app",),
    ("admin", "cli", "spark"),
    ("columns",),
    ("broker", "client"),
    ("metadata", "ledger", "rules", "wire"),
    ("runtime", "operation"),
    ("model",),
    ("errors",),
)
BOX, GAP, HEIGHT, SPACE = 190, 40, 46, 46
FONT = 'font-family="sans-serif"'


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports_of(tree: ast.Module) -> Iterator[str]:
    """Types count: what is imported for them alone is a dependency too. What the package itself
    shows is the client's."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("magnetar."):
            yield (node.module or "").split(".")[1]
        elif (
            isinstance(node, ast.ImportFrom)
            and node.module == "magnetar"
            and any(each.name != "__version__" for each in node.names)
        ):
            yield "client"


def measure() -> tuple[Counter[str], Counter[tuple[str, str]]]:
    """Hand-written lines of each room, and imports between rooms."""
    lines: Counter[str] = Counter()
    edges: Counter[tuple[str, str]] = Counter()
    for path in sorted(PACKAGE.rglob("*.py")):
        if "/pb/" in path.as_posix():
            continue
        text, room = path.read_text(), room_of(path)
        lines[room] += text.count("\n")
        edges.update((room, target) for target in imports_of(ast.parse(text)) if target != room)
    return lines, edges


def place() -> Mapping[str, tuple[int, int]]:
    """The left upper corner of each box."""
    width = max(len(row) for row in ROWS) * (BOX + GAP)
    return {
        room: (
            GAP + (width - len(row) * (BOX + GAP)) // 2 + index * (BOX + GAP),
            GAP + number * (HEIGHT + SPACE),
        )
        for number, row in enumerate(ROWS)
        for index, room in enumerate(row)
    }


def draw() -> str:
    lines, edges = measure()
    places = place()
    width = GAP + max(len(row) for row in ROWS) * (BOX + GAP)
    height = GAP + len(ROWS) * (HEIGHT + SPACE)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
        f' width="{width}" height="{height}">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for (source, target), count in sorted(edges.items()):
        if source in places and target in places:
            (x1, y1), (x2, y2) = places[source], places[target]
            stroke = 1 if count < 20 else 2 if count < 80 else 4
            parts.append(
                f'<line x1="{x1 + BOX // 2}" y1="{y1 + HEIGHT}" x2="{x2 + BOX // 2}" y2="{y2}"'
                f' stroke="#9ab" stroke-width="{stroke}" stroke-opacity="0.55"/>'
            )
    for room, (x, y) in places.items():
        size = f"about {max(1, round(lines[room] / 1000))} k lines"
        parts += [
            f'<rect x="{x}" y="{y}" width="{BOX}" height="{HEIGHT}" rx="6" fill="#eef4fb"'
            ' stroke="#357"/>',
            f'<text x="{x + BOX // 2}" y="{y + 20}" text-anchor="middle" {FONT} font-size="15"'
            f' font-weight="bold" fill="#123">{room}</text>',
            f'<text x="{x + BOX // 2}" y="{y + 37}" text-anchor="middle" {FONT} font-size="11"'
            f' fill="#456">{size}</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])


def main() -> None:
    finish({TARGET: draw()})


if __name__ == "__main__":
    main()

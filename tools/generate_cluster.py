"""Write docs/cluster.svg: the parts of a cluster, and who speaks to whom about what.

python tools/generate_cluster.py [--check]
"""

from __future__ import annotations

from output import ROOT, finish

TARGET = ROOT / "docs" / "cluster.svg"
WIDTH, HEIGHT = 900, 465
FONT = 'font-family="sans-serif"'
BOX = {"client": (130, 40), "broker": (180, 62), "bookie": (180, 62), "zookeeper": (150, 62)}
# Kind, left upper corner, title, and a line below it.
PARTS = (
    ("client", 60, 20, "producer", ""),
    ("client", 265, 20, "consumer", ""),
    ("client", 470, 20, "Spark", ""),
    ("broker", 20, 160, "broker 1", "bundles a, d"),
    ("broker", 230, 160, "broker 2", "bundles b, e"),
    ("broker", 440, 160, "broker 3", "bundle c"),
    ("bookie", 20, 340, "bookie 1", "copies on its disk"),
    ("bookie", 230, 340, "bookie 2", "copies on its disk"),
    ("bookie", 440, 340, "bookie 3", "copies on its disk"),
    ("zookeeper", 690, 160, "ZooKeeper", "three servers"),
)
# From, to, whether it carries messages.
WIRES = (
    *((client, broker, True) for client, broker in ((0, 3), (0, 4), (1, 4), (1, 5), (2, 5))),
    *((broker, bookie, True) for broker in (3, 4, 5) for bookie in (6, 7, 8)),
    *((broker, 9, False) for broker in (3, 4, 5)),
    *((bookie, 9, False) for bookie in (6, 7, 8)),
)
NOTES = (
    (640, 45, "clients ask any broker who serves a"),
    (640, 62, "topic, and connect to that one"),
    (660, 330, "who owns which bundle, ledgers,"),
    (660, 347, "cursors, policies, layouts;"),
    (660, 364, "which bookies are there"),
    (
        20,
        430,
        "an entry is acknowledged when enough bookies have it; a broker keeps nothing of its own:",
    ),
    (
        20,
        448,
        "when it dies, the next owner closes its open ledgers: no late write gets in",
    ),
)
COLOURS = {"client": "#f4f4f4", "broker": "#e4f0fb", "bookie": "#eaf6e6", "zookeeper": "#fbf1dc"}


def middle(number: int, *, below: bool) -> tuple[int, int]:
    kind, x, y, _, _ = PARTS[number]
    width, height = BOX[kind]
    return x + width // 2, y + height if below else y


def draw() -> str:
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"'
        f' width="{WIDTH}" height="{HEIGHT}">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for source, target, has_messages in WIRES:
        x1, y1 = middle(source, below=PARTS[source][2] < PARTS[target][2])
        x2, y2 = middle(target, below=PARTS[target][2] < PARTS[source][2])
        if PARTS[source][2] == PARTS[target][2]:
            x1, y1 = PARTS[source][1] + 90, PARTS[source][2]
            x2, y2 = PARTS[target][1] + 75, PARTS[target][2]
            path = f"M {x1} {y1} C {x1} {y1 - 45}, {x2} {y1 - 45}, {x2} {y2}"
        else:
            path = f"M {x1} {y1} L {x2} {y2}"
        style = 'stroke="#357"' if has_messages else 'stroke="#b83" stroke-dasharray="4 4"'
        parts.append(f'<path d="{path}" fill="none" {style} stroke-opacity="0.6"/>')
    for kind, x, y, title, line in PARTS:
        width, height = BOX[kind]
        centre = x + width // 2
        parts += [
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6"'
            f' fill="{COLOURS[kind]}" stroke="#357"/>',
            f'<text x="{centre}" y="{y + 26}" text-anchor="middle" {FONT} font-size="15"'
            f' font-weight="bold" fill="#123">{title}</text>',
        ]
        if line:
            parts.append(
                f'<text x="{centre}" y="{y + 47}" text-anchor="middle" {FONT} font-size="12"'
                f' fill="#456">{line}</text>'
            )
    parts += [
        f'<text x="{x}" y="{y}" {FONT} font-size="12.5" fill="#456">{text}</text>'
        for x, y, text in NOTES
    ]
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    finish({TARGET: draw()})

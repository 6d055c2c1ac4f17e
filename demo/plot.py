"""Curves over time as SVG, one panel below the other; nothing to install."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

WIDTH, PANEL, GAP, LEFT, TOP, BOTTOM = 860, 130, 34, 64, 44, 40
INK, GRID = "#333", "#ddd"
COLOURS = ("#1f77b4", "#d62728", "#2ca02c")


class Plot:
    def __init__(self, title: str, axis: str, times: Sequence[float]) -> None:
        self._title = title
        self._axis = axis
        self._times = list(times)
        self._panels: list[tuple[str, list[float], bool]] = []

    def add(self, name: str, values: Sequence[float]) -> None:
        self._panels.append((name, list(values), False))

    def add_steps(self, name: str, values: Sequence[float]) -> None:
        """A number that jumps."""
        self._panels.append((name, list(values), True))

    def render(self) -> str:
        height = TOP + len(self._panels) * (PANEL + GAP) + BOTTOM - GAP
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}"'
            ' font-family="sans-serif" font-size="12">',
            f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
            f'<text x="{LEFT}" y="22" font-size="15" fill="{INK}">{escape(self._title)}</text>',
        ]
        for number, (name, values, steps) in enumerate(self._panels):
            top = TOP + number * (PANEL + GAP)
            parts += self._draw_panel(top, name, values, COLOURS[number % len(COLOURS)], steps)
        parts += self._draw_times(height - BOTTOM)
        return "\n".join([*parts, "</svg>", ""])

    def _draw_panel(
        self, top: float, name: str, values: list[float], colour: str, steps: bool
    ) -> list[str]:
        most = max([*values, 1.0])
        points: list[str] = []
        last_y = 0.0
        for at, value in zip(self._times, values, strict=True):
            x, y = self._place(at), top + PANEL * (1 - value / most)
            if steps and points:
                points.append(f"{x:.1f},{last_y:.1f}")
            points.append(f"{x:.1f},{y:.1f}")
            last_y = y
        right = WIDTH - 16
        return [
            f'<line x1="{LEFT}" x2="{right}" y1="{top + PANEL}" y2="{top + PANEL}"'
            f' stroke="{INK}"/>',
            f'<line x1="{LEFT}" x2="{right}" y1="{top}" y2="{top}" stroke="{GRID}"/>',
            f'<text x="{LEFT - 8}" y="{top + 4}" text-anchor="end" fill="{INK}">{most:,.0f}</text>',
            f'<text x="{LEFT - 8}" y="{top + PANEL}" text-anchor="end" fill="{INK}">0</text>',
            f'<text x="{LEFT}" y="{top - 6}" fill="{colour}">{escape(name)}</text>',
            f'<polyline fill="none" stroke="{colour}" stroke-width="2"'
            f' points="{" ".join(points)}"/>',
        ]

    def _draw_times(self, y: float) -> list[str]:
        end = self._times[-1]
        step = next(each for each in (1, 2, 5, 10, 20, 30, 60, 300) if end / each <= 12)
        marks = [
            f'<text x="{self._place(at):.1f}" y="{y + 16}" text-anchor="middle" fill="{INK}">'
            f"{at}</text>"
            for at in range(0, int(end) + 1, step)
        ]
        middle = (LEFT + WIDTH - 16) / 2
        label = f'<text x="{middle}" y="{y + 34}" text-anchor="middle" fill="{INK}">'
        return [*marks, f"{label}{escape(self._axis)}</text>"]

    def _place(self, at: float) -> float:
        return LEFT + (WIDTH - 16 - LEFT) * at / self._times[-1]

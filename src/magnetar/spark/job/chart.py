"""Pictures as SVG: points with a name, and curves over time; nothing to install."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

WIDTH: Final = 860
_LEFT, _RIGHT, _TOP, _BOTTOM, _GAP = 78, 20, 46, 46, 36
_INK, _GRID = "#333", "#ddd"
COLOURS: Final = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e")


@dataclass(frozen=True, slots=True)
class Point:
    x: float
    y: float
    label: str = ""
    """Shown beside it; the rest is shown when the pointer rests on it."""
    hint: str = ""
    colour: str = COLOURS[0]
    radius: float = 4.0


@dataclass(frozen=True, slots=True)
class Curve:
    name: str
    values: Sequence[float]
    """One for each time; nothing is drawn where it is NaN."""
    is_stepped: bool = False


@dataclass(frozen=True, slots=True)
class Bar:
    name: str
    value: float
    label: str = ""


def _ticks(most: float) -> list[float]:
    """Some five round numbers from 0 up to `most`."""
    if not most > 0:
        return [0.0, 1.0]
    rough = most / 5
    power = 10.0 ** len(str(int(rough))) / 10 if rough >= 1 else 0.001
    step = next(
        power * each for each in (1, 2, 2.5, 5, 10, 20, 50, 100, 1000) if power * each >= rough
    )
    return [step * number for number in range(int(most / step + 1e-9) + 1)]


def _text(x: float, y: float, words: str, anchor: str = "start", **extra: str) -> str:
    more = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in extra.items())
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{_INK}"{more}>'
        f"{escape(words)}</text>"
    )


def _line(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def _wrap(height: float, parts: Sequence[str]) -> str:
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}"'
            ' font-family="sans-serif" font-size="12">',
            f'<rect width="{WIDTH}" height="{height:.0f}" fill="white"/>',
            *parts,
            "</svg>",
            "",
        )
    )


def draw_points(title: str, x_name: str, y_name: str, points: Sequence[Point]) -> str:
    """Points in a plane whose axes begin at 0; those later in the list lie on top."""
    height, bottom = 460, 460 - _BOTTOM
    most_x = max((point.x for point in points), default=1.0) * 1.05 or 1.0
    most_y = max((point.y for point in points), default=1.0) * 1.05 or 1.0
    wide, high = WIDTH - _LEFT - _RIGHT, bottom - _TOP
    parts = [_text(_LEFT, 24, title, font_size="15")]
    for tick in _ticks(most_x):
        x = _LEFT + wide * tick / most_x
        parts += [_line(x, _TOP, x, bottom, _GRID), _text(x, bottom + 16, f"{tick:,g}", "middle")]
    for tick in _ticks(most_y):
        y = bottom - high * tick / most_y
        parts += [
            _line(_LEFT, y, WIDTH - _RIGHT, y, _GRID),
            _text(_LEFT - 8, y + 4, f"{tick:,g}", "end"),
        ]
    parts += [_text(_LEFT + wide / 2, height - 8, x_name, "middle"), _text(8, _TOP - 8, y_name)]
    named = 0
    for point in points:
        x, y = _LEFT + wide * point.x / most_x, bottom - high * point.y / most_y
        hint = f"<title>{escape(point.hint)}</title>" if point.hint else ""
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{point.radius}" fill="{point.colour}"'
            f' fill-opacity="0.7">{hint}</circle>'
        )
        if point.label:
            # Labels stand one above the other, so that points close together can be distinguished.
            side, anchor = (-14, "end") if x > WIDTH * 0.7 else (14, "start")
            above = max(_TOP + 10, y - 22 - 18 * named)
            parts += [
                _line(x, y, x + side, above, point.colour),
                _text(x + side, above - 2, point.label, anchor, font_weight="bold"),
            ]
            named += 1
    return _wrap(height, parts)


def draw_bars(title: str, axis: str, bars: Sequence[Bar], *, left: int = _LEFT) -> str:
    """One below the other; `left` is the room for their names."""
    high = 22
    bottom = _TOP + len(bars) * (high + 6) + 4
    most = max((bar.value for bar in bars), default=1.0) * 1.25 or 1.0
    wide = WIDTH - left - _RIGHT
    parts = [_text(left, 24, title, font_size="15")]
    for tick in _ticks(most):
        x = left + wide * tick / most
        parts += [_line(x, _TOP, x, bottom, _GRID), _text(x, bottom + 16, f"{tick:,g}", "middle")]
    parts.append(_text(left + wide / 2, bottom + 36, axis, "middle"))
    for number, bar in enumerate(bars):
        top, long = _TOP + 4 + number * (high + 6), wide * bar.value / most
        parts += [
            f'<rect x="{left}" y="{top}" width="{max(1.0, long):.1f}" height="{high}"'
            f' fill="{COLOURS[0]}"/>',
            _text(left - 8, top + 15, bar.name, "end"),
            _text(left + long + 8, top + 15, bar.label),
        ]
    return _wrap(bottom + _BOTTOM, parts)


def draw_curves(title: str, axis: str, times: Sequence[float], curves: Sequence[Curve]) -> str:
    """One panel below the other over the same time."""
    panel = 120
    height = _TOP + len(curves) * (panel + _GAP) + _BOTTOM - _GAP
    most = max(times[-1], 1e-9)
    parts = [_text(_LEFT, 24, title, font_size="15")]
    wide = WIDTH - _LEFT - _RIGHT
    for tick in _ticks(most):
        x = _LEFT + wide * tick / most
        parts += [
            _line(x, _TOP, x, height - _BOTTOM, _GRID),
            _text(x, height - _BOTTOM + 16, f"{tick:,g}", "middle"),
        ]
    parts.append(_text(_LEFT + wide / 2, height - 8, axis, "middle"))
    for number, curve in enumerate(curves):
        top = _TOP + number * (panel + _GAP)
        parts += _draw_panel(curve, times, most, top, panel, COLOURS[number % len(COLOURS)])
    return _wrap(height, parts)


def _draw_panel(
    curve: Curve, times: Sequence[float], most: float, top: float, high: float, colour: str
) -> list[str]:
    known = [value for value in curve.values if value == value]
    peak, wide = max([*known, 1e-9]), WIDTH - _LEFT - _RIGHT
    strokes: list[list[str]] = [[]]
    last = 0.0
    for at, value in zip(times, curve.values, strict=True):
        if value != value:
            strokes.append([])
            continue
        x, y = _LEFT + wide * at / most, top + high * (1 - value / peak)
        if curve.is_stepped and strokes[-1]:
            strokes[-1].append(f"{x:.1f},{last:.1f}")
        strokes[-1].append(f"{x:.1f},{y:.1f}")
        last = y
    return [
        _line(_LEFT, top + high, WIDTH - _RIGHT, top + high, _INK),
        _text(_LEFT - 8, top + 6, f"{peak:,.0f}", "end"),
        _text(_LEFT - 8, top + high, "0", "end"),
        f'<text x="{_LEFT}" y="{top - 6:.1f}" fill="{colour}">{escape(curve.name)}</text>',
        *(
            f'<polyline fill="none" stroke="{colour}" stroke-width="1.6"'
            f' points="{" ".join(each)}"/>'
            for each in strokes
            if each
        ),
    ]

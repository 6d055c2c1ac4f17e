"""Numbers as people read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def format_bytes(size: float) -> str:
    for unit in _UNITS:
        if size < 1024 or unit == _UNITS[-1]:
            break
        size /= 1024
    return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"


def format_rate(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 10 or rate == 0 else f"{rate:.1f}"


def format_lag(stats: Mapping[str, Any]) -> str:
    """Of a subscription; a broker that does not count messages tells entries alone."""
    if "lagMessages" not in stats:
        return f"{stats['msgBacklog']} entries"
    return f"{'~' if stats['isLagEstimated'] else ''}{stats['lagMessages']:,}"


def format_span(seconds: float) -> str:
    """The two largest units, as 3d 4h."""
    left = int(seconds)
    shown: list[str] = []
    for name, size in (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)):
        if left >= size or shown or name == "s":
            shown.append(f"{left // size}{name}")
            left %= size
    return " ".join(shown[:2])

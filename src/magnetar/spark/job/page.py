"""Reports as one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any, Final

_STYLE: Final = """
body { font: 14px/1.45 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem;
  color: #222 }
h1 { font-size: 1.4rem } h2 { font-size: 1.1rem; margin-top: 2rem }
table { border-collapse: collapse; margin: .5rem 0 1rem } th, td { padding: .2rem .6rem;
  border-bottom: 1px solid #ddd; text-align: left; vertical-align: top }
td.number { text-align: right; font-variant-numeric: tabular-nums } th { background: #f4f4f4 }
tr.chosen { background: #eaf6ea } pre { background: #f4f4f4; padding: .7rem; overflow: auto }
svg { width: 100%; height: auto }
"""


def format_page(title: str, parts: Iterable[str]) -> str:
    """`parts` are HTML already."""
    return "\n".join(
        (
            "<!doctype html>",
            f'<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>',
            f"<style>{_STYLE}</style></head><body>",
            f"<h1>{escape(title)}</h1>",
            *parts,
            "</body></html>",
            "",
        )
    )


def format_heading(text: str) -> str:
    return f"<h2>{escape(text)}</h2>"


def format_paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def format_code(text: str) -> str:
    return f"<pre>{escape(text)}</pre>"


def format_table(
    names: Sequence[str], rows: Iterable[Sequence[Any]], *, chosen: int | None = None
) -> str:
    """Numbers stand on the right; row `chosen` is marked."""
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = []
    for place, row in enumerate(rows):
        mark = ' class="chosen"' if place == chosen else ""
        body.append(f"<tr{mark}>{''.join(_cell(value) for value in row)}</tr>")
    return "\n".join(("<table>", f"<tr>{head}</tr>", *body, "</table>"))


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f'<td class="number">{value:,.1f}</td>'
    if isinstance(value, int):
        return f'<td class="number">{value:,}</td>'
    return f"<td>{escape('' if value is None else str(value))}</td>"

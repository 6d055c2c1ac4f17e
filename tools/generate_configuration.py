"""Write what is derived from the tables of configuration keys (`magnetar/runtime/*_key.tsv`):
the typed attributes of a configuration, and the tables of docs/configuration.md.

python tools/generate_configuration.py           write both
python tools/generate_configuration.py --check   fail when they are not what would be written
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from magnetar.runtime.key import Key, Use, format_value, load_keys

ROOT = Path(__file__).parent.parent
ATTRIBUTES = ROOT / "src" / "magnetar" / "runtime" / "acting_key.py"
PAGE = ROOT / "docs" / "configuration.md"
ACTING_HEADS = ("key", "type", "default", "changes at run time", "what it does")
START = "## Keys that act\n"
HEAD = '''\
"""Written by tools/generate_configuration.py from acting_key.tsv: change that."""

from __future__ import annotations


class ActingKeys:
    """The keys that act, as attributes of a configuration."""

'''
TYPES = {
    "int": "int",
    "long": "int",
    "float": "float",
    "bool": "bool",
    "list": "tuple[str, ...]",
    "set": "tuple[str, ...]",
}


def keys_of(use: Use) -> list[Key]:
    return [key for key in load_keys().values() if key.use is use]


def annotate(key: Key) -> str:
    kind = TYPES.get(key.kind.removesuffix("?"), "str")
    return f"    {key.name}: {kind}{' | None' if key.kind.endswith('?') else ''}\n"


def render_attributes() -> str:
    return HEAD + "".join(map(annotate, keys_of(Use.ACTING)))


def render_table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = (heads, ("---",) * len(heads), *rows)
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def describe_default(key: Key) -> str:
    shown, standalone = (
        f"`{text}`" if text else "empty"
        for text in map(format_value, (key.default, key.standalone_default))
    )
    return shown if shown == standalone else f"{shown}, standalone {standalone}"


def describe(key: Key) -> tuple[str, ...]:
    changes = "yes" if key.dynamic else "no"
    return f"`{key.name}`", key.expected, describe_default(key), changes, key.meaning


def render_page(page: str) -> str:
    """The page with its tables written anew."""
    acting = map(describe, keys_of(Use.ACTING))
    refused = (
        (f"`{key.name}`", describe_default(key), key.meaning) for key in keys_of(Use.REFUSED)
    )
    inert: dict[str, list[str]] = {}
    for key in keys_of(Use.INERT):
        inert.setdefault(key.meaning, []).append(f"`{key.name}`")
    return "\n".join(
        (
            page[: page.index(START)] + START,
            render_table(ACTING_HEADS, acting),
            "## Keys of which only the default is accepted\n",
            render_table(("key", "default", "why"), refused),
            "## Keys without effect\n",
            render_table(("why", "keys"), ((why, ", ".join(keys)) for why, keys in inert.items())),
        )
    )


if __name__ == "__main__":
    from output import finish

    finish({ATTRIBUTES: render_attributes(), PAGE: render_page(PAGE.read_text())})

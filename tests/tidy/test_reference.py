"""The reference has every public name, method and keyword of the client."""

from __future__ import annotations

import enum
import inspect

import magnetar
from tests.tidy.source import ROOT
from tools.generate_reference import members, option_kinds

PAGE = (ROOT / "docs" / "reference.md").read_text()
HINT = "run `python tools/generate_reference.py`"


def section(title: str) -> str:
    start = PAGE.index(f"### {title}\n")
    return PAGE[start : PAGE.find("\n### ", start + 1)]


def test_every_public_name_has_a_section() -> None:
    missing = [name for name in magnetar.__all__ if f"### `{name}`\n" not in PAGE]
    assert [name for name in missing if name != "__version__"] == [], HINT


def test_types_are_written_as_a_person_would() -> None:
    assert "ForwardRef" not in PAGE, HINT


def test_every_public_method_is_there() -> None:
    missing = []
    for name in magnetar.__all__:
        value = getattr(magnetar, name)
        if inspect.isclass(value) and not issubclass(value, BaseException | enum.Enum):
            told = section(f"`{name}`")
            for member, what in members(value):
                is_method = inspect.isfunction(what) or isinstance(what, property | classmethod)
                if is_method and member not in told:
                    missing.append(f"{name}.{member}")
    assert missing == [], HINT


def test_every_keyword_is_there() -> None:
    missing = [
        f"{name}: {keyword}"
        for name, kind in option_kinds().items()
        for keyword in inspect.get_annotations(kind)
        if f"`{keyword}:" not in section(f"Keywords of `{name}`")
    ]
    assert missing == [], HINT

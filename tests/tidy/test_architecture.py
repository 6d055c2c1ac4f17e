"""The guide of the architecture names what exists, and words of the code keep one meaning."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

from tests.tidy.source import PACKAGE, ROOT, Source, written_sources

GUIDE = (ROOT / "docs" / "architecture.md").read_text()
FILE = re.compile(r"`((?:[a-z_]+/)*[a-z_]+(?:\.py|/))`")
WORD = re.compile(r"`([A-Z][A-Za-z]+)`")


def section(title: str) -> str:
    return GUIDE.partition(f"## {title}\n")[2].partition("\n## ")[0]


def test_every_file_of_the_guide_exists() -> None:
    places = (PACKAGE, PACKAGE / "broker", ROOT)
    missing = [
        name
        for name in FILE.findall(GUIDE)
        if not name.startswith("ledgers/") and not any((place / name).exists() for place in places)
    ]
    assert not missing


# Words that had several meanings, and those that took one of them. Of names of the rooms alone:
# what the protocol calls its fields is not ours to choose.
REPLACED: Mapping[str, str] = {
    "access": "permissions, authorization",
    "check_access": "check_permission",
    "decide_access": "decide_permission",
}
AUTHORIZING = ("admin", "broker", "rules")


def names_in(source: Source) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(source.tree):
        match node:
            case ast.Name(id=name) | ast.arg(arg=name) | ast.Attribute(attr=name):
                found.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                found.add(name)
    return found


def test_a_word_that_gave_a_meaning_away_has_not_taken_it_back() -> None:
    wrong = {
        source.inside: sorted(taken)
        for source in written_sources()
        if source.room in AUTHORIZING and (taken := names_in(source) & REPLACED.keys())
    }
    assert not wrong, REPLACED


def test_the_glossary_names_classes_that_exist() -> None:
    classes = {
        node.name
        for source in written_sources()
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ClassDef)
    }
    named = WORD.findall(section("Glossary"))
    assert len(named) > 15
    assert set(named) <= classes, set(named) - classes

"""The architecture guide names files and classes that exist."""

from __future__ import annotations

import ast
import re

from tests.tidy.source import PACKAGE, ROOT, written_sources

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

"""Names and sentences use the terms of the field: caller, owner, holder, invalid, unreadable."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Mapping

from tests.tidy.source import ROOT, written_sources

AVOIDED = re.compile(
    r"whoever|nobody|somebody|that cannot be\b|(?:is|are|be) told|\bhears?\b|\bcomes? again", re.I
)
# Rooms that still have some, with the most that they may have: the numbers only fall.
LEFT: Mapping[str, int] = {
    "client": 12,
    "columns": 3,
    "ledger": 4,
    "operation": 2,
    "spark": 4,
    "testing": 12,
    "wire": 1,
}


def test_rooms_do_not_go_back_to_words_that_hide_the_term() -> None:
    found = Counter(
        source.room for source in written_sources() for _ in AVOIDED.finditer(source.text)
    )
    more = {room: (count, LEFT.get(room, 0)) for room, count in found.items()}
    assert not {room: pair for room, pair in more.items() if pair[0] > pair[1]}, more


def test_the_guides_of_maintainers_use_the_terms_too() -> None:
    guides = (ROOT / "docs" / "architecture.md", ROOT / "CONTRIBUTING.md")
    assert [each for guide in guides for each in AVOIDED.findall(guide.read_text())] == []


# Classes of one name in one room, of which one should have another; the list only shrinks.
SHARED_NAMES: Mapping[str, tuple[str, ...]] = {
    "ledger": ("Finding", "Part", "RunReader"),
    "spark": ("Place", "Reading"),
}


def test_a_room_has_one_class_of_a_name() -> None:
    """A private one may stand for itself in its module."""
    places: dict[tuple[str, str], list[str]] = defaultdict(list)
    for source in written_sources():
        for node in source.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[source.room, node.name].append(source.inside)
    shared = {place: found for place, found in places.items() if len(found) > 1}
    listed = {(room, name) for room, names in SHARED_NAMES.items() for name in names}
    assert shared.keys() == listed, shared

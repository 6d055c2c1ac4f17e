"""Names and sentences use the terms of the field: caller, owner, holder, invalid, unreadable."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Mapping

import pytest

from tests.tidy.source import FUNCTIONS, ROOT, written_sources

AVOIDED = re.compile(
    r"whoever|nobody|somebody|that cannot be\b|(?:is|are|be) told|\bhears?\b|\bcomes? again", re.I
)
# Rooms that still have some, with the most that they may have: the numbers only fall.
LEFT: Mapping[str, int] = {
    "client": 12,
    "operation": 2,
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
SHARED_NAMES: Mapping[str, tuple[str, ...]] = {}


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


# A verb that stood for many things, and where its one meaning is at home. Names alone are held:
# a sentence may settle a question, and a lock is held.
ONE_MEANING: Mapping[str, tuple[str, ...]] = {
    # Entries are copied from the journal to a file of their own; the client's is still another one.
    "settle": ("ledger/backends/file/", "client/"),
    # Entries are kept for a reader that has not come to them yet.
    "hold": (
        "broker/administration/read_",
        "broker/keyed_lock.py",  # the term for locks
        "client/",
        "columns/",
        "spark/",
        "testing/",
    ),
}


@pytest.mark.parametrize("verb", ONE_MEANING)
def test_a_verb_has_one_meaning(verb: str) -> None:
    pattern = re.compile(rf"_?(?:is_|can_)?{verb}d?(?:_\w+)?")
    found = [
        f"{source.inside}:{node.lineno} {node.name}"
        for source in written_sources()
        for node in ast.walk(source.tree)
        if isinstance(node, FUNCTIONS) and pattern.fullmatch(node.name)
    ]
    assert found
    assert [each for each in found if not each.startswith(ONE_MEANING[verb])] == []

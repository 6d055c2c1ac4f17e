"""The tables of configuration keys agree with the code that reads them and the page."""

from __future__ import annotations

import re
from collections import Counter

from magnetar.model.limit import rows
from magnetar.operation.policy_table import POLICIES
from magnetar.runtime.key import Use, load_keys
from tests.tidy.source import PACKAGE
from tools.generate_configuration import ATTRIBUTES, PAGE, render_attributes, render_page

KEYS = load_keys()
ACTING = {key.name for key in KEYS.values() if key.use is Use.ACTING}
HINT = "run `python tools/generate_configuration.py`"


def test_the_attributes_and_the_page_are_written_from_the_tables() -> None:
    assert ATTRIBUTES.read_text() == render_attributes(), HINT
    assert PAGE.read_text() == render_page(PAGE.read_text()), HINT


def test_every_acting_key_is_read_somewhere_and_no_other_is() -> None:
    """Limits and policies are read through tables of their own, whose rows are tested to act."""
    sources = "".join(path.read_text() for path in PACKAGE.rglob("*.py") if path != ATTRIBUTES)
    read = set(re.findall(r"\b_?(?:config|configuration|settings)\.(\w+)", sources))
    policies = {key for each in POLICIES for keys in each.broker.values() for key in keys}
    assert ACTING - read <= {row.key for row in rows()} | policies
    assert (read & KEYS.keys()) - ACTING == set()


def test_every_key_has_a_sentence_and_every_acting_one_its_own() -> None:
    assert [key.name for key in KEYS.values() if not key.meaning.strip()] == []
    others = [key.meaning for key in KEYS.values() if key.use is not Use.ACTING]
    assert [each for each in others if not (each.isascii() and each.isprintable())] == []
    told = Counter(KEYS[name].meaning for name in ACTING)
    assert [sentence for sentence, count in told.items() if count > 1] == []


def test_what_a_sentence_names_as_a_key_is_one() -> None:
    """camelCase words of sentences are keys: `Set metadataStoreUrl instead`."""
    named = {
        (key.name, word)
        for key in KEYS.values()
        for word in re.findall(r"\b[a-z]+(?:[A-Z][a-z]+){2,}\b", key.meaning)
    }
    policies = {"managedLedgerMaxMarkDeleteRate", "relativeToPublishRate"}
    assert {pair for pair in named if pair[1] not in KEYS.keys() | policies} == set()


def test_no_key_is_in_two_tables() -> None:
    lines = [
        line
        for use in Use
        for line in (PACKAGE / "runtime" / f"{use}_key.tsv").read_text().splitlines()[1:]
    ]
    assert len(lines) == len(KEYS)

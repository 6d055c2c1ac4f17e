"""Every call that is known and not served says what to do instead, and the page lists it."""

from __future__ import annotations

from magnetar.admin.unsupported import load_rows
from tools.generate_unsupported import PAGE, render


def test_the_page_is_written_from_the_table() -> None:
    written = PAGE.read_text()
    assert written == render(written), "run `python tools/generate_unsupported.py`"


def test_every_row_has_a_sentence_that_fits_a_header() -> None:
    """And one sentence is about one feature."""
    features: dict[str, set[str]] = {}
    for row in load_rows():
        assert row.sentence.endswith(".") and row.sentence.isascii() and row.sentence.isprintable()
        features.setdefault(row.sentence, set()).add(row.feature)
    functions = {"Functions", "The functions worker"}
    assert [each for each in features.values() if len(each) > 1 and each != functions] == []

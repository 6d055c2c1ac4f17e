"""A file past 400 lines wants a second noun; one past 500 gets it, or a reason to stay whole."""

from __future__ import annotations

from collections.abc import Mapping

from tests.tidy.source import ROOT, written_sources

LINES_MAX = 500
# Longer files, and why each stays whole.
LONGER: Mapping[str, str] = {}


def test_longer_files_are_the_listed_ones() -> None:
    paths = [source.path for source in written_sources()]
    paths += [
        path for folder in ("bench", "demo", "tools") for path in (ROOT / folder).glob("*.py")
    ]
    longer = {
        path.relative_to(ROOT).as_posix(): lines
        for path in paths
        if (lines := len(path.read_text().splitlines())) > LINES_MAX
    }
    assert set(longer) == set(LONGER), longer

"""What nothing calls is removed: a name that only tests use is not part of the product."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping

from tests.tidy.source import FUNCTIONS, ROOT, Source, sources, written_sources

WORD = re.compile(r"\b[A-Za-z_]\w+\b")
REGISTERED = ("carries_out(", "finds(")
# Names that nothing spells out, and what calls them.
CALLED: Mapping[str, str] = {
    "_condition": "concurrent.futures",
    "_missing_": "enum",
    "getCache": "PySpark",
    "initialOffset": "PySpark",
    "prepareForTriggerAvailableNow": "PySpark",
    "pushFilters": "PySpark",
    "reportLatestOffset": "PySpark",
    "streamReader": "PySpark",
    "streamWriter": "PySpark",
    "parse_ago_ms": "cli/value.py, by the name of a reader",
    "parse_datetime_ms": "cli/value.py, by the name of a reader",
    "parse_duration_min": "cli/value.py, by the name of a reader",
    "parse_hash": "cli/value.py, by the name of a reader",
    "parse_moment_ms": "cli/value.py, by the name of a reader",
    "parse_pairs": "cli/value.py, by the name of a reader",
    "parse_size_mb": "cli/value.py, by the name of a reader",
}
# What tests alone use, and why it stands in the source; the list only shrinks.
FOR_TESTS: Mapping[str, str] = {
    "merge_depths": "a replay as its tests see it",
    "run_slowly": "the plain rule that a property test holds the fast one to",
    "untold_count": "what a watcher has not been sent, for a test that waits for it",
}


def made(source: Source) -> Iterator[str]:
    """The names of its functions, methods and classes but for those that Python calls."""
    for node in ast.walk(source.tree):
        if not isinstance(node, (*FUNCTIONS, ast.ClassDef)) or node.name.startswith("__"):
            continue
        if not any(ast.unparse(each).startswith(REGISTERED) for each in node.decorator_list):
            yield node.name


def test_every_name_is_used_by_the_product_or_shown_in_a_guide() -> None:
    product = [each for each in sources() if each.room != "testing"]
    words = Counter(word for each in product for word in WORD.findall(each.text))
    for guide in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        words.update(WORD.findall(guide.read_text()))
    written = [each for each in written_sources() if each.room != "testing"]
    names = Counter(name for each in written for name in made(each))
    unused = {name for name, count in names.items() if words[name] <= count}
    assert unused == CALLED.keys() | FOR_TESTS.keys()

"""The table of limits, the keys of the configuration and the guide say the same."""

from __future__ import annotations

from magnetar.model.limit import Limits, make_limits, rows
from magnetar.runtime.configuration import Configuration
from magnetar.runtime.key import Use, load_keys
from tests.tidy.source import PACKAGE
from tools.generate_limits import PAGE, render


def test_the_guide_is_written_from_the_table() -> None:
    assert PAGE.read_text() == render(PAGE.read_text()), "run `python tools/generate_limits.py`"


def test_every_limit_has_a_key_of_its_own_with_the_same_default() -> None:
    keys = load_keys()
    table = list(rows())
    assert len({row.key for row in table}) == len(table)
    for row in table:
        key = keys[row.key]
        assert (key.use, key.default) == (Use.ACTING, row.default), row.key
    assert make_limits(Configuration().get) == Limits()
    assert make_limits(Configuration({"maxTopicNameLength": 7}).get).topic_name_bytes == 7


def test_every_limit_is_enforced_somewhere() -> None:
    table = PACKAGE / "model" / "limit.py"
    text = "".join(path.read_text() for path in PACKAGE.rglob("*.py") if path != table)
    for row in rows():
        names = (f".{row.name}", f'"{row.name}"', f"config.{row.key}")
        assert any(name in text for name in names), row.name

"""The names others may rely on are listed in one place, and are there."""

from __future__ import annotations

import importlib
import re

import pytest

from tests.tidy.source import ROOT

PAGE = (ROOT / "docs" / "api.md").read_text()
LISTED: dict[str, set[str]] = {}
for _module, _name in re.findall(r"^\| `(magnetar[a-z_.]*)\.([A-Za-z_]+)` \|", PAGE, re.MULTILINE):
    LISTED.setdefault(_module, set()).add(_name)


def public_names(module_name: str) -> set[str]:
    module = importlib.import_module(module_name)
    declared = getattr(module, "__all__", None)
    if declared is not None:
        return set(declared)
    return {
        name
        for name, value in vars(module).items()
        if name == "__version__"
        or (not name.startswith("_") and getattr(value, "__module__", "") == module_name)
    }


def test_the_page_lists_the_public_modules() -> None:
    assert {"magnetar", "magnetar.testing"} <= set(LISTED)


@pytest.mark.parametrize("module", sorted(LISTED))
def test_a_public_module_has_exactly_the_listed_names(module: str) -> None:
    assert LISTED[module] == public_names(module)

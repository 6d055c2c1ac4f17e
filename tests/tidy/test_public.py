"""The names others may rely on are listed in one place, and are there."""

from __future__ import annotations

import importlib
import re

import pytest

from tests.tidy.source import ROOT, written_sources

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


# What guides show beside the public names, and why.
SHOWN = {
    "magnetar.broker.topicpolicy.contract": "what a backend of policies implements, in a broker",
    "magnetar.model.autoscale": "how a broker decides, to try out",
    "magnetar.model.layout": "how a broker decides, to try out",
    "magnetar.model.name": "what a backend of policies implements, in a broker",
    "magnetar.model.policy": "what a backend of policies implements, in a broker",
    "magnetar.model.scalable": "how a broker decides, to try out",
    "magnetar.model.segment": "how a broker decides, to try out",
    "magnetar.rules.scale": "how a broker decides, to try out",
    "magnetar.spark.job": "what `magnetar spark` runs, for a program",
    "magnetar.spark.job.chart": "how the jobs draw, for a demo",
    "magnetar.spark.job.load_history": "what `magnetar spark` runs, for a program",
    "magnetar.spark.job.migration_plan": "what `magnetar spark` runs, for a program",
    "magnetar.spark.job.wave": "what `magnetar spark` runs, for a program",
}


# What Spark and the CLI use beside the public names, where it stands, and why.
INNER = {
    "magnetar.client.admin.value.StoredEntry": "the type of what the admin client shows of a log",
}

IMPORT = re.compile(r"^\s*from (magnetar[a-z_.]*) import (?:\(([^)]*)\)|([^\n]+))", re.MULTILINE)


def test_guides_and_examples_import_public_names() -> None:
    pages = (ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "demo").rglob("*.py"))
    shown: set[str] = set()
    for page in pages:
        for module, in_brackets, in_line in IMPORT.findall(page.read_text()):
            if module in SHOWN:
                shown.add(module)
                continue
            used = {each.split()[0] for each in (in_brackets or in_line).split(",") if each.strip()}
            assert used <= LISTED.get(module, set()), f"{page.name}: {module}"
    assert shown == set(SHOWN), "no guide shows it any more"


def test_spark_and_the_commands_import_the_sdk_by_its_public_paths() -> None:
    used = {
        (each.target, source.inside)
        for source in written_sources()
        if source.room in ("spark", "cli")
        for each in source.imports()
        if each.module.startswith(("magnetar.client", "magnetar.columns."))
    }
    assert {(target, file) for target, file in used if target not in INNER} == set()
    assert {target for target, _ in used} == set(INNER), "it is not used any more"
    assert not {each.rpartition(".")[2] for each in INNER} & LISTED["magnetar"]

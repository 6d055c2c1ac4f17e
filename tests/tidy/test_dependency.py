"""What the project stands on: declared, locked, explained, and used."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

import kazoo
import pytest

from tests.tidy.source import ROOT, written_sources

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
RUN_TIME = PROJECT["dependencies"]
EXTRAS: Mapping[str, list[str]] = PROJECT["optional-dependencies"]
# Where the name to import is not the name to install.
IMPORT_NAMES = {
    "protobuf": "google",
    "google-re2": "re2",
    "opentelemetry-api": "opentelemetry",
    "prometheus-client": "prometheus_client",
    "pyjwt": "jwt",
}
# Needed without an import of ours.
USED_BY_OTHERS = {"h11": "uvicorn", "httptools": "uvicorn"}


def name_of(requirement: str) -> str:
    match = re.match(r"[A-Za-z0-9_.-]+", requirement)
    assert match is not None
    return match[0].lower()


def direct() -> set[str]:
    lines = (*RUN_TIME, *(line for rows in EXTRAS.values() for line in rows))
    return {name_of(line) for line in lines} - {"magnetar"}  # an extra may bring others


def locked_versions() -> set[tuple[str, str]]:
    """Name and version of every pin in the lock that pip reads."""
    text = (ROOT / "requirements.lock").read_text()
    return set(re.findall(r"^([a-z0-9_.-]+)(?:\[[^]]+\])?==(\S+)", text, re.MULTILINE))


def test_every_direct_dependency_has_its_line_of_reason() -> None:
    text = (ROOT / "docs" / "dependencies.md").read_text()
    rows = re.findall(r"^\| `([a-z0-9_.-]+)` \|.*\| *\S.+\|$", text, re.MULTILINE)
    assert sorted(rows) == sorted(direct())


def test_every_direct_dependency_is_locked_by_hash() -> None:
    assert direct() <= {name for name, _ in locked_versions()}
    text = (ROOT / "requirements.lock").read_text()
    for block in re.split(r"\n(?=[a-z])", text.strip()):
        assert "--hash=sha256:" in block, block.splitlines()[0]


def test_both_locks_hold_the_same_versions() -> None:
    lock = tomllib.loads((ROOT / "uv.lock").read_text())
    pins = {(row["name"], row["version"]) for row in lock["package"] if row["name"] != "magnetar"}
    assert locked_versions() == pins


def test_the_lock_was_made_from_the_present_declaration() -> None:
    lock = tomllib.loads((ROOT / "uv.lock").read_text())
    (own,) = (row for row in lock["package"] if row["name"] == "magnetar")
    assert {row["name"] for row in own["metadata"]["requires-dist"]} - {"magnetar"} == direct()


def test_the_client_alone_brings_nothing_of_the_server() -> None:
    assert {name_of(line) for line in RUN_TIME} == {
        *("protobuf", "crc32c", "mmh3", "msgspec", "h11"),
        *("lz4", "zstandard", "cramjam", "fastavro"),
    }


def test_one_extra_brings_all_that_an_application_may_want() -> None:
    (line,) = EXTRAS["all"]
    assert set(re.findall(r"\w+", line.partition("[")[2])) == EXTRAS.keys() - {"all", "dev"}


def test_the_locks_name_no_host_but_the_public_index() -> None:
    assert "://" not in (ROOT / "requirements.lock").read_text()
    hosts = set(re.findall(r"https?://([^/\"]+)", (ROOT / "uv.lock").read_text()))
    assert hosts == {"pypi.org", "files.pythonhosted.org"}


TYPES_ONLY = {"typing_extensions"}
"""What only type checkers import, which bring it with them."""


def third_party_imports() -> set[str]:
    return {
        top
        for source in written_sources()
        for each in source.imports()
        if (top := each.module.split(".")[0]) not in (*sys.stdlib_module_names, "magnetar")
    } - TYPES_ONLY


def test_the_package_imports_nothing_undeclared() -> None:
    declared = {IMPORT_NAMES.get(name, name) for name in direct()}
    assert third_party_imports() <= declared


@pytest.mark.parametrize("name", sorted({name_of(line) for line in RUN_TIME}))
def test_a_run_time_dependency_is_used(name: str) -> None:
    used = third_party_imports()
    needed_by = USED_BY_OTHERS.get(name, IMPORT_NAMES.get(name, name))
    assert needed_by in used


def private_names(path: Path) -> set[str]:
    """The private attributes and methods that a module names."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    names = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    names |= {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    return {name for name in names if name.startswith("_") and not name.endswith("__")}


def private_names_of_kazoo() -> set[str]:
    """Those of kazoo that are used where one of its classes is extended."""
    folder = Path(kazoo.__path__[0])
    theirs = private_names(folder / "client.py")
    theirs |= private_names(folder / "protocol" / "connection.py")
    used: set[str] = set()
    for source in written_sources():
        imported = {each.name for each in source.imports() if each.module.startswith("kazoo.")}
        bases = {
            base.id
            for node in ast.walk(source.tree)
            if isinstance(node, ast.ClassDef)
            for base in node.bases
            if isinstance(base, ast.Name)
        }
        if imported & bases:
            used |= private_names(source.path) & theirs
    return used


def test_kazoo_is_pinned_while_its_private_names_are_used() -> None:
    (wanted,) = (line for line in EXTRAS["cluster"] if name_of(line) == "kazoo")
    if private_names_of_kazoo():
        assert wanted == f"kazoo=={version('kazoo')}"


def test_the_private_names_of_kazoo_are_the_explained_ones() -> None:
    text = (ROOT / "docs" / "dependencies.md").read_text()
    section = text.partition("## Why kazoo is pinned")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    assert set(re.findall(r"`(\w+)`", "".join(rows))) == private_names_of_kazoo()

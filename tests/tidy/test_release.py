"""A release is the same bytes each time, and says what it is made of."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.tidy.source import ROOT
from tools.build_release import TOOLS, bill_of_materials, changes_of, project

NAME = f"magnetar-{project()['version']}"


def build(folder: Path) -> dict[str, bytes]:
    command = [sys.executable, "tools/build_release.py", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.skipif(not (TOOLS / ".installed").exists(), reason="tools/release/fetch did not run")
def test_two_builds_of_a_commit_are_equal_and_whole(tmp_path: Path) -> None:
    first, second = build(tmp_path / "first"), build(tmp_path / "second")
    assert first == second
    assert first.keys() == {
        f"{NAME}-py3-none-any.whl",
        f"{NAME}.tar.gz",
        f"{NAME}.cdx.json",
        f"CHANGES-{project()['version']}.md",
        "SHA256SUMS",
    }
    with zipfile.ZipFile(tmp_path / "first" / f"{NAME}-py3-none-any.whl") as wheel:
        names = set(wheel.namelist())
    packed = {f"magnetar/admin/static/{name}" for name in ("index.html", "app.js", "app.css")}
    assert packed | {"magnetar/runtime/acting_key.tsv", "magnetar/py.typed"} <= names
    check = ["sha256sum", "--check", "--quiet", "SHA256SUMS"]
    subprocess.run(check, cwd=tmp_path / "first", check=True)


def test_the_bill_of_materials_names_every_locked_package_with_its_hashes() -> None:
    locked = tomllib.loads((ROOT / "uv.lock").read_text())["package"]
    bill = json.loads(json.dumps(bill_of_materials(project(), locked, 1_700_000_000)))
    named = {each["name"] for each in bill["components"]}
    assert named == {each["name"] for each in locked} - {"magnetar"}
    assert all(each["hashes"] for each in bill["components"])
    known = {bill["metadata"]["component"]["bom-ref"], *(c["bom-ref"] for c in bill["components"])}
    for row in bill["dependencies"]:
        assert {row["ref"], *row["dependsOn"]} <= known
    own = next(
        row for row in bill["dependencies"] if row["ref"] == f"pkg:pypi/{NAME.replace('-', '@')}"
    )
    assert any("protobuf@" in each for each in own["dependsOn"])
    assert bill["metadata"]["timestamp"] == "2023-11-14T22:13:20Z"


def test_the_changes_of_a_version_are_its_section() -> None:
    text = "# Changes\n\n## 2.0.0\n\nnew\n\n## 1.0.0 (old)\n\nfirst\n"
    assert changes_of(text, "2.0.0") == "# 2.0.0\n\nnew\n"
    assert changes_of(text, "1.0.0") == "# 1.0.0 (old)\n\nfirst\n"
    with pytest.raises(SystemExit):
        changes_of(text, "3.0.0")

"""The site of docs/ is built without a network, its links lead somewhere, it can be searched."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.tidy.source import ROOT

TOOLS = ROOT / "build" / "site-tools"
DOCS = sorted(path.stem for path in (ROOT / "docs").glob("*.md"))


def test_every_page_is_in_the_navigation_once() -> None:
    found = re.findall(r": ([\w-]+)\.md$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(found) == sorted([*DOCS, "index", "contributing"])


@pytest.mark.skipif(not (TOOLS / ".installed").exists(), reason="tools/site/fetch did not run")
def test_the_site_is_built_offline_with_strict_links_and_search(tmp_path: Path) -> None:
    site = tmp_path / "site"
    done = subprocess.run(["tools/site/build", site], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = {path.stem for path in site.glob("*.html")}
    assert pages >= {*DOCS, "index", "contributing"}
    index = json.loads((site / "search" / "search_index.json").read_text())
    found = {entry["location"].partition(".html")[0] for entry in index["docs"]}
    assert found >= {*DOCS, "index"}
    assert "console-scalable.png" in (site / "index.html").read_text()


@pytest.mark.skipif(not (TOOLS / ".installed").exists(), reason="tools/site/fetch did not run")
@pytest.mark.parametrize("link", ["nowhere.md", "start.md#nowhere"])
def test_a_link_that_leads_nowhere_fails_the_build(tmp_path: Path, link: str) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "index.md").write_text(f"[x]({link})\n")
    (docs / "start.md").write_text("# Start\n")
    settings = (ROOT / "mkdocs.yml").read_text()
    kept = re.search(r"^validation:\n(?: .*\n)+", settings, re.MULTILINE)
    assert kept is not None
    (tmp_path / "mkdocs.yml").write_text(f"site_name: x\n{kept[0]}")
    command = [str(TOOLS / "bin" / "mkdocs"), "build", "--strict"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode != 0 and "nowhere" in done.stderr

"""Makes pages of the site of files that stand beside docs/: the first page is the README."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent.parent
PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md"}
ICON = "console-icon.svg"
LINK = re.compile(r"(!?)\[([^]\[]*(?:\[[^]]*\][^]\[]*)?)\]\(([^)\s]+)\)")


def on_files(files: Files, config: Any) -> Files:
    for source, page in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=_adapt(text, "docs/")))
    icon = (ROOT / "console" / "src" / "icon.svg").read_text(encoding="utf-8")
    files.append(File.generated(config, ICON, content=icon))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    return _adapt(markdown, "")


def _adapt(markdown: str, prefix: str) -> str:
    """Links to pages of the site stay links; other files of the repository are named."""

    def change(found: re.Match[str]) -> str:
        mark, label, target = found.groups()
        inner = LINK.sub(change, label) if "](" in label else label
        place, _, anchor = target.removeprefix("../").partition("#")
        if "://" in target or target.startswith("#"):
            return f"{mark}[{inner}]({target})"
        if target.startswith("../") or prefix:
            place = PAGES.get(place, place)
            if prefix and place.startswith(prefix):
                place = place.removeprefix(prefix)
            elif place not in PAGES.values():
                return f"{inner} (`{place}`)" if inner.strip("`") != place else f"`{place}`"
        return f"{mark}[{inner}]({place}{'#' + anchor if anchor else ''})"

    return LINK.sub(change, markdown)

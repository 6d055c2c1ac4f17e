"""How generators end: they write what they made, or with --check fail where it is not written."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parent.parent


def tidy(text: str, target: Path, *rules: str) -> str:
    """Python code as ruff formats it, after mending what breaks one of the rules."""
    for command in (
        ["check", "--quiet", "--select", ",".join(rules), "--fix"],
        ["format", "--quiet"],
    ):
        text = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(target), "-"],
            input=text,
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
        ).stdout
    return text


def finish(made: Mapping[Path, str]) -> None:
    """The text of each file; the program's own name stands in the refusal."""
    for target, text in made.items():
        if "--check" not in sys.argv[1:]:
            target.write_text(text)
        elif not target.exists() or target.read_text() != text:
            tool = Path(sys.argv[0]).name
            raise SystemExit(f"{target.relative_to(ROOT)} is not what tools/{tool} writes")

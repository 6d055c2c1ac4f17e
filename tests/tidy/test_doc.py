"""The guides do what they say: their examples run against a live broker.

A block marked `python` runs as it stands, in one namespace per page; `python pytest` is a test
file; `console` is a session whose `$ ` lines must succeed and print what stands below them (`...`
stands for anything). Other marks are for reading only.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from codeop import compile_command
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from magnetar.testing import MagnetarBroker
from tests.tidy.source import ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Pages that another test runs, and why.
ELSEWHERE = {
    "spark.md": "tests/spark/test_guide.py, with the Spark session of its neighbours",
    "jobs.md": "tests/spark/test_guide.py, with the Spark session of its neighbours",
    "learn.md": "tests/spark/test_guide.py, with the Spark session of its neighbours",
}
SERVICE_URL = "pulsar://localhost:6650"
ADMIN_URL = "http://localhost:8080"


@dataclass(frozen=True, slots=True)
class Block:
    mark: str
    text: str
    line: int


def blocks(page: Path) -> list[Block]:
    text = page.read_text()
    return [
        Block(match[1].strip(), match[2], text.count("\n", 0, match.start()) + 2)
        for match in FENCE.finditer(text)
    ]


def runnable(page: Path) -> list[Block]:
    return [block for block in blocks(page) if block.mark.split(" ")[0] in ("python", "console")]


def test_the_first_pages_have_examples_that_run() -> None:
    for name in ("README.md", "docs/start.md", "docs/testing.md", "docs/operations.md"):
        assert runnable(ROOT / name), name


def test_pages_that_are_read_one_after_another_make_topics_of_their_own() -> None:
    made: dict[str, str] = {}
    for page in PAGES:
        for topic in re.findall(r"^\$ magnetar .* create (\S+)", page.read_text(), re.MULTILINE):
            assert made.setdefault(topic, page.name) == page.name, topic


def test_what_is_pasted_into_python_needs_no_other_lines() -> None:
    """A prompt ends a loop at an empty line: without one, the next statement is an error."""
    pages = [ROOT / "README.md", ROOT / "docs" / "start.md", ROOT / "docs" / "learn.md"]
    found = [(page, block) for page in pages for block in blocks(page) if block.mark == "python"]
    for page, block in found:
        pasted: list[str] = []
        for number, line in enumerate([*block.text.splitlines(), ""]):
            pasted.append(line)
            try:
                code = compile_command("\n".join(pasted), symbol="single")
            except SyntaxError as error:
                raise AssertionError(f"{page.name}:{block.line + number}: {error}") from error
            if code is not None:
                pasted.clear()


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if runnable(page) and page.name not in ELSEWHERE],
    ids=lambda page: page.name,
)
def test_the_examples_of_a_page_run_in_order(
    page: Path, magnetar_broker: MagnetarBroker, tmp_path: Path
) -> None:
    run_page(page, magnetar_broker, tmp_path)


def run_page(page: Path, magnetar_broker: MagnetarBroker, tmp_path: Path) -> None:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in runnable(page):
        text = block.text.replace(SERVICE_URL, magnetar_broker.service_url)
        text = text.replace(ADMIN_URL, magnetar_broker.admin_url)
        where = f"{page.name}:{block.line}"
        match block.mark:
            case "python":
                exec(compile("\n" * (block.line - 1) + text, str(page), "exec"), namespace)
            case "python pytest":
                run_tests(text, tmp_path, where)
            case "console":
                run_session(text, magnetar_broker, tmp_path, where)
            case mark:
                raise AssertionError(f"{where}: unknown mark {mark}")


def run_tests(text: str, folder: Path, where: str) -> None:
    path = folder / "test_example.py"
    path.write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(path)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, f"{where}\n{done.stdout}{done.stderr}"


def run_session(text: str, broker: MagnetarBroker, folder: Path, where: str) -> None:
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "MAGNETAR_ADMIN_URL": broker.admin_url,
        "MAGNETAR_URL": broker.service_url,
    }
    for step in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, expected = step.partition("\n")
        done = subprocess.run(
            ["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{where}: {command}\n{done.stdout}{done.stderr}"
        pattern = ".*".join(re.escape(part) for part in expected.strip().split("..."))
        assert re.fullmatch(pattern, done.stdout.strip(), re.DOTALL), (
            f"{where}: {command}\nprinted:\n{done.stdout}\ninstead of:\n{expected}"
        )


def test_no_example_is_content_with_any_output() -> None:
    """What a command prints is shown, or it prints nothing."""
    content = [
        f"{page.name}:{block.line}: {command}"
        for page in PAGES
        for block in runnable(page)
        if block.mark == "console"
        for command, _, expected in (
            step.partition("\n") for step in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]
        )
        if expected.strip() == "..."
    ]
    assert not content


def test_links_between_the_pages_lead_somewhere() -> None:
    lost = [
        f"{page.name}: {target}"
        for page in [*PAGES, ROOT / "CHANGELOG.md", ROOT / "bench" / "README.md"]
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text())
        if "://" not in target and not (page.parent / target).exists()
    ]
    assert not lost

"""Calls and habits the project does without, each with the place that has the better one."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Mapping

import pytest

from tests.tidy.source import ROOT, Source, written_sources

CLOCK = "ask a Clock (runtime/clock.py)"
TASK = "start it in a scope (runtime/task.py) or a TaskGroup"
# Call, advice, and the files or rooms that are the better place themselves.
BANNED_CALLS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "time.time": (CLOCK, ("runtime/wall.py",)),
    "time.time_ns": (CLOCK, ("runtime/wall.py",)),
    "datetime.now": (CLOCK, ()),
    "datetime.utcnow": (CLOCK, ()),
    "datetime.datetime.now": (CLOCK, ()),
    "asyncio.create_task": (TASK, ("runtime/task.py",)),
    "asyncio.ensure_future": (TASK, ("runtime/task.py",)),
    "loop.create_task": (TASK, ("runtime/task.py",)),
    "self._loop.create_task": (TASK, ("runtime/task.py",)),
    "asyncio.get_running_loop().create_task": (TASK, ("runtime/task.py",)),
    "asyncio.get_event_loop": ("use asyncio.get_running_loop", ()),
    "eval": ("parse it", ()),
    "msgspec.json.decode": (
        "decode_json (model/document.py) refuses what is not UTF-8",
        ("model",),
    ),
    "exec": ("call it", ()),
    "print": ("log, or print from the CLI", ("cli", "app", "testing/simulation/main.py")),
    "breakpoint": ("remove it", ()),
    "random.random": ("take the random source as an argument", ()),
    "random.choice": ("take the random source as an argument", ()),
}


def is_banned(source: Source, call: str) -> bool:
    if call not in BANNED_CALLS or {source.inside, source.room} & set(BANNED_CALLS[call][1]):
        return False
    head = call.partition(".")[0]
    imported = {each.name or each.module for each in source.imports()}
    # An argument may be called `random`; only the module of that name is meant.
    return head in imported or head not in sys.stdlib_module_names


def test_no_banned_call() -> None:
    wrong = [
        f"{source.inside}:{line} calls {call}: {BANNED_CALLS[call][0]}"
        for source in written_sources()
        for call, line in source.calls()
        if is_banned(source, call)
    ]
    assert not wrong


def test_nothing_is_left_for_later() -> None:
    later = re.compile(r"#.*\b(TODO|FIXME|XXX|HACK)\b|NotImplementedError")
    assert not [source.inside for source in written_sources() if later.search(source.text)]


def test_no_exception_is_swallowed_unnamed() -> None:
    bare = [
        f"{source.inside}:{node.lineno}"
        for source in written_sources()
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ExceptHandler) and node.type is None
    ]
    assert not bare


def test_no_test_patches_our_own_code() -> None:
    patching = re.compile(r"unittest\.mock|from unittest import mock|monkeypatch\.setattr|mocker\b")
    wrong = [
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "tests").rglob("*.py")
        if path.name != "test_banned.py" and patching.search(path.read_text())
    ]
    assert not wrong


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import time\nstamp = time.time()\n", ["time.time"]),
        ("async def run(tasks):\n    tasks.create_task(work())\n", ["tasks.create_task", "work"]),
    ],
)
def test_calls_are_seen_with_their_dotted_names(
    tmp_path_factory: pytest.TempPathFactory, text: str, expected: list[str]
) -> None:
    path = tmp_path_factory.mktemp("source") / "example.py"
    path.write_text(text)
    assert [call for call, _ in Source(path).calls()] == expected

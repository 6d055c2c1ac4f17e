"""The blocking admin client is what is written from the async one, method by method."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping
from typing import Any

import pytest

from magnetar import Admin, AsyncAdmin
from tests.tidy.source import ROOT
from tools import generate_admin

LIMIT = object()
GROUPS = [name for name in vars(Admin()) if not name.startswith("_")]


def public(kind: type[Any]) -> dict[str, Any]:
    return {name: value for name, value in inspect.getmembers(kind) if not name.startswith("_")}


def test_every_kind_of_thing_is_there() -> None:
    assert [name for name in vars(AsyncAdmin()) if not name.startswith("_")] == GROUPS
    assert inspect.signature(Admin) == inspect.signature(AsyncAdmin)


@pytest.mark.parametrize("group", GROUPS)
def test_every_method_is_there_with_its_arguments(group: str) -> None:
    blocking = public(type(getattr(Admin(), group)))
    awaited = public(type(getattr(AsyncAdmin(), group)))
    assert blocking.keys() == awaited.keys()
    for name, method in awaited.items():
        ours, theirs = inspect.signature(blocking[name]), inspect.signature(method)
        assert ours.parameters == theirs.parameters, name
        assert blocking[name].__doc__ == method.__doc__, name
        if not inspect.isasyncgenfunction(method):
            assert ours.return_annotation == theirs.return_annotation, name


class Inherited:
    async def common(self, key: str = "a") -> Mapping[str, str]:
        """Of the base."""
        return {key: key}

    async def changed(self) -> int:
        return 1


class AsyncThing(Inherited):
    """A thing."""

    async def changed(self, count: int, /, *rest: str, limit: object = LIMIT, **more: Any) -> None:
        """Of the class."""

    async def each(self, *, since: float | None = None) -> AsyncGenerator[str, None]:
        """One by one."""
        yield ""

    @property
    def name(self) -> str:
        return ""


WRITTEN = '''\
class Thing:
    """A thing."""

    def __init__(self, inner: AsyncThing) -> None:
        self._inner = inner

    def changed(self, count: int, /, *rest: str, limit: object = LIMIT, **more: Any) -> None:
        """Of the class."""
        run(self._inner.changed(count, *rest, limit=limit, **more))

    def each(self, *, since: float | None = None) -> Iterator[str]:
        """One by one."""
        return iterate(self._inner.each(since=since))

    @property
    def name(self) -> str:
        return self._inner.name

    def common(self, key: str = 'a') -> Mapping[str, str]:
        """Of the base."""
        return run(self._inner.common(key))
'''


def test_methods_are_written_with_those_that_are_inherited() -> None:
    writer = generate_admin.Writer()
    assert writer.write_class(AsyncThing) == WRITTEN
    assert writer.imports - generate_admin.IMPORTS == {
        ("collections.abc", "Iterator"),
        ("collections.abc", "Mapping"),
        ("typing", "Any"),
        (__name__, "AsyncThing"),
        (__name__, "LIMIT"),
    }


def test_the_module_is_what_the_tool_writes() -> None:
    command = [sys.executable, "tools/generate_admin.py", "--check"]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, f"run `python tools/generate_admin.py`: {checked.stderr}"

"""Paths of records: `/a/b`, never empty, never ending in a slash; `/` is the root, which holds no
record.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from magnetar.errors import InvalidPath

ROOT: Final = "/"


def check_directory(path: str) -> None:
    """Refuse what cannot be listed or watched."""
    if path != ROOT:
        check_path(path)


def check_path(path: str) -> None:
    """Refuse what cannot hold a record."""
    if not path.startswith("/") or path.endswith("/") or "//" in path or "\0" in path:
        raise InvalidPath(f"Invalid metadata path: {path!r}")


def parent_of(path: str) -> str:
    return path[: path.rindex("/")] or ROOT


def name_of(path: str) -> str:
    return path[path.rindex("/") + 1 :]


def child_of(parent: str, name: str) -> str:
    return f"/{name}" if parent == ROOT else f"{parent}/{name}"


def lineage_of(path: str) -> Iterator[str]:
    """The path itself, its parent and so on, the root last."""
    yield path
    while path != ROOT:
        path = parent_of(path)
        yield path

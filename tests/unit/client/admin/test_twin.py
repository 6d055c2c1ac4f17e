"""Everything the blocking admin client offers, the asyncio one offers under the same name."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from magnetar.client.admin.service import AdminClient
from magnetar.client.admin.twin import AsyncAdmin

GROUPS = {name: value for name, value in vars(AdminClient()).items() if not name.startswith("_")}


def public(kind: Any) -> dict[str, Any]:
    members = inspect.getmembers(kind, inspect.isfunction)
    return {name: value for name, value in members if not name.startswith("_")}


def test_every_kind_of_thing_is_there() -> None:
    assert {name for name in vars(AsyncAdmin()) if not name.startswith("_")} == GROUPS.keys()


@pytest.mark.parametrize("name", GROUPS)
def test_every_method_is_there_with_its_arguments(name: str) -> None:
    ours, twin = public(type(GROUPS[name])), public(type(vars(AsyncAdmin())[name]))
    assert ours.keys() == twin.keys()
    for method, blocking in ours.items():
        assert inspect.signature(twin[method]) == inspect.signature(blocking)


def test_the_client_itself_takes_the_same_arguments() -> None:
    assert inspect.signature(AsyncAdmin) == inspect.signature(AdminClient)

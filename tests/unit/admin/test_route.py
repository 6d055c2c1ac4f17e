from __future__ import annotations

from collections import Counter

import pytest

from magnetar.admin.request import Call
from magnetar.admin.route import Found, Route, Router, WrongMethod, spread
from magnetar.admin.table import all_routes
from magnetar.broker.administration.web import Administration
from magnetar.model.permission import OPEN
from magnetar.operation.row import Operation


async def answer(api: Administration, call: Call) -> object:
    return None


def router(*rows: tuple[str, str]) -> Router:
    operations = (Operation(f"t.{method} {path}", "", method, path, OPEN) for method, path in rows)
    return Router(Route(row, answer) for each in operations for row in spread(each))


ROUTER = router(
    ("GET", "/"),
    ("GET", "/n/{ns}"),
    ("GET", "/n/{ns}/permissions"),
    ("POST", "/n/{ns}/permissions/{role}"),
    ("PUT", "/n/{ns}/{bundle}/unload"),
    ("DELETE", "/n/{ns}/{bundle}"),
    ("GET", "/{domain}/{topic}/stats"),
)


@pytest.mark.parametrize(
    ("method", "path", "operation", "parts"),
    [
        ("GET", "/", "t.GET /", {}),
        ("GET", "/n/a", "t.GET /n/{ns}", {"ns": "a"}),
        ("GET", "/n/a/", "t.GET /n/{ns}", {"ns": "a"}),
        ("HEAD", "/n/a", "t.GET /n/{ns}", {"ns": "a"}),
        ("GET", "/n/a%2Fb", "t.GET /n/{ns}", {"ns": "a%2Fb"}),
        ("GET", "/n/..", "t.GET /n/{ns}", {"ns": ".."}),
        ("GET", "/n/a/permissions", "t.GET /n/{ns}/permissions", {"ns": "a"}),
        (
            "DELETE",
            "/n/a/permissions",
            "t.DELETE /n/{ns}/{bundle}",
            {"ns": "a", "bundle": "permissions"},
        ),
        (
            "PUT",
            "/n/a/permissions/unload",
            "t.PUT /n/{ns}/{bundle}/unload",
            {"ns": "a", "bundle": "permissions"},
        ),
        (
            "GET",
            "/non-persistent/x/stats",
            "t.GET /{domain}/{topic}/stats.non_persistent",
            {"domain": "non-persistent", "topic": "x"},
        ),
    ],
)
def test_a_path_finds_the_most_literal_route_that_has_the_method(
    method: str, path: str, operation: str, parts: dict[str, str]
) -> None:
    found = ROUTER.find(method, path)
    assert isinstance(found, Found)
    assert found.route.row.name == operation
    assert dict(found.parts) == parts


@pytest.mark.parametrize("path", ["/x", "/n", "/n//permissions", "/n/a/b/c/d", "/topic/x/stats"])
def test_a_path_nobody_has_is_not_found(path: str) -> None:
    assert ROUTER.find("GET", path) is None


def test_a_wrong_method_is_told_the_right_ones() -> None:
    assert ROUTER.find("PATCH", "/n/a/permissions") == WrongMethod(("DELETE", "GET"))


def test_every_operation_has_a_name_of_its_own_and_a_summary() -> None:
    routes = all_routes()
    twice = [name for name, count in Counter(r.row.name for r in routes).items() if count > 1]
    assert not twice
    assert not [route.row.name for route in routes if not route.row.doc]


def test_the_whole_table_fits_one_router_and_finds_itself() -> None:
    routes = all_routes()
    whole = Router(routes)
    for route in routes:
        path = route.row.path.replace("{", "").replace("}", "")
        found = whole.find(route.row.method, path)
        assert isinstance(found, Found), route.row.path

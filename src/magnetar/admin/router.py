"""Finds the route of a raw path."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from magnetar.admin.route import Route


@dataclass(slots=True)
class _Node:
    literal: dict[str, _Node] = field(default_factory=dict)
    variable: _Node | None = None
    routes: dict[str, Route] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Found:
    route: Route
    parts: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class WrongMethod:
    allowed: tuple[str, ...]


class Router:
    """Matches component by component, before any percent escape is resolved.

    A component spelled out wins over a variable one; a route that lacks the method gives way to
    the next that has it. A slash at the end does not count.
    """

    def __init__(self, routes: Iterable[Route]) -> None:
        self._root = _Node()
        for route in routes:
            self._add(route)

    def _add(self, route: Route) -> None:
        node = self._root
        for component in _split(route.path):
            if component.startswith("{"):
                if node.variable is None:
                    node.variable = _Node()
                node = node.variable
            else:
                node = node.literal.setdefault(component, _Node())
        assert route.method not in node.routes, f"{route.method} {route.path} stands twice"
        node.routes[route.method] = route

    def find(self, method: str, path: str) -> Found | WrongMethod | None:
        components = _split(path)
        allowed: set[str] = set()
        for node in _matches(self._root, components, 0):
            route = node.routes.get(method)
            if route is None and method == "HEAD":
                route = node.routes.get("GET")
            if route is not None:
                return Found(route, _name_parts(route, components))
            allowed.update(node.routes)
        return WrongMethod(tuple(sorted(allowed))) if allowed else None


def _split(path: str) -> list[str]:
    return path.rstrip("/").split("/")[1:]


def _matches(node: _Node, components: list[str], index: int) -> Iterator[_Node]:
    if index == len(components):
        if node.routes:
            yield node
        return
    component = components[index]
    following = node.literal.get(component)
    if following is not None:
        yield from _matches(following, components, index + 1)
    if node.variable is not None and component:
        yield from _matches(node.variable, components, index + 1)


def _name_parts(route: Route, components: list[str]) -> dict[str, str]:
    pairs = zip(_split(route.path), components, strict=True)
    named = {name[1:-1]: component for name, component in pairs if name.startswith("{")}
    return {**route.fixed, **named}

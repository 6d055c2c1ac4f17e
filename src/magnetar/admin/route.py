"""The table of routes: one row for each method and path, and how a raw path finds its row."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from magnetar.admin.request import Call
from magnetar.broker.administration.web import Administration
from magnetar.model.name import TopicDomain
from magnetar.operation.row import Operation, Parameter

Handler: TypeAlias = Callable[[Administration, Call], Awaitable[object]]

_SUFFIXES: Final[Mapping[TopicDomain, str]] = {
    TopicDomain.PERSISTENT: "",
    TopicDomain.NON_PERSISTENT: ".non_persistent",
    TopicDomain.TOPIC: ".scalable",
    TopicDomain.SEGMENT: ".segment",
}


class Body(NamedTuple):
    """What a body must fit; without `is_required`, nothing and `null` reach the handler as None."""

    row: Parameter
    schema: Any
    is_required: bool


@dataclass(frozen=True, slots=True)
class Route:
    row: Operation
    """With one path, and the name that tells this path from the others of the operation."""
    handler: Handler
    types: Mapping[str, object] = field(default_factory=dict)
    """Of the parameters, as the function that carries the operation out has them."""
    body: Body | None = None
    result: object = None
    """The type of what it answers as JSON; None where that is not known."""


def spread(operation: Operation) -> Iterator[Operation]:
    """One row for each path; a `{domain}` stands for one of each kind of topic."""
    for number, path in enumerate((operation.path, *operation.also), 1):
        name = operation.name + (f".{number}" if number > 1 else "")
        for domain in operation.domains if "{domain}" in path else ():
            yield operation._replace(
                name=name + _SUFFIXES[domain],
                path=path.replace("{domain}", domain.value),
                domain=domain,
            )
        if "{domain}" not in path:
            yield operation._replace(name=name, path=path)


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
        node, method = self._root, route.row.method
        for component in _split(route.row.path):
            if component.startswith("{"):
                if node.variable is None:
                    node.variable = _Node()
                node = node.variable
            else:
                node = node.literal.setdefault(component, _Node())
        assert method not in node.routes, f"{method} {route.row.path} stands twice"
        node.routes[method] = route

    def find(self, method: str, path: str) -> Found | WrongMethod | None:
        components = _split(path)
        allowed: set[str] = set()
        for node in _matches(self._root, components):
            route = node.routes.get(method)
            if route is None and method == "HEAD":
                route = node.routes.get("GET")
            if route is not None:
                return Found(route, _name_parts(route.row, components))
            allowed.update(node.routes)
        return WrongMethod(tuple(sorted(allowed))) if allowed else None


def _split(path: str) -> list[str]:
    return path.rstrip("/").split("/")[1:]


def _matches(node: _Node, components: list[str], index: int = 0) -> Iterator[_Node]:
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


def _name_parts(row: Operation, components: list[str]) -> dict[str, str]:
    """What the path does not say of the topic is the same for every call."""
    parts = {} if row.domain is None else {"domain": row.domain.value}
    for name, component in zip(_split(row.path), components, strict=True):
        if name.startswith("{"):
            parts[name[1:-1]] = component
    return parts

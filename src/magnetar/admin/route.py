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
_Shape: TypeAlias = tuple[str | None, ...]
"""The components of a path, None for those that are variable."""
_Mask: TypeAlias = tuple[int, ...]
"""Which components are variable."""

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
        self._routes: dict[_Shape, dict[str, Route]] = {}
        for route in routes:
            method, components = route.row.method, _split(route.row.path)
            shape = tuple(None if each.startswith("{") else each for each in components)
            methods = self._routes.setdefault(shape, {})
            assert method not in methods, f"{method} {route.row.path} stands twice"
            methods[method] = route
        self._masks: dict[int, list[_Mask]] = {}
        """By how many components there are; the most literal first."""
        for mask in sorted({tuple(each is None for each in shape) for shape in self._routes}):
            variable = tuple(index for index, is_variable in enumerate(mask) if is_variable)
            self._masks.setdefault(len(mask), []).append(variable)

    def find(self, method: str, path: str) -> Found | WrongMethod | None:
        components = _split(path)
        allowed: set[str] = set()
        for mask in self._masks.get(len(components), ()):
            shape: list[str | None] = [*components]
            for index in mask:
                if components[index]:
                    shape[index] = None
            methods = self._routes.get(tuple(shape), {})
            route = methods.get(method) or (methods.get("GET") if method == "HEAD" else None)
            if route is not None:
                return Found(route, _name_parts(route.row, components))
            allowed.update(methods)
        return WrongMethod(tuple(sorted(allowed))) if allowed else None


def _split(path: str) -> list[str]:
    return path.rstrip("/").split("/")[1:]


def _name_parts(row: Operation, components: list[str]) -> dict[str, str]:
    """What the path does not say of the topic is the same for every call."""
    parts = {} if row.domain is None else {"domain": row.domain.value}
    for name, component in zip(_split(row.path), components, strict=True):
        if name.startswith("{"):
            parts[name[1:-1]] = component
    return parts

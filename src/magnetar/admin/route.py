"""The rows of the table of routes."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from magnetar.admin.request import Call
from magnetar.admin.response import JSON
from magnetar.broker.administration.web import Administration
from magnetar.model.name import TopicDomain
from magnetar.model.permission import Need
from magnetar.operation.row import DOMAINS

Handler: TypeAlias = Callable[[Administration, Call], Awaitable[object]]

_SUFFIXES: Final[Mapping[TopicDomain, str]] = {
    TopicDomain.PERSISTENT: "",
    TopicDomain.NON_PERSISTENT: ".non_persistent",
    TopicDomain.TOPIC: ".scalable",
    TopicDomain.SEGMENT: ".segment",
}
_PART: Final = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Query:
    """A query parameter, for the description; the handler reads it."""

    name: str
    kind: type[bool] | type[int] | type[str] = bool
    default: bool | int | str | None = None


@dataclass(frozen=True, slots=True)
class Body:
    """What a body must fit; without `required`, nothing and `null` reach the handler as None.

    A body that is the value of a `policy` is refused under its name when it does not fit: it is
    the value that cannot be, not the call.
    """

    schema: Any
    required: bool = False
    missing: str = "The request body cannot be empty"
    media_types: tuple[str, ...] = (JSON,)
    policy: str = ""
    text_limit: str = "property_value_bytes"
    """The row of the table of limits that every text of it keeps to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    method: str
    path: str
    operation: str
    handler: Handler
    need: Need
    """What it takes of the caller."""
    status: int = 200
    summary: str = ""
    description: str = ""
    body: Body | None = None
    query: tuple[Query, ...] = ()
    produces: str = JSON
    or_produces: tuple[str, ...] = ()
    """What else it may be, for those who ask for it."""
    fixed: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """What the path does not say because it is the same for every call."""
    result: object = None
    """The type of what it answers as JSON; None where that is not known."""
    for_owner: bool = False
    """Whether only the broker that owns the namespace can answer."""

    @property
    def area(self) -> str:
        return self.operation.partition(".")[0]

    def part_names(self) -> tuple[str, ...]:
        return tuple(_PART.findall(self.path))


def expand(route: Route, domains: Iterable[TopicDomain] = DOMAINS) -> Iterator[Route]:
    """A path with a `{domain}` stands for one of each kind of topic."""
    if "{domain}" not in route.path:
        yield route
        return
    for domain in domains:
        yield replace(
            route,
            path=route.path.replace("{domain}", domain.value),
            operation=route.operation + _SUFFIXES[domain],
            fixed=MappingProxyType({"domain": domain.value}),
        )

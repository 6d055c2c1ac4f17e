"""Which function carries out which operation, and what finds the things that it takes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter, Signature, isawaitable, signature
from typing import Any, Final, TypeAlias, TypeVar, get_type_hints

from magnetar.broker.service import Service

Document: TypeAlias = Mapping[str, Any]
"""An object of JSON that no record describes."""
Function: TypeAlias = Callable[..., Awaitable[object]]
F = TypeVar("F", bound=Function)
Finder: TypeAlias = Callable[..., object]
G = TypeVar("G", bound=Finder)

FUNCTIONS: Final[dict[str, Function]] = {}
"""By the name of the operation; all take the broker first, and by name what the row names."""
_FINDERS: Final[dict[object, Finder]] = {}


def finds(kind: object) -> Callable[[G], G]:
    """The function finds what others take as a parameter of this type, such as a live topic.

    It takes the broker and by name the parameters of the row that it needs, and it refuses what
    does not exist: a function that takes a thing has nothing to check.
    """

    def register(finder: G) -> G:
        _FINDERS[kind] = finder
        return finder

    return register


def carries_out(*names: str, **words: object) -> Callable[[F], F]:
    """The function takes by name the broker, the parameters of the operation's row, and things that
    are found by them, in the order in which it names them. `words` are said to what finds them.
    """

    def register(function: F) -> F:
        for name in names:
            assert name not in FUNCTIONS, f"{name} is carried out twice"
            FUNCTIONS[name] = complete(function, words)
        return function

    return register


def complete(function: Function, words: Mapping[str, object]) -> Function:
    """The same of what a request says alone."""
    own = _parameters_of(function)
    finders = {
        name: _FINDERS[each.annotation] for name, each in own.items() if each.annotation in _FINDERS
    }
    if not finders and "service" in own:
        return function
    steps = {name: (finder, _parameters_of(finder)) for name, finder in finders.items()}
    asked = {name: each for name, each in own.items() if name not in finders}
    for _, needed in steps.values():  # what it has a default for are words
        asked |= {name: each for name, each in needed.items() if each.default is each.empty}
    asked = {name: each for name, each in asked.items() if name not in ("service", *words)}

    async def carry_out(service: Service, **given: object) -> object:
        given |= {"service": service, **words}
        taken = {name: given[name] for name in own if name in given}
        for name, (finder, needed) in steps.items():
            found = finder(**{key: given[key] for key in needed if key in given})
            taken[name] = await found if isawaitable(found) else found
        return await function(**taken)

    result = get_type_hints(function, include_extras=True)["return"]
    carry_out.__annotations__ = {name: each.annotation for name, each in asked.items()}
    carry_out.__annotations__ |= {"service": Service, "return": result}
    ordered = sorted(asked.values(), key=lambda each: (each.kind, each.default is not each.empty))
    carry_out.__signature__ = Signature(ordered)  # type: ignore[attr-defined]
    return carry_out


def _parameters_of(function: Finder) -> dict[str, Parameter]:
    kinds = get_type_hints(function, include_extras=True)
    return {
        name: each.replace(annotation=kinds[name])
        for name, each in signature(function).parameters.items()
    }


@dataclass(frozen=True, slots=True)
class Listing:
    """Names that may be too many for one answer: as a whole, or some after the other."""

    names: Callable[[], Awaitable[Sequence[str]]]
    runs: Callable[[], AsyncIterator[Sequence[str]]]


@dataclass(frozen=True, slots=True)
class Note:
    """Done, and there is something to know about it."""

    text: str

"""Which function carries out which operation."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Concatenate, Final, TypeAlias, TypeVar

from magnetar.broker.service import Service

Document: TypeAlias = Mapping[str, Any]
"""An object of JSON that no record describes."""
Function: TypeAlias = Callable[..., Awaitable[object]]
F = TypeVar("F", bound=Callable[Concatenate[Service, ...], Awaitable[object]])

FUNCTIONS: Final[dict[str, Function]] = {}
"""By the name of the operation."""


def carries_out(*names: str) -> Callable[[F], F]:
    """The function takes the broker, and by name the parameters of the operation's row."""

    def register(function: F) -> F:
        for name in names:
            assert name not in FUNCTIONS, f"{name} is carried out twice"
            FUNCTIONS[name] = function
        return function

    return register


@dataclass(frozen=True, slots=True)
class Listing:
    """Names that may be too many for one answer: as a whole, or some after the other."""

    names: Callable[[], Awaitable[Sequence[str]]]
    runs: Callable[[], AsyncIterator[Sequence[str]]]


@dataclass(frozen=True, slots=True)
class Note:
    """Done, and there is something to know about it."""

    text: str

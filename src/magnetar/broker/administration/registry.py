"""Which function carries out which operation, and what finds the things that it takes.

A function states the owners that it needs by their types, as `resources: Resources`: no operation
takes the whole broker.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter, Signature, isawaitable, signature
from operator import attrgetter
from typing import Any, Final, TypeAlias, TypeVar, get_type_hints

from magnetar.broker.authorization import Authorization
from magnetar.broker.broker_call import BrokerCalls
from magnetar.broker.bundle_mover import BundleMover
from magnetar.broker.catalog import TopicCatalog
from magnetar.broker.connection import Connections
from magnetar.broker.ownership import Owner, Ownership
from magnetar.broker.policy import PolicyService
from magnetar.broker.port import Port
from magnetar.broker.resource import Resources
from magnetar.broker.scalable.control import Controls
from magnetar.broker.scalable.service import ScalableService
from magnetar.broker.schema import SchemaRegistry
from magnetar.broker.stored_configuration import StoredConfiguration
from magnetar.broker.topic_tree import TopicTree
from magnetar.broker.transaction.service import TransactionService
from magnetar.broker.upkeep import Upkeep
from magnetar.ledger.store import LedgerStore
from magnetar.metadata.store import MetadataStore
from magnetar.model.limit import Limits
from magnetar.runtime.clock import Clock
from magnetar.runtime.configuration import Configuration

Document: TypeAlias = Mapping[str, Any]
"""An object of JSON that no record describes."""
Function: TypeAlias = Callable[..., Awaitable[object]]
F = TypeVar("F", bound=Function)
Finder: TypeAlias = Callable[..., object]
G = TypeVar("G", bound=Finder)

FUNCTIONS: Final[dict[str, Function]] = {}
"""By the name of the operation; all take the broker first, and by name what the row names."""
_FINDERS: Final[dict[object, Function]] = {}


_OWNERS: Final[Mapping[object, Callable[[Any], object]]] = {
    Authorization: attrgetter("authorization"),
    BrokerCalls: attrgetter("calls"),
    BundleMover | None: attrgetter("bundles"),
    Clock: attrgetter("clock"),
    Configuration: attrgetter("config"),
    Connections: attrgetter("connections"),
    Controls: attrgetter("scalable.controls"),
    LedgerStore: attrgetter("ledgers"),
    Limits: attrgetter("limits"),
    MetadataStore: attrgetter("store"),
    Owner: attrgetter("owner"),
    Ownership: attrgetter("ownership"),
    PolicyService: attrgetter("policies"),
    Resources: attrgetter("resources"),
    ScalableService: attrgetter("scalable"),
    SchemaRegistry: attrgetter("schemas"),
    StoredConfiguration: attrgetter("stored_configuration"),
    TopicCatalog: attrgetter("catalog"),
    TopicTree: attrgetter("tree"),
    TransactionService: attrgetter("transactions"),
    Upkeep: attrgetter("upkeep"),
}
"""The owners of a broker by their types, as functions state what they need."""


def _find_owner(kind: object) -> Callable[[Any], object] | None:
    """What takes an owner of this type, or a port, from a broker."""
    if isinstance(kind, type) and Port in kind.__mro__:
        return lambda broker: broker
    return _OWNERS.get(kind)


def finds(kind: object) -> Callable[[G], G]:
    """The function finds what others take as a parameter of this type, such as a live topic.

    It takes owners, and by name the parameters of the row that it needs, and it refuses what does
    not exist: a function that takes a thing has nothing to check.
    """

    def register(finder: G) -> G:
        _FINDERS[kind] = complete(finder, {})
        return finder

    return register


def carries_out(*names: str, **words: object) -> Callable[[F], F]:
    """The function takes by name owners, the parameters of the operation's row, and things that are
    found by them, in the order in which it names them. `words` are said to what finds them.
    """

    def register(function: F) -> F:
        completed = complete(function, words)
        for name in names:
            assert name not in FUNCTIONS, f"{name} is carried out twice"
            FUNCTIONS[name] = completed
        return function

    return register


def complete(function: Finder, words: Mapping[str, object]) -> Function:
    """The same of the broker and what a request says alone."""
    own = _parameters_of(function)
    owners = {
        name: find
        for name, each in own.items()
        if (find := _find_owner(each.annotation)) is not None
    }
    finders = {
        name: _FINDERS[each.annotation] for name, each in own.items() if each.annotation in _FINDERS
    }
    steps = {name: (finder, _parameters_of(finder)) for name, finder in finders.items()}
    asked = {name: each for name, each in own.items() if name not in (*owners, *finders)}
    for _, needed in steps.values():  # what it has a default for are words
        asked |= {name: each for name, each in needed.items() if each.default is each.empty}
    asked = {name: each for name, each in asked.items() if name not in words}

    async def carry_out(broker: Port, /, **given: object) -> object:
        given |= words
        taken = {name: given[name] for name in own if name in given}
        taken |= {name: find(broker) for name, find in owners.items()}
        for name, (finder, needed) in steps.items():
            words_of = {key: given[key] for key in needed if key in given}
            taken[name] = await finder(broker, **words_of)
        found = function(**taken)
        return await found if isawaitable(found) else found

    result = get_type_hints(function, include_extras=True).get("return")
    carry_out.__annotations__ = {name: each.annotation for name, each in asked.items()}
    carry_out.__annotations__["return"] = result
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
class Live:
    """Something to look at: as it is now, or followed, anew when the mark changes and at times."""

    load: Callable[[], Awaitable[object]]
    mark: Callable[[], object] = lambda: None


@dataclass(frozen=True, slots=True)
class Transport:
    """How a request came here."""

    is_tls: bool
    has_relay: bool
    """Whether calls about what other brokers own are carried there; else the caller is sent."""


@dataclass(frozen=True, slots=True)
class Note:
    """Done, and there is something to know about it."""

    text: str

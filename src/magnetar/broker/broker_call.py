"""Calls between brokers: a method of a port is called where a topic is owned, here or elsewhere.

A port is a class whose public methods take and return values. Every broker has objects of it that
answer, one for each topic. When another broker owns the topic, the arguments go there as
JSON (`POST /admin/v2/broker-calls/{port}.{method}`), and the answer or the refusal comes back.
Nothing stands for None there: what may be None has it as its default. All methods may be repeated:
a call whose answer was lost is made again, at the owner there is then.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from inspect import Signature, iscoroutinefunction, signature
from typing import (
    Any,
    Concatenate,
    Final,
    Generic,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypeVar,
    cast,
    get_type_hints,
)

import msgspec

from magnetar.broker.ownership import Owner, Ownership
from magnetar.errors import FAULTS, BadRequest, BrokerError, NoOwner, NotFound, ServiceNotReady
from magnetar.model.name import TopicName, parse_topic
from magnetar.runtime.clock import Clock

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

_PAUSES_S: Final = (0.05, 0.2, 0.5, 1.0, 2.0)
"""Between attempts while ownership moves; a caller with more patience tries again later."""
_REFUSALS: Final = {kind.__name__: kind for kind in FAULTS}


class BrokerLink(Protocol):
    """Carries calls to other brokers."""

    async def send(self, owner: Owner, call: str, request: Request) -> Reply:
        """Raise ServiceNotReady when the broker does not answer."""


class NoBrokers:
    """The link of a broker that runs alone."""

    async def send(self, owner: Owner, call: str, request: Request) -> Reply:
        raise ServiceNotReady(f"This broker has no link to {owner.broker_id}")


class Request(msgspec.Struct, frozen=True):
    owned: str
    """The topic whose owner is called."""
    topic: str
    """The topic whose object answers."""
    arguments: dict[str, Any] = {}


class Reply(msgspec.Struct, frozen=True, omit_defaults=True):
    answer: Any = None
    refusal: str = ""
    """The class of the refusal."""
    sentence: str = ""


@dataclass(frozen=True, slots=True)
class _Method:
    """What a method of a port takes, by name, and what it answers."""

    signature: Signature
    kinds: Mapping[str, Any]


@cache
def _describe(method: Callable[..., object]) -> _Method:
    return _Method(signature(method), get_type_hints(method))


Make: TypeAlias = Callable[[TopicName], object]


class OwnerPort(Generic[T]):
    """A port of the owners of topics: answered here for other brokers, and called wherever the
    owner of a topic is.
    """

    def __init__(
        self,
        calls: BrokerCalls,
        port: type,
        make: Callable[[TopicName], T],
        place: Callable[[TopicName], TopicName] = lambda topic: topic,
    ) -> None:
        """`place` is the topic to which another name belongs."""
        self._calls = calls
        self._port = port
        self._make = make
        self._place = place
        calls.offer(port, make)

    @property
    def is_shared(self) -> bool:
        """Whether other brokers may own topics."""
        return self._calls.ownership.is_shared

    def at(self, topic: TopicName) -> T:
        """What stands for the port at the owner of a topic, be it this broker."""
        name = self._place(topic)
        return cast(T, _AtOwner(self._calls, self._port, name, self._make(name)))


@dataclass(frozen=True, slots=True)
class _AtOwner:
    """Has the methods of a port; each is a call of the broker that owns the topic by then."""

    calls: BrokerCalls
    port: type
    topic: TopicName
    here: object

    def __getattr__(self, name: str) -> Callable[..., Awaitable[object]]:
        method = getattr(self.port, name)
        return partial(self.calls.ask, self.topic, self.topic, method, self.here)


class BrokerCalls:
    def __init__(self, ownership: Ownership, link: BrokerLink, clock: Clock) -> None:
        self.ownership: Final = ownership
        self._link = link
        self._clock = clock
        self._ports: dict[str, tuple[type, Make]] = {}

    def offer(self, port: type, make: Make) -> None:
        """Answer calls of a port by what `make` makes for their topic."""
        self._ports[port.__name__] = port, make

    async def ask(
        self,
        owned: TopicName,
        topic: TopicName,
        method: Callable[Concatenate[T, P], Awaitable[R]],
        here: T,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> R:
        """Call a port's method at the broker that owns a topic: on `here` when it is this one."""
        pauses_s = iter(_PAUSES_S)
        while True:
            try:
                owner = await self.ownership.owner_of(owned)
                if not owner.is_self:
                    arguments = _describe(method).signature.bind(here, *args, **kwargs).arguments
                    return await self._send(owner, owned, topic, method, arguments)
            except (NoOwner, ServiceNotReady):
                pause_s = next(pauses_s, None)
                if pause_s is None:
                    raise
                await self._clock.sleep(pause_s)
            else:
                found: R = await getattr(here, method.__name__)(*args, **kwargs)
                return found

    async def _send(
        self,
        owner: Owner,
        owned: TopicName,
        topic: TopicName,
        method: Callable[..., Awaitable[R]],
        arguments: Mapping[str, object],
    ) -> R:
        sent = {name: value for name, value in arguments.items() if name != "self"}
        request = Request(owned.full, topic.full, msgspec.to_builtins(sent))
        reply = await self._link.send(owner, method.__qualname__, request)
        if reply.refusal:
            raise _REFUSALS.get(reply.refusal, ServiceNotReady)(reply.sentence)
        try:
            answer: R = msgspec.convert(reply.answer, _describe(method).kinds["return"])
        except msgspec.ValidationError as error:
            raise ServiceNotReady(
                f"{owner.broker_id} does not answer {method.__qualname__} as it should: {error}"
            ) from None
        return answer

    async def answer(self, call: str, request: Request) -> Reply:
        """Carry out a call of another broker, if this one owns the topic."""
        try:
            await self.ownership.require(parse_topic(request.owned))
            method, target = self._find(call, parse_topic(request.topic))
            kinds = method.kinds
            try:
                arguments = {
                    name: msgspec.convert(value, kinds[name])
                    for name, value in request.arguments.items()
                }
            except (KeyError, msgspec.ValidationError) as error:
                raise BadRequest(f"{call} was called with wrong arguments: {error}") from None
            return Reply(msgspec.to_builtins(await target(**arguments)))
        except BrokerError as refusal:
            return Reply(refusal=type(refusal).__name__, sentence=refusal.sentence)

    def _find(
        self, call: str, topic: TopicName
    ) -> tuple[_Method, Callable[..., Awaitable[object]]]:
        port_name, _, name = call.partition(".")
        port, make = self._ports.get(port_name, (object, None))
        method = vars(port).get(name)
        if make is None or name.startswith("_") or not iscoroutinefunction(method):
            raise NotFound(f"Brokers do not call {call!r}")
        return _describe(method), getattr(make(topic), name)

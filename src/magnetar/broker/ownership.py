"""Ownership of topics: which broker serves a topic, and under which term it writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from magnetar.errors import (
    DataDirectoryRefused,
    InvalidConfiguration,
    NotAllowed,
    ServiceNotReady,
    VersionConflict,
)
from magnetar.metadata.store import ABSENT, MetadataStore
from magnetar.model.name import TopicName
from magnetar.model.position import Term
from magnetar.model.scalable import BrokerAddress
from magnetar.rules.bundle import Bundle

TERM_PATH: Final = "/magnetar/standalone/term"


@dataclass(frozen=True, slots=True)
class Owner:
    """The broker that serves a topic, and the term under which it may write to the topic's
    ledgers.
    """

    broker_id: str
    service_url: str
    web_url: str
    term: Term
    is_self: bool
    listeners: Mapping[str, BrokerAddress] = field(default_factory=dict)
    """Service URLs by the name a client may ask for."""
    service_url_tls: str = ""
    web_url_tls: str = ""

    @property
    def address(self) -> BrokerAddress:
        return BrokerAddress(self.service_url, self.service_url_tls)

    def address_of(self, listener: str) -> BrokerAddress:
        """The service URLs under a listener's name; a blank name is the usual one."""
        if not listener.strip():
            return self.address
        address = self.listeners.get(listener)
        if address is None:
            raise NotAllowed(f"The broker has no advertised listener named {listener!r}")
        return address


@dataclass(frozen=True, slots=True)
class Location:
    """What a lookup of a topic answers: its owner, or a broker that knows better."""

    broker: Owner
    is_redirect: bool
    """Whether the client is to repeat its lookup there."""
    is_authoritative: bool = True
    """Whether the broker that it is sent to is the one to own the topic."""


class Ownership(Protocol):
    @property
    def is_shared(self) -> bool:
        """Whether other brokers may own topics of this cluster."""

    async def owner_of(self, topic: TopicName) -> Owner:
        """The broker that serves a topic; one that has none gets one. Raise NoOwner while
        ownership is moving.
        """

    async def require(self, topic: TopicName) -> Owner:
        """This broker, with the term under which it may write; raise ServiceNotReady when clients
        must look for another.
        """

    async def locate(self, topic: TopicName, *, is_authoritative: bool) -> Location:
        """Answer a lookup. One that is authoritative makes this broker the owner, if there is
        none.
        """

    def listen(self, listener: Callable[[Bundle], None]) -> None:
        """Call the listener with each bundle whose topics must be opened anew, or elsewhere."""


def require_self(owner: Owner, topic: TopicName) -> Owner:
    """Raise ServiceNotReady when another broker serves the topic."""
    if not owner.is_self:
        raise ServiceNotReady(f"{topic} is served by {owner.service_url}")
    return owner


class SoleOwnership:
    """One broker that owns every topic. Its term grows with every start, so an older process is
    fenced.
    """

    is_shared = False

    def __init__(self, owner: Owner) -> None:
        self._owner = owner

    async def owner_of(self, topic: TopicName) -> Owner:
        return self._owner

    async def require(self, topic: TopicName) -> Owner:
        return self._owner

    async def locate(self, topic: TopicName, *, is_authoritative: bool) -> Location:
        return Location(self._owner, is_redirect=False)

    def listen(self, listener: Callable[[Bundle], None]) -> None:
        """Nothing moves."""


async def take_term(store: MetadataStore, *, above: int = 0) -> Term:
    """Read, raise and store the term of a broker that runs alone.

    Raise DataDirectoryRefused, and store nothing, when the term is not above `above`, the highest
    that the ledgers know: then the metadata was lost or is an old copy, and what it does not name
    must not be taken for garbage.
    """
    while True:
        record = await store.get(TERM_PATH)
        term = 1 if record is None else int(record.value) + 1
        if term <= above:
            raise DataDirectoryRefused(
                f"the metadata is older than the ledgers: it has seen {term - 1} starts,"
                f" the ledgers {above}; bring back the metadata file that belongs to them"
            )
        try:
            expect = ABSENT if record is None else record.stat.version
            await store.put(TERM_PATH, str(term).encode(), expect=expect)
        except VersionConflict:
            continue
        return Term(term)


def parse_listeners(text: str) -> dict[str, BrokerAddress]:
    """Read `name:pulsar://host:port,name:pulsar+ssl://host:port,…`: a name may stand twice."""
    listeners: dict[str, BrokerAddress] = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        name, separator, url = part.partition(":")
        if not separator or not url.startswith(("pulsar://", "pulsar+ssl://")):
            raise InvalidConfiguration(
                f"advertisedListeners: {part!r} is not of the form name:pulsar://host:port"
                " or name:pulsar+ssl://host:port"
            )
        known = listeners.get(name.strip(), BrokerAddress())
        is_tls = url.startswith("pulsar+ssl://")
        listeners[name.strip()] = replace(known, **{"url_tls" if is_tls else "url": url})
    return listeners

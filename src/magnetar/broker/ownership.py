"""Who owns a topic. Everyone asks this one component; a cluster puts another one behind the same
questions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from magnetar.errors import DataDirectoryRefused, InvalidConfiguration, NotAllowed, VersionConflict
from magnetar.metadata.store import ABSENT, MetadataStore
from magnetar.model.name import TopicName
from magnetar.model.position import Term

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
    listeners: Mapping[str, str] = field(default_factory=dict)
    """Service URLs by the name a client may ask for."""

    def url_of(self, listener: str) -> str:
        """The service URL under a listener's name; a blank name is the usual one."""
        if not listener.strip():
            return self.service_url
        url = self.listeners.get(listener)
        if url is None:
            raise NotAllowed(f"The broker has no advertised listener named {listener!r}")
        return url


class Ownership(Protocol):
    async def owner_of(self, topic: TopicName) -> Owner:
        """Raise NoOwner while ownership is moving."""


class SoleOwnership:
    """One broker that owns every topic. Its term grows with every start, so an older process is
    fenced.
    """

    def __init__(self, owner: Owner) -> None:
        self._owner = owner

    async def owner_of(self, topic: TopicName) -> Owner:
        return self._owner


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


def parse_listeners(text: str) -> dict[str, str]:
    """Read `name:pulsar://host:port,…` as the configuration spells it."""
    listeners: dict[str, str] = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        name, separator, url = part.partition(":")
        if not separator or not url.startswith("pulsar://"):
            raise InvalidConfiguration(
                f"advertisedListeners: {part!r} is not of the form name:pulsar://host:port"
            )
        listeners[name.strip()] = url
    return listeners

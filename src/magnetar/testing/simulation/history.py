"""What clients saw and what operators did, in the order it happened: all that checkers know."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Final, TypeAlias


@dataclass(frozen=True, slots=True)
class Sent:
    """A message was handed to a producer. `number` counts the messages of its key."""

    topic: str
    key: str
    number: int


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The producer has the broker's word for it."""

    topic: str
    key: str
    number: int
    message_id: str


@dataclass(frozen=True, slots=True)
class NotSent:
    """The producer gave up: the message may be stored or not."""

    topic: str
    key: str
    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class Received:
    topic: str
    subscription: str
    consumer: str
    key: str
    number: int
    message_id: str


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The consumer has the broker's word that the message will not be redelivered."""

    topic: str
    subscription: str
    key: str
    number: int
    message_id: str


@dataclass(frozen=True, slots=True)
class Refused:
    """A negative acknowledgement: the message is to be redelivered."""

    topic: str
    subscription: str
    message_id: str


@dataclass(frozen=True, slots=True)
class Rewound:
    """A subscription is set back: what it has acknowledged until that is done is redelivered."""

    topic: str
    subscription: str
    is_done: bool
    to: str = "the earliest"


@dataclass(frozen=True, slots=True)
class Fault:
    """Something broke, or was taken away, on purpose."""

    what: str
    is_late: bool = False
    """Whether what was held up until now arrives."""


HEALED: Final = Fault("the network is whole again", is_late=True)


@dataclass(frozen=True, slots=True)
class Operated:
    """An operator's call and what became of it."""

    what: str
    outcome: str


@dataclass(frozen=True, slots=True)
class Configured:
    """An operator set a policy to a number: it is in force, or (not confirmed) may be."""

    what: str
    value: int
    is_confirmed: bool


@dataclass(frozen=True, slots=True)
class Asked:
    """At the quiet end a broker answered a question."""

    what: str
    broker: str
    answer: str


@dataclass(frozen=True, slots=True)
class Deciding:
    """A client asks for the end of a transaction, within which it has `sent` so many messages to
    each topic, and an input acknowledged.
    """

    transaction: str
    input: str
    is_commit: bool
    sent: int


@dataclass(frozen=True, slots=True)
class Decided:
    """The client has the broker's word that the transaction was committed."""

    transaction: str


@dataclass(frozen=True, slots=True)
class Registered:
    """A client asks a broker to take what its producer sends to a topic, or to a part of it: what
    was not confirmed is sent again then.
    """

    topic: str
    client: str


@dataclass(frozen=True, slots=True)
class Dispatched:
    """A process of a broker wrote an entry of a segment or partition (`part`) to a consumer."""

    topic: str
    part: str
    subscription: str
    broker: str
    consumer: str
    entry: str


@dataclass(frozen=True, slots=True)
class Requeued:
    """A process of a broker has cause to dispatch again what it has dispatched of a subscription to
    a segment or partition: an entry, or (blank) all. A consumer comes, leaves or demands it.
    """

    topic: str
    part: str
    subscription: str
    broker: str
    consumer: str
    entry: str
    why: str
    opening: int = 0
    """1 for a request whose effect comes before its answer (-1), at some time in between."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A record of the metadata as it was written; b"" when it was deleted."""

    path: str
    value: bytes


Event: TypeAlias = (
    Sent
    | Confirmed
    | NotSent
    | Received
    | Acknowledged
    | Refused
    | Rewound
    | Fault
    | Operated
    | Configured
    | Asked
    | Deciding
    | Decided
    | Registered
    | Dispatched
    | Requeued
    | Stored
)


@dataclass(frozen=True, slots=True)
class Entry:
    at_s: float
    event: Event

    def __str__(self) -> str:
        values = (getattr(self.event, each.name) for each in fields(self.event))
        words = (str(each)[:160] for each in values)
        return f"{self.at_s:12.6f} {type(self.event).__name__:12} {' '.join(words)}"


class History:
    def __init__(self, time: Callable[[], float]) -> None:
        self._time = time
        self.entries: list[Entry] = []

    def add(self, event: Event) -> None:
        self.entries.append(Entry(self._time(), event))

    def format(self) -> str:
        return "\n".join(map(str, self.entries))

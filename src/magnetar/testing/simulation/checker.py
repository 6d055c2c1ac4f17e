"""Judges a history by what the system promises; knows nothing of how it is built."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from magnetar.testing.simulation.delivery import find_duplicated, find_redispatched, stored_in
from magnetar.testing.simulation.history import (
    Acknowledged,
    Asked,
    Configured,
    Confirmed,
    Decided,
    Deciding,
    Dispatched,
    Entry,
    Event,
    Fault,
    History,
    NotSent,
    Operated,
    Received,
    Refused,
    Registered,
    Requeued,
    Rewound,
    Sent,
    Stored,
)
from magnetar.testing.simulation.lineage import find_layout_breaks, find_unfinished
from magnetar.testing.simulation.plan import TRANSFER, UNKEYED
from magnetar.testing.simulation.tap import scalable_topic

_UNDER_WAY_S: Final = 1.0
"""How long a delivery may still arrive that was made before a rewind or an acknowledgement."""


@dataclass(frozen=True, slots=True)
class Promise:
    """What a subscription of a topic may expect."""

    topic: str
    subscription: str
    keeps_order: bool
    has_deduplication: bool
    is_tapped: bool = True
    """Whether what producers ask of brokers was written down; of real ones it is not."""


def find_violations(history: History, promises: Iterable[Promise]) -> list[str]:
    entries = history.entries
    promises = list(promises)
    topics = {each.topic for each in promises}
    found = [
        *find_redispatched(entries, topics),
        *find_duplicated(entries, topics),
        *find_unanswered(entries),
        *find_layout_breaks(entries),
        *find_unfinished(entries),
        *find_lease_breaks(entries),
        *find_disagreement(entries),
    ]
    kept = [each for each in entries if _is_of_clients(each.event)]
    for promise in promises:
        found += find_lost(kept, promise)
        found += find_repeated(kept, promise)
        if promise.keeps_order:
            found += find_disorder(kept, promise)
    return found


def _is_of_clients(event: Event) -> bool:
    """Most are not, and promises are judged one by one."""
    match event:
        case Requeued() | Asked():
            return False
        case Stored(_, value):
            return b'"nextSegmentId"' in value
        case _:
            return True


def find_lost(entries: Iterable[Entry], promise: Promise) -> Iterator[str]:
    """A confirmed message reaches every subscription: all were made before it was sent, or begin
    with the earliest.
    """
    topic, subscription = promise.topic, promise.subscription
    confirmed: dict[tuple[str, int], float] = {}
    received: set[tuple[str, int]] = set()
    for entry in entries:
        match entry.event:
            case Confirmed(t, key, number) if t == topic:
                confirmed[key, number] = entry.at_s
            case Received(t, s, _, key, number) if t == topic and s == subscription:
                received.add((key, number))
    for (key, number), at_s in confirmed.items():
        if (key, number) not in received:
            yield f"lost: {key}#{number} of {topic}, confirmed at {at_s:.3f}, for {subscription}"


def find_repeated(entries: Iterable[Entry], promise: Promise) -> Iterator[str]:
    """Nothing is dispatched after its acknowledgement was confirmed, but for what was on its way
    to an owner that was replaced, which a parted network or a pause holds up. Nothing is stored
    twice unless its producer attached anew before it was confirmed (something broke, where that or
    what was sent is not written down, as in transactions); with deduplication, not even then. As
    long as nothing broke and the layout stayed, nothing comes twice that was not asked for again.
    """
    topic, subscription = promise.topic, promise.subscription
    acknowledged: dict[str, float] = {}
    stored: dict[tuple[str, int], str] = {}
    sending: set[tuple[str, int]] = set()
    resent: set[tuple[str, int]] = set()
    home = scalable_topic(topic)
    dispatched_s: dict[tuple[str, str], float] = {}
    seen: set[str] = set()
    has_fault = has_change = False
    rewinding, rewound_s = 0, -math.inf
    healed_s = -math.inf
    fresh: set[str] = set()
    """Received since the last rewind: an acknowledgement of an earlier delivery says nothing."""
    for entry in entries:
        match entry.event:
            case Fault(_, is_late):
                has_fault = True
                healed_s = entry.at_s if is_late else healed_s
            case Operated():
                has_change = True
            case Stored(_, value) if b'"nextSegmentId"' in value:
                has_change = True
            case Sent(t, key, number) if t == topic:
                sending.add((key, number))
            case Confirmed(t, key, number) | NotSent(t, key, number) if t == topic:
                sending.discard((key, number))
            case Dispatched(t, _, _, _, consumer, what) if t == home:
                dispatched_s[consumer, what] = entry.at_s
            case Registered(t, client) if t == home:
                resent |= {each for each in sending if each[0].startswith(f"{client}.")}
            case Refused(t, s, message_id) if t == topic and s == subscription:
                seen.discard(message_id)
            case Rewound(t, s, is_done) if t == topic and s == subscription:
                acknowledged.clear()
                fresh.clear()
                rewinding += -1 if is_done else 1
                rewound_s = entry.at_s
                has_change = True
            case Acknowledged(t, s, _, _, message_id) if t == topic and s == subscription:
                if message_id in fresh:
                    acknowledged.setdefault(message_id, entry.at_s)
            case Received(t, s, consumer, key, number, message_id) if (
                t == topic and s == subscription
            ):
                where = f"{key}#{number} of {topic} to {consumer} of {subscription}"
                first = stored.setdefault((key, number), message_id)
                is_known = promise.is_tapped and not key.startswith(TRANSFER)
                is_resent = (key, number) in resent if is_known else has_fault
                if first != message_id and (promise.has_deduplication or not is_resent):
                    yield f"stored twice: {where}, as {first} and as {message_id}"
                done_s = acknowledged.get(message_id, math.inf)
                # It may have waited at the client since.
                made_s = dispatched_s.get((consumer, stored_in(message_id)), entry.at_s)
                if made_s > max(done_s, healed_s) + _UNDER_WAY_S:
                    yield f"repeated: {where} at {entry.at_s:.3f}, although acknowledged"
                elif message_id in seen and not (has_fault or has_change):
                    yield f"repeated: {where} at {entry.at_s:.3f}, without a cause"
                seen.add(message_id)
                if not rewinding and entry.at_s > rewound_s + _UNDER_WAY_S:
                    fresh.add(message_id)


def find_disorder(entries: Iterable[Entry], promise: Promise) -> Iterator[str]:
    """The messages of a key come in the order in which they were sent, each for the first time."""
    topic, subscription = promise.topic, promise.subscription
    highest: dict[str, int] = {}
    seen: set[tuple[str, int]] = set()
    for entry in entries:
        match entry.event:
            case Received(t, s, consumer, key, number) if t == topic and s == subscription:
                if key.endswith(UNKEYED):
                    continue
                if (key, number) not in seen and number < highest.get(key, -1):
                    yield (
                        f"out of order: {key}#{number} of {topic} to {consumer} of {subscription}"
                        f" at {entry.at_s:.3f}, after #{highest[key]}"
                    )
                seen.add((key, number))
                highest[key] = max(highest.get(key, -1), number)


def find_transaction_breaks(
    entries: Sequence[Entry], views: Sequence[tuple[str, str]]
) -> Iterator[str]:
    """`views` are topics with their subscriptions, which all see the same transactions: those that
    were committed, each as a whole and not before. An input is consumed by one of them.
    """
    deciding: dict[str, Deciding] = {}
    committed: set[str] = set()
    seen: dict[tuple[str, str], dict[str, set[int]]] = {view: {} for view in views}
    for entry in entries:
        match entry.event:
            case Deciding(name):
                deciding[name] = entry.event
            case Decided(name):
                committed.add(name)
            case Received(topic, subscription, _, key, number) if (topic, subscription) in seen:
                if not key.startswith(TRANSFER):
                    continue
                decision = deciding.get(key)
                if decision is None or not decision.is_commit:
                    yield (
                        f"not committed: {key}#{number} of {topic}, seen by {subscription}"
                        f" at {entry.at_s:.3f}"
                    )
                seen[topic, subscription].setdefault(key, set()).add(number)
    visible = committed.union(*seen.values())
    for (topic, subscription), found in seen.items():
        for name in sorted(visible):
            count, sent = len(found.get(name, ())), deciding[name].sent if name in deciding else 0
            if count != sent:
                word = "committed" if name in committed else "seen elsewhere"
                yield f"half: {name} was {word}; {subscription} of {topic} has {count} of {sent}"
    consumed: dict[str, str] = {}
    for name in sorted(visible & deciding.keys()):
        other = consumed.setdefault(deciding[name].input, name)
        if other != name:
            yield f"consumed twice: {deciding[name].input}, by {other} and {name}"


def find_unanswered(entries: Iterable[Entry]) -> Iterator[str]:
    """Every message that was handed to a producer has an outcome."""
    waiting: dict[tuple[str, str, int], float] = {}
    for entry in entries:
        match entry.event:
            case Sent(topic, key, number):
                waiting[topic, key, number] = entry.at_s
            case Confirmed(topic, key, number) | NotSent(topic, key, number):
                waiting.pop((topic, key, number), None)
    for (topic, key, number), at_s in waiting.items():
        yield f"unanswered: {key}#{number} of {topic}, sent at {at_s:.3f}"


def find_lease_breaks(entries: Iterable[Entry]) -> Iterator[str]:
    """An owner is replaced when its record is gone, not while it stands. The term of a lease on a
    namespace only grows: an owner that was replaced does not come back under it. That of a bundle
    is the number of its owner's start, and returns with it.
    """
    terms: dict[str, int] = defaultdict(int)
    owners: dict[str, tuple[str, int]] = {}
    for entry in entries:
        event = entry.event
        if not isinstance(event, Stored) or not event.path.startswith("/namespace/"):
            continue
        if not event.value:
            owners.pop(event.path, None)
            continue
        record = json.loads(event.value)
        term, owner = int(record.get("term", 0)), record.get("brokerId", "")
        if "directory" in record and term < terms[event.path]:
            yield f"lease {event.path} went back to term {term} at {entry.at_s:.3f}"
        terms[event.path] = term
        before, _ = owners.setdefault(event.path, (owner, term))
        if before != owner:
            yield f"two owners: {owner} took {event.path} from {before} at {entry.at_s:.3f}"
        owners[event.path] = owner, term


def find_disagreement(entries: Iterable[Entry]) -> Iterator[str]:
    """At the quiet end all brokers give one answer, and a policy has the value last set, or one
    that was set later without an answer.
    """
    allowed: dict[str, set[str]] = {}
    answers: dict[str, dict[str, str]] = defaultdict(dict)
    for entry in entries:
        match entry.event:
            case Configured(what, value, is_confirmed):
                if is_confirmed:
                    allowed[what] = set()
                allowed.setdefault(what, {str(None)}).add(str(value))
            case Asked(what, broker, answer):
                answers[what][broker] = answer
    for what, given in answers.items():
        if len(set(given.values())) > 1:
            yield f"disagreement: {what}: {given}"
        for answer in given.values():
            if what in allowed and answer not in allowed[what]:
                yield f"wrong answer: {what} is {answer}, was set to {sorted(allowed[what])}"

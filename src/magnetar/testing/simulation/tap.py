"""Listens at the brokers' ends of connections, and writes down what they dispatch, and what gives
them cause to dispatch it again.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from struct import Struct
from typing import Any, Final

from magnetar.model.name import parse_topic
from magnetar.model.segment import scalable_name
from magnetar.testing.simulation.history import Dispatched, History, Registered, Requeued
from magnetar.wire.command import BaseCommand, body_of

_SIZES: Final = Struct(">II")
_TYPE: Final = BaseCommand.Type
_TYPE_TAG: Final = 8
"""The first byte of a command, before its type."""
_ASKED: Final = frozenset(
    (
        _TYPE.SUBSCRIBE,
        _TYPE.UNSUBSCRIBE,
        _TYPE.CLOSE_CONSUMER,
        _TYPE.SEEK,
        _TYPE.REDELIVER_UNACKNOWLEDGED_MESSAGES,
        _TYPE.PRODUCER,
    )
)
_WRITTEN: Final = frozenset(
    (
        _TYPE.SUCCESS,
        _TYPE.ERROR,
        _TYPE.CLOSE_CONSUMER,
        _TYPE.ACTIVE_CONSUMER_CHANGE,
        _TYPE.MESSAGE,
    )
)


@dataclass(frozen=True, slots=True)
class _Consumer:
    topic: str
    part: str
    subscription: str


class Tap:
    """Of one connection. `broker` tells the processes of a broker apart too."""

    def __init__(self, history: History, broker: str, client: str) -> None:
        self._history = history
        self._broker = broker
        self._client = client
        self._arrived = _Stream(_ASKED)
        self._written = _Stream(_WRITTEN)
        self._consumers: dict[int, _Consumer] = {}
        self._open: dict[int, int] = {}
        """The consumers of requests that are not answered."""

    def on_arrived(self, data: bytes) -> None:
        for kind, body in self._arrived.take(data):
            match kind:
                case _TYPE.PRODUCER:
                    self._history.add(Registered(scalable_topic(body.topic), self._client))
                    continue
                case _TYPE.SUBSCRIBE:
                    topic = scalable_topic(body.topic)
                    part = body.topic.rpartition("/")[2]
                    self._consumers[body.consumer_id] = _Consumer(topic, part, body.subscription)
                case _TYPE.REDELIVER_UNACKNOWLEDGED_MESSAGES:
                    for each in body.message_ids or (None,):
                        entry = "" if each is None else f"{each.ledgerId}:{each.entryId}"
                        self._requeue(body.consumer_id, "is demanded", entry=entry)
                    continue
            self._open[body.request_id] = body.consumer_id
            self._requeue(body.consumer_id, _TYPE.Name(kind).lower(), begins=True)

    def on_written(self, data: bytes) -> None:
        for kind, body in self._written.take(data):
            match kind:
                case _TYPE.MESSAGE:
                    to = self._consumers[body.consumer_id]
                    entry = f"{body.message_id.ledgerId}:{body.message_id.entryId}"
                    self._history.add(
                        Dispatched(
                            to.topic, to.part, to.subscription, self._broker, self._client, entry
                        )
                    )
                case _TYPE.SUCCESS | _TYPE.ERROR:
                    if (number := self._open.pop(body.request_id, None)) is not None:
                        self._requeue(number, "is answered", ends=True)
                case _:
                    self._requeue(body.consumer_id, _TYPE.Name(kind).lower())

    def on_lost(self) -> None:
        for number in self._open.values():
            self._requeue(number, "is not answered", ends=True)
        for number in self._consumers:
            self._requeue(number, "is lost")
        self._open.clear()
        self._consumers.clear()

    def _requeue(
        self, number: int, why: str, *, entry: str = "", begins: bool = False, ends: bool = False
    ) -> None:
        to = self._consumers.get(number)
        if to is not None:
            place = (to.topic, to.part, to.subscription, self._broker)
            self._history.add(Requeued(*place, self._client, entry, why, begins - ends))


@cache
def scalable_topic(name: str) -> str:
    """One name for a topic, its partitions and its segments."""
    return scalable_name(parse_topic(name)).full


class _Stream:
    """Frames of one direction. Commands that are not wanted, which are most, are not unpacked."""

    def __init__(self, wanted: frozenset[int]) -> None:
        self._wanted = wanted
        self._rest = b""

    def take(self, data: bytes) -> list[tuple[int, Any]]:
        data = self._rest + data
        found: list[tuple[int, Any]] = []
        start, end = 0, len(data)
        while end - start >= _SIZES.size:
            total, command_bytes = _SIZES.unpack_from(data, start)
            if start + 4 + total > end:
                break
            first = start + _SIZES.size
            assert data[first] == _TYPE_TAG, "the type comes first"
            if data[first + 1] in self._wanted:
                command = BaseCommand.FromString(data[first : first + command_bytes])
                found.append((command.type, body_of(command)))
            start += 4 + total
        self._rest = data[start:]
        return found

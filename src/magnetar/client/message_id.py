"""Where one message stands: entry, partition and place in its batch."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal, Protocol, TypeAlias, runtime_checkable

from magnetar.client.error import ConfigurationError
from magnetar.errors import ProtocolViolation
from magnetar.model.position import EARLIEST as EARLIEST_POSITION
from magnetar.model.position import LATEST as LATEST_POSITION
from magnetar.model.position import Position


@dataclass(slots=True, order=True, unsafe_hash=True)
class MessageId:
    """Ordered inside one partition; `batch_index` is -1 for a message that is a whole entry.

    Nobody may change one. That is not enforced, as it is elsewhere by `frozen`: to make a frozen
    object takes four times as long, and every message has an id.
    """

    ledger_id: int
    entry_id: int
    partition: int = -1
    batch_index: int = -1
    batch_size: int = field(default=0, compare=False)

    @property
    def position(self) -> Position:
        return Position(self.ledger_id, self.entry_id)

    @property
    def entry(self) -> MessageId:
        """The id of the whole entry this message arrived in."""
        return MessageId(self.ledger_id, self.entry_id, self.partition)

    def __bytes__(self) -> bytes:
        """As every Pulsar client writes it; `from_bytes` reads it."""
        from magnetar.wire.command import message_id

        data = message_id(self.position, partition=self.partition, batch_index=self.batch_index)
        if self.batch_size:
            data.batch_size = self.batch_size
        encoded: bytes = data.SerializeToString()
        return encoded

    @classmethod
    def from_bytes(cls, encoded: bytes) -> MessageId:
        from magnetar.wire.command import position_of
        from magnetar.wire.message_id import decode_message_id

        try:
            data = decode_message_id(encoded)
        except ProtocolViolation as error:
            raise ConfigurationError(f"Not the bytes of a message id: {error.sentence}") from None
        return cls(*position_of(data), data.partition, data.batch_index, data.batch_size)

    def __str__(self) -> str:
        return f"{self.ledger_id}:{self.entry_id}:{self.partition}:{self.batch_index}"


EARLIEST: Final = MessageId(*EARLIEST_POSITION)
LATEST: Final = MessageId(*LATEST_POSITION)


@runtime_checkable
class Identified(Protocol):
    """A message."""

    @property
    def id(self) -> MessageId: ...


Start: TypeAlias = MessageId | Identified | Literal["earliest", "latest"]
"""Where to begin: at a message or its id, or at one of the ends."""
Target: TypeAlias = Start | datetime | int
"""Where to move to; a time may also be ms since 1970."""


def choose_start(start: Start) -> MessageId:
    """An id, or a word for one of the ends."""
    if isinstance(start, MessageId):
        return start
    if isinstance(start, Identified) and isinstance(start.id, MessageId):
        return start.id
    if isinstance(start, str) and start in ("earliest", "latest"):
        return parse_message_id(start)
    raise ConfigurationError(
        f"Not a place to start: {start!r}; give a message or its id, earliest or latest"
    )


def choose_target(target: Target) -> MessageId | int:
    """An id, or a publish time in ms."""
    if isinstance(target, datetime):
        if target.tzinfo is None:
            raise ConfigurationError(
                f"{target!r} has no time zone; write datetime(..., tzinfo=UTC)"
            )
        return int(target.timestamp() * 1000)
    if isinstance(target, int):
        return target
    return choose_start(target)


def parse_message_id(text: str) -> MessageId:
    """Read `earliest`, `latest`, `ledger:entry`, `ledger:entry:partition` or all four numbers."""
    if text == "earliest":
        return EARLIEST
    if text == "latest":
        return LATEST
    try:
        numbers = [int(part) for part in text.split(":")]
    except ValueError:
        numbers = []
    if not 2 <= len(numbers) <= 4:
        raise ConfigurationError(
            f"Not a message id: {text!r};"
            " expected earliest, latest or ledger:entry[:partition[:batch]]"
        )
    return MessageId(*numbers)

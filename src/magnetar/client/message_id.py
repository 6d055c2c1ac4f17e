"""Where one message stands: entry, partition and place in its batch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from magnetar.client.error import ConfigurationError
from magnetar.model.position import EARLIEST as EARLIEST_POSITION
from magnetar.model.position import LATEST as LATEST_POSITION
from magnetar.model.position import Position


@dataclass(frozen=True, slots=True, order=True)
class MessageId:
    """Ordered inside one partition; `batch_index` is -1 for a message that is a whole entry."""

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

    def __str__(self) -> str:
        return f"{self.ledger_id}:{self.entry_id}:{self.partition}:{self.batch_index}"


EARLIEST: Final = MessageId(*EARLIEST_POSITION)
LATEST: Final = MessageId(*LATEST_POSITION)


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

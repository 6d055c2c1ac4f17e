"""Message ids as REST bodies carry them."""

from __future__ import annotations

from msgspec import Struct

from magnetar.errors import BadRequest
from magnetar.model.answer.log import MessageIdAnswer
from magnetar.model.policy import Int32, Int64
from magnetar.model.position import EARLIEST, LATEST, Position


class MessageId(Struct, frozen=True, kw_only=True):
    """A place in a topic; -1/-1 is the start and the largest numbers are the end."""

    ledgerId: Int64 = 0
    entryId: Int64 = 0
    partitionIndex: Int32 = -1
    excluded: bool = False
    batchIndex: Int32 = -1
    properties: dict[str, str] | None = None

    @property
    def position(self) -> Position:
        if self.ledgerId < 0:
            return EARLIEST
        if self.ledgerId >= LATEST.ledger_id:
            return LATEST
        return Position(self.ledgerId, max(self.entryId, -1))


AT_END = MessageId(ledgerId=LATEST.ledger_id, entryId=LATEST.entry_id)
AT_START = MessageId(ledgerId=EARLIEST.ledger_id, entryId=EARLIEST.entry_id)


def parse_position(body: MessageId | str | None) -> MessageId:
    """What a body says; nothing means the end."""
    match body:
        case None:
            return AT_END
        case str():
            if body.lower() not in ("latest", "earliest"):
                raise BadRequest(f"A position is a message id, latest or earliest, not {body!r}")
            return AT_END if body.lower() == "latest" else AT_START
        case MessageId():
            return body


def describe_position(
    position: Position, *, partition_index: int = -1, batch_index: int = -1
) -> MessageIdAnswer:
    return {
        "ledgerId": position.ledger_id,
        "entryId": position.entry_id,
        "partitionIndex": partition_index,
        "batchSize": 0,
        "batchIndex": batch_index,
    }

"""Where a new subscription begins to read."""

from __future__ import annotations

from magnetar.broker.log_search import position_at
from magnetar.ledger.log import Log
from magnetar.model.position import EARLIEST, LATEST, Position
from magnetar.wire.command import CommandSubscribe, position_of, signed64


async def find_start(log: Log, request: CommandSubscribe, *, now_ms: int) -> Position:
    """A time ago, at an entry (readers only), or at one of the ends."""
    age_s = signed64(request.start_message_rollback_duration_sec)
    if age_s > 0:
        return await position_at(log, now_ms - age_s * 1000)
    initial = EARLIEST if request.initialPosition == CommandSubscribe.Earliest else LATEST
    if request.durable or not request.HasField("start_message_id"):
        return initial
    position = position_of(request.start_message_id)
    if position.ledger_id < 0:
        return EARLIEST
    if position.ledger_id == LATEST.ledger_id:
        return LATEST
    if position > log.sequence.last_position:
        return initial
    return position

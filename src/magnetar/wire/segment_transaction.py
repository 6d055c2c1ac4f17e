"""Records of transactions on segments, as Apache Pulsar's brokers keep them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from magnetar.errors import RecordUnreadable
from magnetar.model.transaction import Acknowledged, Outcome, Status, TransactionId
from magnetar.wire.field import decode_object, member_in, number_in, rate_in, text_in

_ID: Final = re.compile(r"(-?\d+)_(-?\d+)")


@dataclass(frozen=True, slots=True)
class SegmentOperation:
    """What a transaction did to a segment; without a subscription it has written there."""

    id: TransactionId
    segment: str
    subscription: str | None
    acknowledged: Acknowledged
    is_cumulative: bool


def parse_segment_transaction(text: str) -> TransactionId:
    """The id that stands at the beginning of a record's name."""
    found = _ID.match(text)
    if found is None:
        raise RecordUnreadable(f"A record of a transaction is named {text!r}, without its id")
    return TransactionId(int(found[1]), int(found[2]))


def decode_segment_operation(name: str, data: bytes) -> SegmentOperation:
    value = decode_object(data, f"/txn/op/{name}")
    return SegmentOperation(
        parse_segment_transaction(name),
        text_in(value, "segment"),
        text_in(value, "subscription") if text_in(value, "kind") == "ACK" else None,
        Acknowledged(number_in(value, "ledgerId"), number_in(value, "entryId")),
        value.get("cumulative") is True,
    )


def decode_segment_outcome(data: bytes) -> Outcome:
    """Times there are seconds with fractions."""
    value = decode_object(data, "/txn/id")
    status = member_in(value, "state", Status, None)
    open_until_ms = 0
    if status is Status.OPEN:
        open_until_ms = round(1000 * (rate_in(value, "createdAt") + rate_in(value, "timeout")))
    return Outcome(status.is_commit, open_until_ms)

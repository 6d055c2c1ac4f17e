"""What other brokers may have left in a topic: what this one cannot serve is named, so that the
topic is refused instead of served wrong; transactions are understood.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import quote_plus, unquote_plus

from magnetar.model.position import Position
from magnetar.model.stored_log import CursorInfo, LogInfo, Offload
from magnetar.model.transaction import Hidden, Outcome, Range, TransactionId

_REPLICATOR: Final = "pulsar.repl."
_REPLICATED: Final = "pulsar.replicated.subscription"
_DELAYED: Final = "#pulsar.internal.delayed.bucket"
_SHADOW: Final = "PULSAR.SHADOW_SOURCE"
_BUFFER: Final = "__transaction_buffer_snapshot"
_PENDING_ACK: Final = "__transaction_pending_ack"
_COUNTER: Final = "__seq_counter__"
_COORDINATOR_LOG: Final = "__transaction_log_"
_PART: Final = re.compile(r"\Amultiple-\d+-")
"""Before the topic, where what was aborted is kept in several messages."""


def find_foreign_log(info: LogInfo) -> str | None:
    for part in info.ledgers:
        if part.offload is Offload.MOVED:
            return f"ledger {part.ledger_id} was offloaded and is in long-term storage only"
    if info.properties.get("migrated") == "true":
        return "it was migrated to another cluster"
    if _SHADOW in info.properties:
        return f"it is a shadow of {info.properties[_SHADOW]}"
    if info.properties.get("index", "-1") not in ("", "-1"):
        return "its messages are numbered by brokerEntryMetadataInterceptors"
    return None


def find_foreign_cursor(name: str, info: CursorInfo) -> str | None:
    if name.startswith(_REPLICATOR):
        return f"it is replicated to {name.removeprefix(_REPLICATOR)}"
    if info.properties.get(_REPLICATED):
        return f"subscription {name} is replicated to other clusters"
    if any(key.startswith(_DELAYED) for key in info.cursor_properties):
        return f"subscription {name} has an index of delayed messages in buckets"
    return None


def is_transaction_buffer(local: str) -> bool:
    """Whether a topic keeps the transactions of its namespace."""
    return local.startswith(_BUFFER)


def buffer_topic(key: str) -> str:
    """The topic that a message there is about."""
    return _PART.sub("", key)


def is_coordinator_log(local: str) -> bool:
    return local.startswith(_COORDINATOR_LOG)


def pending_ack_log(local: str, subscription: str) -> str:
    """The log of the acknowledgements in transactions on a subscription, beside its topic."""
    return f"{local}-{quote_plus(subscription)}{_PENDING_ACK}"


def join_ranges(ranges: list[Range], entry: Position) -> None:
    """Add the next entry, in the order of the log."""
    ledger_id, entry_id = entry
    if ranges and ranges[-1][::2] == (ledger_id, entry_id - 1):
        ranges[-1] = Range(ledger_id, ranges[-1].first, entry_id)
    else:
        ranges.append(Range(ledger_id, entry_id, entry_id))


def plan_hidden(
    written: Mapping[TransactionId, Sequence[Range]],
    marked: Mapping[TransactionId, bool],
    outcomes: Mapping[TransactionId, Outcome],
    *,
    is_committed_unless_told: bool,
    now_ms: int,
) -> tuple[Mapping[TransactionId, int], tuple[Hidden, ...]]:
    """What may not be read of the entries of transactions, and those of them that are open, with
    the time until which they may be. A marker in the log comes before what coordinators say.
    """
    unless_told = Outcome(is_committed_unless_told)
    open_until_ms: dict[TransactionId, int] = {}
    hidden: list[Hidden] = []
    for id_, ranges in written.items():
        outcome = Outcome(marked[id_]) if id_ in marked else outcomes.get(id_, unless_told)
        if outcome.open_until_ms > now_ms:
            open_until_ms[id_] = outcome.open_until_ms
        elif not outcome.is_commit:
            hidden.append(Hidden(foreign_id(id_), tuple(ranges)))
    return open_until_ms, tuple(hidden)


def foreign_id(id_: TransactionId) -> TransactionId:
    """An id that no coordinator of ours gives out: Apache's number theirs alike."""
    return TransactionId(-1 - id_.most, id_.least)


def is_foreign(id_: TransactionId) -> bool:
    return id_.most < 0


def is_sequence_counter(record: str) -> bool:
    """Whether a record beside those of transactions on segments only counts them."""
    return record.endswith(_COUNTER)


def aborted_segment(record: str) -> str:
    """The segment of a record that names one of its aborted transactions: segment:id."""
    return unquote_plus(record.rpartition(":")[0])

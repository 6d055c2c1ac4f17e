"""What other brokers may have left in a topic that this one cannot serve.

Each function names the first such thing, so that the topic is refused instead of served wrong.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from magnetar.model.stored_log import CursorInfo, LogInfo, Offload

_REPLICATOR: Final = "pulsar.repl."
_REPLICATED: Final = "pulsar.replicated.subscription"
_DELAYED: Final = "#pulsar.internal.delayed.bucket"
_SHADOW: Final = "PULSAR.SHADOW_SOURCE"
_BUFFER: Final = "__transaction_buffer_snapshot"
_PENDING_ACK: Final = "__transaction_pending_ack"


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


def find_pending_ack(topic: str, siblings: Iterable[str]) -> str | None:
    """The log of acknowledgements in transactions that a topic has beside it, by local names."""
    own = (each for each in siblings if each.startswith(f"{topic}-"))
    return next((each for each in own if each.endswith(_PENDING_ACK)), None)

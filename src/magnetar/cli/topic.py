"""The commands of `magnetar admin topics` that do more than call one method."""

from __future__ import annotations

from typing import Any, Final

from magnetar.cli.command import Options
from magnetar.cli.derive import Own
from magnetar.client.message_id import MessageId


def _offload(admin: Any, options: Options) -> str:
    """Move whole ledgers until what stays is below the size."""
    stats = admin.topics.internal_stats(options.topic)
    ledgers = stats["ledgers"]
    if ledgers:
        ledgers[-1]["size"] = stats["currentLedgerSize"]
    kept = 0
    for place in range(len(ledgers) - 1, -1, -1):
        kept += ledgers[place]["size"]
        if kept > options.size_threshold and place < len(ledgers) - 1:
            admin.topics.offload(options.topic, MessageId(ledgers[place + 1]["ledgerId"], 0))
            return f"moving everything before ledger {ledgers[place + 1]['ledgerId']}"
    return "nothing to move"


OWN: Final[Own] = {
    "topics.lookup": lambda a, o: a.topics.lookup(o.topic)["brokerUrl"],
    "topics.enable_deduplication": lambda a, o: a.topic_policies.set(
        o.topic, "deduplication", True
    ),
    "topics.disable_deduplication": lambda a, o: a.topic_policies.set(
        o.topic, "deduplication", False
    ),
    "topics.offload_beyond": _offload,
}

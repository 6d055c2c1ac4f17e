"""Kinds and names of subscriptions, and the cursors that the broker keeps for itself."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from magnetar.errors import SubscriptionNameReserved, shorten

COMPACTION_CURSOR: Final = "__compaction"
DEDUP_CURSOR: Final = "pulsar.dedup"
INTERNAL_CURSORS: Final = frozenset({COMPACTION_CURSOR, DEDUP_CURSOR})
HOLD_PROPERTY: Final = "magnetar.hold"
"""Of a subscription that reads nothing and keeps messages for a query."""
_REPLICATOR_PREFIX: Final = "pulsar.repl"


class SubscriptionType(IntEnum):
    EXCLUSIVE = 0
    SHARED = 1
    FAILOVER = 2
    KEY_SHARED = 3

    @property
    def label(self) -> str:
        """The spelling of the stats and policies."""
        return "Key_Shared" if self is SubscriptionType.KEY_SHARED else self.name.capitalize()

    @property
    def is_individual(self) -> bool:
        """Whether entries are handed out one by one and tracked until they are acknowledged."""
        return self in (SubscriptionType.SHARED, SubscriptionType.KEY_SHARED)


def check_subscription_name(name: str) -> None:
    """Raise SubscriptionNameReserved for what no caller may make, move or delete.

    Who moved the broker's own cursors would take away compacted data or the memory of duplicates.
    """
    if not name:
        raise SubscriptionNameReserved("Subscription name '' is not allowed: it is empty")
    if name in INTERNAL_CURSORS or name.startswith(_REPLICATOR_PREFIX):
        raise SubscriptionNameReserved(
            f"Subscription name {shorten(name)!r} is not allowed: the broker keeps such cursors"
            " for itself"
        )

"""Ledgers on Apache BookKeeper: entries on bookies, the metadata of ledgers on ZooKeeper."""

from magnetar.ledger.backends.bookkeeper.policy import BookkeeperPolicy
from magnetar.ledger.backends.bookkeeper.store import BookkeeperLedgerStore

__all__ = ["BookkeeperLedgerStore", "BookkeeperPolicy"]

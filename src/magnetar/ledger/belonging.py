"""Whose a ledger is: what it was made for stands in its properties."""

from __future__ import annotations

from magnetar.errors import LedgerCorrupt
from magnetar.ledger.store import LedgerInfo


def belongs(info: LedgerInfo, **owner: str) -> bool:
    """Whether a ledger was made for this owner; one that does not say for whom was made for any."""
    return all(info.properties.get(key, value) == value for key, value in owner.items())


def check_belongs(info: LedgerInfo, **owner: str) -> None:
    """Raise LedgerCorrupt when a ledger was made for another owner: the record that names it is not
    to be trusted, and neither reading nor deleting would be right.
    """
    if not belongs(info, **owner):
        found = ", ".join(f"{key} {info.properties.get(key)}" for key in owner)
        wanted = ", ".join(f"{key} {value}" for key, value in owner.items())
        raise LedgerCorrupt(f"ledger {info.id} was made for {found}, not for {wanted}")

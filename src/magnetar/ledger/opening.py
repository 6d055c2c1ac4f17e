"""Taking a log over: what must be true before its new owner serves it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Final

from magnetar.errors import LedgerNotFound, TopicFenced, VersionConflict
from magnetar.ledger.belonging import LedgerUse, UseKind, check_use
from magnetar.ledger.birth import format_born
from magnetar.ledger.disposal import Disposal
from magnetar.ledger.info import LogRecords
from magnetar.ledger.store import LedgerStore
from magnetar.model.position import LedgerId, Term
from magnetar.model.stored_log import LogInfo
from magnetar.runtime.clock import Clock, make_token

_ATTEMPTS: Final = 5


async def open_record(
    name: str,
    store: LedgerStore,
    records: LogRecords,
    disposal: Disposal,
    *,
    clock: Clock,
    term: Term,
    birth: Collection[str] | None = None,
) -> tuple[LogInfo, int, bool]:
    """Load or create the record; fence and seal what is open in it and write that down. The last
    value says that nothing of the log was there before.

    A former owner that is still alive may write the record in between; then its news are taken in
    and fenced too. `birth` names the cursors of a log that was seen to be absent.

    Where brokers share the store, the record names its owner: one that lost the answer to a write
    finds its own by what it says, and must not take this one for it, which often says the same.
    """
    owner = make_token(clock.chance, 8) if store.is_shared else ""
    new = LogInfo(properties=format_born(birth or ()), owner=owner)
    for attempt in range(_ATTEMPTS):
        is_new = birth is not None and attempt == 0
        loaded = None if is_new else await records.load()
        try:
            if loaded is None:
                return new, await records.store(new, expect=-1), is_new
            info, version = loaded
            sealed, emptied = await _seal_ledgers(name, info, store, clock=clock, term=term)
            sealed = replace(sealed, owner=owner)
            version = await records.store(sealed, expect=version)
            for ledger_id in emptied:
                disposal.add(ledger_id)
            return sealed, version, False
        except VersionConflict:
            continue
    raise TopicFenced(f"{name} is being changed by another owner")


async def _seal_ledgers(
    name: str, info: LogInfo, store: LedgerStore, *, clock: Clock, term: Term
) -> tuple[LogInfo, list[int]]:
    """Raise LedgerCorrupt when the record names a ledger of another log."""
    parts = []
    emptied = []
    use = LedgerUse(UseKind.LOG, name)
    for part in sorted(info.ledgers, key=lambda part: part.ledger_id):
        if part.created_ms and store.is_shared:
            parts.append(part)  # looked at when it is read: there, each look asks a server
            continue
        try:
            check_use(await store.describe(LedgerId(part.ledger_id)), use)
        except LedgerNotFound:
            pass  # what is sealed may be read up to there
        if part.created_ms:
            parts.append(part)
            continue
        sealed = await store.recover(LedgerId(part.ledger_id), term=term)
        if sealed.last < 0:
            emptied.append(part.ledger_id)
        else:
            entries, now_ms = sealed.last + 1, clock.now_ms()
            parts.append(replace(part, entries=entries, size=sealed.length, created_ms=now_ms))
    return replace(info, ledgers=tuple(parts)), emptied

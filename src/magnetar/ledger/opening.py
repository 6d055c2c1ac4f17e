"""Taking a chain over: what must be true before its new owner serves it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Final

from magnetar.errors import LedgerNotFound, TopicFenced, VersionConflict
from magnetar.ledger.belonging import check_belongs
from magnetar.ledger.birth import format_born
from magnetar.ledger.cursor import Cursor
from magnetar.ledger.cursor_log import CursorHome, load_cursor
from magnetar.ledger.disposal import Disposal
from magnetar.ledger.info import ChainInfo, ChainRecords, CursorInfo, LedgerPart
from magnetar.ledger.sequence import LedgerSequence
from magnetar.ledger.store import LedgerStore
from magnetar.model.position import EARLIEST, LedgerId, Term
from magnetar.runtime.clock import Clock

_ATTEMPTS: Final = 5
_TOGETHER: Final = 256


async def open_record(
    name: str,
    store: LedgerStore,
    records: ChainRecords,
    disposal: Disposal,
    *,
    clock: Clock,
    term: Term,
    claim: bool,
    birth: Collection[str] | None = None,
) -> tuple[ChainInfo, int, bool]:
    """Load or create the record; fence and seal what is open in it and write that down. The last
    value says that nothing of the chain was there before.

    A former owner that is still alive may write the record in between; then its news are taken in
    and fenced too. `birth` names the cursors of a chain that was seen to be absent.
    """
    new = ChainInfo(properties=format_born(birth or ()))
    for attempt in range(_ATTEMPTS):
        is_new = birth is not None and attempt == 0
        loaded = None if is_new else await records.load()
        try:
            if loaded is None:
                return new, await records.store(new, expect=-1), is_new
            info, version = loaded
            sealed, emptied = await _seal_ledgers(name, info, store, clock=clock, term=term)
            if claim or sealed != info:
                version = await records.store(sealed, expect=version)
                for ledger_id in emptied:
                    disposal.add(ledger_id)
            return sealed, version, False
        except VersionConflict:
            continue
    raise TopicFenced(f"{name} is being changed by another owner")


async def _seal_ledgers(
    name: str, info: ChainInfo, store: LedgerStore, *, clock: Clock, term: Term
) -> tuple[ChainInfo, list[int]]:
    """Raise LedgerCorrupt when the record names a ledger of another chain."""
    parts = []
    emptied = []
    for part in sorted(info.ledgers, key=lambda part: part.ledger_id):
        try:
            check_belongs(await store.describe(LedgerId(part.ledger_id)), chain=name)
        except LedgerNotFound:
            pass  # what is sealed may be read up to there
        if part.created_ms:
            parts.append(part)
            continue
        sealed = await store.recover(LedgerId(part.ledger_id), term=term)
        if sealed.last < 0:
            emptied.append(part.ledger_id)
        else:
            parts.append(LedgerPart(part.ledger_id, sealed.last + 1, sealed.length, clock.now_ms()))
    return replace(info, ledgers=tuple(parts)), emptied


async def restore_cursors(
    home: CursorHome,
    sequence: LedgerSequence,
    on_gone: Callable[[Cursor], None],
    born: Collection[str],
    *,
    is_new: bool,
) -> list[Cursor]:
    """Those with a record, and those that the chain was `born` with."""
    found = {} if is_new else await home.records.load_cursors()
    records = list(found.items())
    start = CursorInfo(ledger_id=-1, mark_delete=sequence.mark_before(EARLIEST))
    cursors = [
        Cursor(name, sequence, start, on_gone=on_gone, home=home)
        for name in born
        if name not in found
    ]
    for first in range(0, len(records), _TOGETHER):
        batch = records[first : first + _TOGETHER]
        states = await asyncio.gather(*(load_cursor(home, name, info) for name, (info, _) in batch))
        for (name, (_, version)), state in zip(batch, states, strict=True):
            cursors.append(
                Cursor(name, sequence, state, on_gone=on_gone, home=home, version=version)
            )
    return cursors

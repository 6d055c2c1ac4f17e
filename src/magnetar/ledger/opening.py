"""Taking a chain over: what must be true before its new owner serves it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from magnetar.errors import TopicFenced, VersionConflict
from magnetar.ledger.cursor import Cursor
from magnetar.ledger.cursor_log import CursorHome, load_cursor
from magnetar.ledger.disposal import Disposal
from magnetar.ledger.info import ChainInfo, ChainRecords, LedgerPart
from magnetar.ledger.sequence import LedgerSequence
from magnetar.ledger.store import LedgerStore
from magnetar.model.position import LedgerId, Term
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
) -> tuple[ChainInfo, int]:
    """Load or create the record; fence and seal what is open in it and write that down.

    A former owner that is still alive may write the record in between; then its news are taken in
    and fenced too.
    """
    for _ in range(_ATTEMPTS):
        loaded = await records.load()
        try:
            if loaded is None:
                return ChainInfo(), await records.store(ChainInfo(), expect=-1)
            info, version = loaded
            sealed, emptied = await _seal_ledgers(info, store, clock=clock, term=term)
            if claim or sealed != info:
                version = await records.store(sealed, expect=version)
                for ledger_id in emptied:
                    disposal.add(ledger_id)
            return sealed, version
        except VersionConflict:
            continue
    raise TopicFenced(f"{name} is being changed by another owner")


async def _seal_ledgers(
    info: ChainInfo, store: LedgerStore, *, clock: Clock, term: Term
) -> tuple[ChainInfo, list[int]]:
    parts = []
    emptied = []
    for part in sorted(info.ledgers, key=lambda part: part.ledger_id):
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
    home: CursorHome, sequence: LedgerSequence, on_gone: Callable[[Cursor], None]
) -> list[Cursor]:
    records = list((await home.records.load_cursors()).items())
    cursors = []
    for start in range(0, len(records), _TOGETHER):
        batch = records[start : start + _TOGETHER]
        states = await asyncio.gather(*(load_cursor(home, name, info) for name, (info, _) in batch))
        for (name, (_, version)), state in zip(batch, states, strict=True):
            cursors.append(
                Cursor(name, sequence, state, on_gone=on_gone, home=home, version=version)
            )
    return cursors

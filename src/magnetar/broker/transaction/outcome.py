"""Outcomes that a topic has applied, until they are durable there.

One that is refused stays: what is stored is then known after a load alone, and until that the
outcome must not count as durable. The coordinator goes on asking.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from magnetar.broker.persistent import PersistentTopic
from magnetar.broker.transaction.journal import Journal
from magnetar.errors import BrokerError, TopicFenced
from magnetar.ledger.cursor import Cursor
from magnetar.model.transaction import Range, Record, TransactionId
from magnetar.runtime.backoff import Backoff
from magnetar.runtime.log import Logger

_log = Logger(__name__)

WRITTEN_PROPERTY: Final = "pulsar.magnetar.transactions"
"""Of a log with transactions of Apache's brokers: the last ledger that one of ours has written to.
Theirs wait at it for a marker that we do not write.
"""


class AppliedOutcomes:
    def __init__(self, topic: PersistentTopic) -> None:
        self._topic = topic
        self._storing: Final[dict[TransactionId, asyncio.Future[None]]] = {}
        self._acks: Final[dict[TransactionId, tuple[Record, ...]]] = {}
        """Of commits: acknowledgements that are not durable yet."""

    @property
    def is_empty(self) -> bool:
        return not self._storing

    def __contains__(self, id_: TransactionId) -> bool:
        return id_ in self._storing

    def find(self, id_: TransactionId) -> asyncio.Future[None] | None:
        """Done when the outcome is durable; None: it is."""
        return self._storing.get(id_)

    def add(self, id_: TransactionId, stored: asyncio.Future[None]) -> asyncio.Future[None]:
        def forget(done: asyncio.Future[None]) -> None:
            if not done.cancelled() and done.exception() is None:
                self._storing.pop(id_, None)

        self._storing[id_] = stored
        stored.add_done_callback(forget)
        return stored

    def add_acks(self, id_: TransactionId, records: Sequence[Record]) -> None:
        self._acks[id_] = (*self._acks.get(id_, ()), *records)

    def records(self) -> Iterator[Record]:
        """Those that a load needs to acknowledge once more."""
        for records in self._acks.values():
            yield from records

    async def store_commit(
        self,
        journal: Journal,
        id_: TransactionId,
        cursors: Sequence[Cursor],
        records: Sequence[Record],
        seen: Sequence[Range],
    ) -> None:
        """The acknowledgements must be durable before the journal forgets them, and what Apache's
        brokers would see of a transaction must be known to have been written.
        """
        clock = self._topic.host.clock
        backoff = Backoff(0.05, 5.0, clock.chance)
        while True:
            try:
                await self._store_effects(cursors, seen)
                break
            except BrokerError as failure:  # the next load finds the transaction open, and ends it
                if self._topic.closed or journal.failure is not None:
                    raise TopicFenced(f"Topic {self._topic.name} is loaded again") from failure
                _log.warning("commit not stored", transaction=str(id_), reason=failure.sentence)
            await clock.sleep(backoff.next_s())
        stored = journal.append(*records)
        self._acks.pop(id_, None)
        await stored

    async def _store_effects(self, cursors: Sequence[Cursor], seen: Sequence[Range]) -> None:
        subscriptions = self._topic.subscriptions
        for cursor in cursors:
            found = subscriptions.get(cursor.name)
            if found is not None and found.cursor is cursor:  # else it was deleted meanwhile
                await cursor.flush()
        if seen:
            note = partial(_note_written, str(seen[-1].ledger_id))
            await self._topic.log.record.change_properties(note)


def _note_written(last_ledger: str, own: Mapping[str, str]) -> Mapping[str, str]:
    return {**own, WRITTEN_PROPERTY: last_ledger}

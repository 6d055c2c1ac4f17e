"""Transactions of Apache's brokers beside the topics of a cluster that was theirs.

They are kept in topics and records that this broker does not read: a topic whose messages may have
been aborted there is refused by name instead of served with them.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final
from weakref import WeakValueDictionary

from magnetar.broker.topic_tree import TopicTree
from magnetar.errors import LedgerNotFound, TopicUnsupported
from magnetar.ledger.store import LedgerStore
from magnetar.metadata.store import MetadataStore
from magnetar.model.name import NamespaceName, TopicDomain, TopicName, parse_topic
from magnetar.model.position import LedgerId, Term
from magnetar.rules.foreign import find_pending_ack, is_transaction_buffer

_SEGMENTS: Final = "/txn/segment-state/watermark"
_NO_TERM: Final = Term(0)


@dataclass(frozen=True, slots=True)
class _Traces:
    """What a namespace has of transactions."""

    buffer: str | None
    """The topic that says which of them were aborted, when it says anything."""
    siblings: frozenset[str]
    """Local names of topics that may hold acknowledgements of other topics."""


class ForeignTransactions:
    """Looks once into each namespace: while this broker runs, no other kind writes there."""

    def __init__(self, store: MetadataStore, ledgers: LedgerStore, tree: TopicTree) -> None:
        self._store = store
        self._ledgers = ledgers
        self._tree = tree
        self._found: dict[NamespaceName, _Traces] = {}
        self._turns: WeakValueDictionary[NamespaceName, asyncio.Lock] = WeakValueDictionary()

    async def check(self, name: TopicName) -> None:
        """Raise TopicUnsupported for a topic that may hold messages of transactions."""
        if name.domain is TopicDomain.SEGMENT:
            if await self._store.children(_SEGMENTS):
                raise TopicUnsupported(f"{name} is not served: {_SEGMENTS} names transactions")
            return
        async with self._turns.setdefault(name.namespace, asyncio.Lock()):
            traces = self._found.get(name.namespace)
            if traces is None:
                traces = self._found[name.namespace] = await self._look(name.namespace)
        if is_transaction_buffer(name.local):
            return
        if traces.buffer is not None:
            raise TopicUnsupported(
                f"{name} is not served: its namespace has transactions in {traces.buffer}"
            )
        pending = find_pending_ack(name.local, traces.siblings)
        if pending is not None:
            raise TopicUnsupported(f"{name} is not served: it has transactions in {pending}")

    async def _look(self, namespace: NamespaceName) -> _Traces:
        buffer, siblings = None, set[str]()
        async for names in self._tree.scan(namespace, TopicDomain.PERSISTENT):
            for full in names:
                if "__transaction_" not in full:
                    continue
                topic = parse_topic(full)
                siblings.add(topic.local)
                if is_transaction_buffer(topic.local) and await self._has_entries(topic):
                    buffer = full
        return _Traces(buffer, frozenset(siblings))

    async def _has_entries(self, topic: TopicName) -> bool:
        """Whether anything was ever written there: a broker makes it with the first topic."""
        records = await self._tree.records(topic)
        loaded = await records.load()
        ledgers = () if loaded is None else loaded[0].ledgers
        if any(part.entries for part in ledgers):
            return True
        cursors = await records.load_cursors()
        if any(info.properties or info.mark_delete.entry_id >= 0 for info, _ in cursors.values()):
            return True
        for part in ledgers:
            try:
                if (await self._ledgers.recover(LedgerId(part.ledger_id), term=_NO_TERM)).last >= 0:
                    return True
            except LedgerNotFound:
                continue
        return False

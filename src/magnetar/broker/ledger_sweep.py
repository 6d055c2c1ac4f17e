"""The sweep of orphaned ledgers: those that no record of a topic or schema names are deleted."""

from __future__ import annotations

from collections.abc import Sequence

from magnetar.broker.compaction import LEDGER_PROPERTY
from magnetar.broker.schema import SchemaStorage
from magnetar.broker.topic_tree import TopicTree
from magnetar.errors import InvalidName
from magnetar.ledger.belonging import UseKind, parse_use
from magnetar.ledger.cursor_ledger import read_cursor
from magnetar.ledger.orphan import load_references, remove_orphans
from magnetar.ledger.store import LedgerInfo, LedgerStore
from magnetar.model.log_path import is_journal
from magnetar.model.name import TopicDomain, TopicName, decode_local, parse_topic
from magnetar.model.position import LedgerId, Term
from magnetar.model.subscription import COMPACTION_CURSOR
from magnetar.runtime.log import Logger

_log = Logger(__name__)


class NamedLedgers:
    """Looks at each owner's records once, so it is for one sweep only."""

    def __init__(self, tree: TopicTree, schemas: SchemaStorage, ledgers: LedgerStore) -> None:
        self._tree = tree
        self._schemas = schemas
        self._ledgers = ledgers
        self._known: dict[tuple[UseKind, str], frozenset[int]] = {}

    async def sweep(self, suspects: Sequence[LedgerId], *, term: Term) -> None:
        """Delete what a crash left of ledgers that were there before this broker served."""
        found = await remove_orphans(self._ledgers, suspects, self.has, term=term)
        if found.removed:
            _log.info("removed ledgers that nothing names", count=len(found.removed))

    async def has(self, info: LedgerInfo) -> bool | None:
        """None when the ledger does not say who made it."""
        use = parse_use(info.properties)
        if use is None:
            return None
        key = (use.kind, use.owner)
        if key not in self._known:
            self._known[key] = await self._load(*key)
        return info.id in self._known[key]

    async def _load(self, kind: UseKind, owner: str) -> frozenset[int]:
        if is_journal(owner):
            return await load_references(self._tree.journal_records(owner))
        try:
            if kind is UseKind.SCHEMA:
                namespace, _, local = owner.rpartition("/")
                domain = TopicDomain.PERSISTENT.value
                name = parse_topic(f"{domain}://{namespace}/{decode_local(local)}")
                return frozenset(await self._schemas.ledgers_of(name))
            topic = parse_topic(owner)
        except InvalidName:
            return frozenset()
        if kind is UseKind.COMPACTED:
            return await self._load_compacted(topic)
        return await load_references(await self._tree.records(topic))

    async def _load_compacted(self, topic: TopicName) -> frozenset[int]:
        """The compaction cursor names its ledger, maybe in a ledger of its own."""
        records = await self._tree.records(topic)
        found = (await records.load_cursors()).get(COMPACTION_CURSOR)
        if found is None:
            return frozenset()
        state = await read_cursor(self._ledgers, records, found[0])
        number = state.properties.get(LEDGER_PROPERTY)
        return frozenset() if number is None else frozenset({number})

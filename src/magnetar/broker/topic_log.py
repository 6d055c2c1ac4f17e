"""How the log of a topic is opened."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from magnetar.broker.entry import count_safely
from magnetar.broker.foreign import ForeignTransactions
from magnetar.broker.ownership import Owner
from magnetar.broker.policy_default import plan_log
from magnetar.broker.topic_tree import TopicTree
from magnetar.ledger.cache import EntryCache
from magnetar.ledger.log import Log
from magnetar.ledger.pace import CursorPace
from magnetar.ledger.store import LedgerStore
from magnetar.model.name import TopicName
from magnetar.rules.policy import EffectivePolicy
from magnetar.runtime.clock import Clock


@dataclass(frozen=True, slots=True)
class TopicLogs:
    """What the logs of topics share."""

    clock: Clock
    ledgers: LedgerStore
    tree: TopicTree
    cache: EntryCache
    pace: CursorPace
    foreign: ForeignTransactions | None = None
    """Where brokers of other kinds may have served the topics before."""

    async def open(
        self,
        name: TopicName,
        policy: EffectivePolicy,
        owner: Owner,
        *,
        birth: Collection[str] | None,
    ) -> Log:
        """`birth` says that there is no such topic yet, and which cursors it is made with."""
        if self.foreign is not None and birth is None:
            await self.foreign.check(name)
        log = Log(
            name.full,
            self.ledgers,
            await self.tree.records(name),
            plan_log(policy),
            clock=self.clock,
            term=owner.term,
            count_messages=count_safely,
            cache=self.cache,
            pace=self.pace,
        )
        return await log.open(birth=birth)

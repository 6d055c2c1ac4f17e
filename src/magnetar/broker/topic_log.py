"""How the log of a topic is opened."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from magnetar.broker.entry import count_safely
from magnetar.broker.ownership import Owner
from magnetar.broker.policy_default import plan_log
from magnetar.broker.topic_tree import TopicTree
from magnetar.ledger.cache import EntryCache
from magnetar.ledger.log import Log
from magnetar.ledger.message_tally import TallyPace
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
    tally_pace: TallyPace

    async def open(
        self,
        name: TopicName,
        policy: EffectivePolicy,
        owner: Owner,
        *,
        birth: Collection[str] | None,
    ) -> Log:
        """`birth` says that there is no such topic yet, and which cursors it is made with."""
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
            tally_pace=self.tally_pace,
        )
        return await log.open(birth=birth)

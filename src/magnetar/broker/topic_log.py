"""How the log of a topic is opened."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from magnetar.broker.default import plan_log
from magnetar.broker.entry import count_safely
from magnetar.broker.ownership import Owner
from magnetar.ledger.log import Log
from magnetar.model.name import TopicName
from magnetar.rules.policy import EffectivePolicy

if TYPE_CHECKING:
    from magnetar.broker.service import Service


async def open_log(
    service: Service,
    name: TopicName,
    policy: EffectivePolicy,
    owner: Owner,
    *,
    birth: Collection[str] | None,
) -> Log:
    """`birth` says that there is no such topic yet, and which cursors it is made with."""
    log = Log(
        name.full,
        service.ledgers,
        await service.tree.records(name),
        plan_log(policy),
        clock=service.clock,
        term=owner.term,
        count_messages=count_safely,
        cache=service.cache,
        pace=service.pace,
    )
    return await log.open(birth=birth)

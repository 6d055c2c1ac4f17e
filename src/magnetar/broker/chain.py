"""How the chain of a topic is opened."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from magnetar.broker.default import plan_chain
from magnetar.broker.entry import count_safely
from magnetar.broker.ownership import Owner
from magnetar.ledger.chain import Chain
from magnetar.model.name import TopicName
from magnetar.rules.policy import EffectivePolicy

if TYPE_CHECKING:
    from magnetar.broker.service import Service


async def open_chain(
    service: Service,
    name: TopicName,
    policy: EffectivePolicy,
    owner: Owner,
    *,
    birth: Collection[str] | None,
) -> Chain:
    """`birth` says that there is no such topic yet, and which cursors it is made with."""
    return await Chain.open(
        name.full,
        service.ledgers,
        await service.tree.records(name),
        plan_chain(policy),
        clock=service.clock,
        term=owner.term,
        count_messages=count_safely,
        cache=service.cache,
        pace=service.pace,
        birth=birth,
    )

"""The broker that runs a topic, as far as the topic and its parts need it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from magnetar.broker.activity import Activity
from magnetar.ledger.store import LedgerStore
from magnetar.model.limit import Limits
from magnetar.runtime.clock import Clock
from magnetar.runtime.configuration import Configuration
from magnetar.runtime.task import TaskScope


@dataclass(frozen=True, slots=True)
class TopicHost:
    clock: Clock
    tasks: TaskScope
    config: Configuration
    limits: Limits
    ledgers: LedgerStore
    broker_id: str
    activity: Activity = field(default_factory=Activity)
    is_owner: Callable[[], bool] = lambda: True
    """False when this broker may have lost everything that it owned, and does not know yet."""

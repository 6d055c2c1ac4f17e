"""The broker that runs a topic, as far as the topic and its parts need it."""

from __future__ import annotations

from dataclasses import dataclass

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

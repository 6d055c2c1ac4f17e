"""The broker that runs a topic, as far as the topic and its parts need it."""

from __future__ import annotations

from typing import Protocol

from magnetar.ledger.store import LedgerStore
from magnetar.model.limit import Limits
from magnetar.runtime.clock import Clock
from magnetar.runtime.configuration import Configuration
from magnetar.runtime.task import TaskScope


class TopicHost(Protocol):
    @property
    def clock(self) -> Clock: ...

    @property
    def tasks(self) -> TaskScope: ...

    @property
    def config(self) -> Configuration: ...

    @property
    def limits(self) -> Limits: ...

    @property
    def ledgers(self) -> LedgerStore: ...

    @property
    def broker_id(self) -> str: ...

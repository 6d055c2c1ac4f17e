"""Port of a consumer group: what it needs of its topic, which has a controller or is regular."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from magnetar.broker.scalable.segment import Segments
from magnetar.model.layout import Layout
from magnetar.model.name import TopicName
from magnetar.model.scalable import ConsumerRecord, SubscriptionKind


class ConsumerRecords(Protocol):
    """Where registrations are kept for the next controller."""

    async def load_consumers(
        self, topic: TopicName, subscription: str
    ) -> Mapping[str, ConsumerRecord]: ...

    async def store_consumer(
        self, topic: TopicName, subscription: str, name: str, record: ConsumerRecord
    ) -> None: ...

    async def delete_consumer(self, topic: TopicName, subscription: str, name: str) -> None: ...


class Host(Protocol):
    @property
    def topic(self) -> TopicName: ...

    @property
    def layout(self) -> Layout: ...

    @property
    def segments(self) -> Segments: ...

    @property
    def records(self) -> ConsumerRecords: ...

    async def register_subscription(self, name: str, kind: SubscriptionKind) -> None: ...

    def on_consumers_changed(self, *, has_joined: bool) -> None:
        """There is one more, or one fewer."""

"""Records of the subscriptions of scalable topics, and of the consumers registered with their
groups. They are read when they are needed.
"""

from __future__ import annotations

from magnetar.errors import RecordNotFound
from magnetar.metadata.store import ANY_VERSION, MetadataStore
from magnetar.model.name import TopicName
from magnetar.model.scalable import (
    ConsumerRecord,
    SubscriptionRecord,
    consumer_path,
    consumers_path,
    subscription_path,
    subscriptions_path,
    unescape_component,
)
from magnetar.wire.scalable import (
    decode_consumer,
    decode_subscription,
    encode_consumer,
    encode_subscription,
)


class GroupRecords:
    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    async def load_subscriptions(self, topic: TopicName) -> dict[str, SubscriptionRecord]:
        """Those with a record; a group that only has consumers is none."""
        found = self._store.scan_children(subscriptions_path(topic))
        return {
            unescape_component(component): decode_subscription(stored.value)
            async for component, stored in found
        }

    async def load_groups(self, topic: TopicName) -> tuple[str, ...]:
        """Names that have a record of their own or registered consumers."""
        names = await self._store.children(subscriptions_path(topic))
        return tuple(unescape_component(name) for name in names)

    async def has_subscription(self, topic: TopicName, name: str) -> bool:
        return await self._store.get(subscription_path(topic, name)) is not None

    async def store_subscription(
        self, topic: TopicName, name: str, record: SubscriptionRecord
    ) -> None:
        # The controller alone writes it: the last write is the right one.
        path = subscription_path(topic, name)
        await self._store.put(path, encode_subscription(record), expect=ANY_VERSION)

    async def delete_subscription(self, topic: TopicName, name: str) -> None:
        """With the records of its consumers."""
        await self._store.delete_recursive(subscription_path(topic, name))

    async def load_consumers(
        self, topic: TopicName, subscription: str
    ) -> dict[str, ConsumerRecord]:
        found = self._store.scan_children(consumers_path(topic, subscription))
        return {
            unescape_component(component): decode_consumer(stored.value)
            async for component, stored in found
        }

    async def store_consumer(
        self, topic: TopicName, subscription: str, name: str, record: ConsumerRecord
    ) -> None:
        path = consumer_path(topic, subscription, name)
        await self._store.put(path, encode_consumer(record), expect=ANY_VERSION)

    async def delete_consumer(self, topic: TopicName, subscription: str, name: str) -> None:
        """One that is not there is fine."""
        try:
            path = consumer_path(topic, subscription, name)
            await self._store.delete(path, expect=ANY_VERSION)
        except RecordNotFound:
            pass

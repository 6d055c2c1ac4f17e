"""Names of regular topics, and consumers and producers of either kind of topic."""

from __future__ import annotations

import uuid
from typing import Any

from tests.contract.sdk_place import Place

KINDS_OF_TOPIC = ("classic", "scalable")


def new_name(domain: str = "persistent") -> str:
    """A regular topic that does not exist yet."""
    return f"{domain}://public/default/t-{uuid.uuid4().hex[:12]}"


def pick_topic(place: Place, kind: str, *, segments: int = 2) -> str:
    return place.create_topic(segments=segments) if kind == "scalable" else new_name()


async def open_producer(client: Any, topic: str, **options: Any) -> Any:
    if topic.startswith("topic://"):
        return await client.producer(topic, **options)
    return await client.producer(topic, **options)


async def open_queue(client: Any, topic: str, subscription: str = "s", **options: Any) -> Any:
    """A consumer that shares messages with others and acknowledges each on its own."""
    if topic.startswith("topic://"):
        return await client.queue_consumer(topic, subscription=subscription, **options)
    return await client.consumer(topic, subscription, type="shared", **options)

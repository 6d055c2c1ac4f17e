"""How a producer learns what a sealed topic has stored of it.

A PRODUCER with a property of ours: a topic with deduplication that was sealed answers it with the
last sequence id that it stored under the name, and admits no producer. Others refuse it as they
refuse every producer of a sealed topic.
"""

from __future__ import annotations

from typing import Final

from magnetar.wire.command import CommandProducer, KeyValue

_PROPERTY: Final = "__magnetar.lastStored"


def ask_last_stored(topic: str, producer_id: int, producer_name: str) -> CommandProducer:
    return CommandProducer(
        topic=topic,
        producer_id=producer_id,
        producer_name=producer_name,
        user_provided_producer_name=True,
        metadata=[KeyValue(key=_PROPERTY, value="true")],
    )


def asks_last_stored(request: CommandProducer) -> bool:
    return any(each.key == _PROPERTY for each in request.metadata)

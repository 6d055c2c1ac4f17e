"""Everything that a page about one topic shows of its present state."""

from __future__ import annotations

from typing import Any, Final

from magnetar.broker.administration.lookup import find_topic_owner, web_url_of
from magnetar.broker.administration.registry import Document
from magnetar.broker.administration.scalable import find_controller, get_metadata
from magnetar.broker.administration.scalable_stats import explain, get_decisions, get_stats
from magnetar.broker.administration.topic import check_exists, existing_parts, find_topic
from magnetar.broker.administration.topic_table import messages_per_entry
from magnetar.broker.persistent import PersistentTopic
from magnetar.broker.service import Service
from magnetar.broker.stats import topic_stats
from magnetar.model.name import TopicDomain, TopicName

_DECISIONS: Final = 40
"""The latest ones, newest last."""
_PARTS_MAX: Final = 256


async def load_state(service: Service, topic: TopicName, *, tls: bool) -> Document:
    """Where another broker serves the topic, no more than where that is."""
    partitioned = await service.resources.partitioned.get(topic)
    if partitioned is None:
        elsewhere = web_url_of(await find_topic_owner(service, topic), tls=tls)
        if elsewhere is not None:
            return {"kind": "elsewhere", "url": elsewhere}
    if topic.domain is TopicDomain.TOPIC:
        return await _load_scalable(service, topic)
    return await _load_regular(service, topic, 0 if partitioned is None else partitioned.partitions)


def mark_of(service: Service, topic: TopicName) -> object:
    """Changes at once when the layout of a scalable topic does; costs next to nothing."""
    leading = service.scalable.controllers.find(topic)
    if leading is None:
        return None
    return leading.layout.epoch, leading.state.record.intent


async def _load_scalable(service: Service, topic: TopicName) -> Document:
    controller = await find_controller(service, topic)
    per_entry: dict[str, float] = {}
    for segment in controller.layout.segments:
        live = service.catalog.topics.get(segment.name_in(topic).full)
        if isinstance(live, PersistentTopic):
            per_entry[str(segment.id)] = messages_per_entry(live)
    record = controller.state.record
    return {
        "kind": "scalable",
        "atMs": service.clock.now_ms(),
        "metadata": await get_metadata(record),
        "stats": await get_stats(service, controller),
        "explain": await explain(controller),
        "decisions": [*await get_decisions(controller)][-_DECISIONS:],
        "messagesPerEntry": per_entry,
    }


async def _load_regular(service: Service, topic: TopicName, partitions: int) -> Document:
    """The topic, or the partitions that this broker serves; of the others, who does."""
    await check_exists(service, topic)
    parts: dict[str, Any] = {}
    elsewhere: dict[str, str] = {}
    for name in (await existing_parts(service, topic))[:_PARTS_MAX]:
        owner = await find_topic_owner(service, name)
        if not owner.is_self:
            elsewhere[name.full] = owner.broker_id
            continue
        live = await find_topic(service, name)
        told = dict[str, Any](topic_stats(live))
        if isinstance(live, PersistentTopic):
            told["messagesPerEntry"] = messages_per_entry(live)
        parts[live.name.full] = told
    return {
        "kind": "partitioned" if partitions else "regular",
        "atMs": service.clock.now_ms(),
        "partitions": partitions,
        "parts": parts,
        "elsewhere": elsewhere,
    }

"""Scalable topics: made, changed and removed as a whole; their layout split, merged and scaled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from magnetar.broker.administration.autoscale import describe_auto_scale
from magnetar.broker.administration.permission import forget_permissions
from magnetar.broker.administration.record import load_policies
from magnetar.broker.administration.registry import Document, carries_out
from magnetar.broker.scalable.controller import Controller
from magnetar.broker.scalable.refusal import Door
from magnetar.broker.service import Service
from magnetar.errors import (
    BadRequest,
    InvalidName,
    PreconditionFailed,
    TopicMigrated,
    TopicNotFound,
)
from magnetar.model.caller import Caller
from magnetar.model.name import NamespaceName, TopicName
from magnetar.model.segment import RING, SegmentId
from magnetar.wire.migration import format_rehearsal
from magnetar.wire.scalable import format_topic_record


# The topic
@carries_out("scalable_topics.list")
async def list_topics(
    service: Service, namespace: NamespaceName, properties: tuple[str, ...]
) -> Sequence[str]:
    filters: dict[str, str] = {}
    contradicted = False
    for text in properties:
        key, separator, value = text.partition("=")
        if not (separator and key and value):
            raise PreconditionFailed(f"property filter must be in the form key=value, got: {text}")
        contradicted |= filters.setdefault(key, value) != value
    await load_policies(service, namespace)
    found = await service.scalable.list(namespace, filters)
    return [] if contradicted else [topic.full for topic in found]


@carries_out("scalable_topics.create")
async def create_topic(
    service: Service, topic: TopicName, segments: int, properties: dict[str, str] | None
) -> None:
    if segments < 1:
        raise PreconditionFailed("numInitialSegments must be >= 1")
    if segments > RING:
        raise PreconditionFailed(f"numInitialSegments must be <= {RING}")
    await service.scalable.create_topic(topic, segments=segments, properties=properties or {})


@carries_out("scalable_topics.delete")
async def delete_topic(service: Service, topic: TopicName, force: bool) -> None:
    await service.scalable.delete_topic(topic, force=force)
    await forget_permissions(service, topic)


@carries_out("scalable_topics.metadata")
async def get_metadata(service: Service, topic: TopicName) -> Document:
    return format_topic_record(await service.scalable.metadata(topic))


@carries_out("scalable_topics.history")
async def get_history(service: Service, topic: TopicName) -> Sequence[Document]:
    events: Sequence[Document] = (await get_metadata(service, topic)).get("magnetarHistory", [])
    return events


@carries_out("scalable_topics.properties")
async def get_properties(service: Service, topic: TopicName) -> Mapping[str, str]:
    return (await service.scalable.metadata(topic)).properties


@carries_out("scalable_topics.set_properties")
async def set_properties(
    service: Service, topic: TopicName, properties: dict[str, str] | None
) -> None:
    await service.scalable.update_properties(topic, properties or {})


@carries_out("scalable_topics.policy")
async def get_policy(service: Service, topic: TopicName) -> Document:
    """What is in force: for scaling, and for the messages of all segments."""
    await service.scalable.metadata(topic)
    return {
        "autoScale": await describe_auto_scale(service, topic),
        "topic": await service.policies.get_applied(topic),
    }


# The layout
async def _controller(service: Service, topic: TopicName) -> Controller:
    try:
        return await service.scalable.controller(topic)
    except TopicNotFound:
        await service.scalable.regular.check_scalable(topic, "segments to split and merge")
        raise


@carries_out("scalable_topics.split")
async def split(service: Service, topic: TopicName, segment: SegmentId, at: str | None) -> None:
    """`at` is decimal, or hexadecimal after 0x."""
    try:
        first = None if at is None else int(at, 16 if at[:2].lower() == "0x" else 10)
    except ValueError:
        raise BadRequest(f"at is a hash from 0 to 65535, not {at!r}") from None
    await (await _controller(service, topic)).split(segment, at=first)


@carries_out("scalable_topics.merge")
async def merge(service: Service, topic: TopicName, left: SegmentId, right: SegmentId) -> None:
    await (await _controller(service, topic)).merge(left, right)


@carries_out("scalable_topics.scale")
async def scale(
    service: Service, topic: TopicName, segments: int, hold_until_ms: int | None
) -> None:
    if not 1 <= segments <= RING:
        raise PreconditionFailed(f"segments must be from 1 to {RING}, not {segments}")
    await (await _controller(service, topic)).scale_to(segments, hold_until_ms=hold_until_ms)


@carries_out("scalable_topics.prune")
async def prune(service: Service, topic: TopicName) -> Sequence[SegmentId]:
    return list(await (await service.scalable.controller(topic)).prune())


# What a regular topic becomes
@carries_out("scalable_topics.migrate_to_scalable")
async def migrate(service: Service, topic: TopicName, force: bool, segments: int | None) -> None:
    _check_regular_name(topic)
    await service.scalable.migrations.run(topic, force=force, segments=segments)


@carries_out("scalable_topics.migration_check")
async def check_migration(service: Service, topic: TopicName, segments: int | None) -> Document:
    _check_regular_name(topic)
    return format_rehearsal(await service.scalable.migrations.rehearse(topic, segments=segments))


def _check_regular_name(topic: TopicName) -> None:
    if "/" in topic.local:
        raise InvalidName(f"No regular topic is called {topic.local!r}")


def on_refused(
    service: Service,
    refused: TopicMigrated,
    *,
    path: str,
    address: str,
    version: str,
    caller: Caller,
) -> None:
    """A call by the name of a regular topic was refused, because the topic is scalable."""
    service.scalable.refusals.on_refused(
        Door.REST, refused.sentence, topic=path, address=address, version=version, caller=caller
    )

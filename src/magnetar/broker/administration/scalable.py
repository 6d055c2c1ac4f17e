"""Scalable topics: made, changed and removed; their layout split, merged and scaled; how they may
scale themselves; and their subscriptions, which act on every segment of the layout.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, NewType, cast

from msgspec import structs

from magnetar.broker.administration.permission import forget_permissions
from magnetar.broker.administration.port import TopicOwners
from magnetar.broker.administration.record import Store, load_policies
from magnetar.broker.administration.registry import carries_out, finds
from magnetar.broker.administration.subscription import Age
from magnetar.broker.policy import PolicyService
from magnetar.broker.scalable.autoscale import plan_auto_scale
from magnetar.broker.scalable.controller import Controller
from magnetar.broker.scalable.refusal import EntryPoint
from magnetar.broker.scalable.service import ScalableService
from magnetar.errors import (
    BadRequest,
    InvalidName,
    PreconditionFailed,
    SubscriptionNotFound,
    TopicMigrated,
    TopicNotFound,
)
from magnetar.model.answer.record import AutoScaleAnswer, TopicPoliciesAnswer
from magnetar.model.answer.scalable import (
    GroupAnswer,
    MigrationCheck,
    PastLayoutChange,
    ScalableMetadata,
    ScalablePolicy,
    ScaleValue,
)
from magnetar.model.autoscale import (
    FIELDS,
    AutoScaleOverride,
    apply_override,
    check_auto_scale,
    format_override,
    source_of,
)
from magnetar.model.caller import Caller
from magnetar.model.name import NamespaceName, TopicName
from magnetar.model.policy import Policies
from magnetar.model.scalable import ScalableTopicMetadata, SubscriptionKind
from magnetar.model.segment import RING, SegmentId
from magnetar.runtime.configuration import Configuration
from magnetar.wire.migration import format_rehearsal
from magnetar.wire.scalable import format_event, format_topic_record

Known = NewType("Known", str)
"""The name of a subscription that the scalable topic has."""
_LAYOUT: Final = "segments to split and merge"


# Finding
@finds(ScalableTopicMetadata)
async def find_metadata(scalable: ScalableService, topic: TopicName) -> ScalableTopicMetadata:
    return await scalable.records.require(topic)


@finds(Controller)
async def find_controller(
    scalable: ScalableService, topic: TopicName, what: str = ""
) -> Controller:
    """`what` is something that a regular topic does not have."""
    try:
        return await scalable.controller(topic)
    except TopicNotFound:
        if what:
            await scalable.regular.check_scalable(topic, what)
        raise


@finds(Known)
async def find_known(scalable: ScalableService, topic: TopicName, subscription: str) -> Known:
    controller = await scalable.controller(topic)
    if subscription not in controller.subscriptions.registry.records:
        raise SubscriptionNotFound(f"Subscription {subscription} not found for topic {topic}")
    return Known(subscription)


# The topic
@carries_out("scalable_topics.list")
async def list_topics(
    owners: TopicOwners, namespace: NamespaceName, properties: tuple[str, ...]
) -> Sequence[str]:
    filters: dict[str, str] = {}
    contradicted = False
    for text in properties:
        key, separator, value = text.partition("=")
        if not (separator and key and value):
            raise PreconditionFailed(f"property filter must be in the form key=value, got: {text}")
        contradicted |= filters.setdefault(key, value) != value
    await load_policies(owners.resources, namespace)
    found = await owners.scalable.records.list(namespace, filters)
    return [] if contradicted else [topic.full for topic in found]


@carries_out("scalable_topics.create")
async def create_topic(
    scalable: ScalableService, topic: TopicName, segments: int, properties: dict[str, str] | None
) -> None:
    if segments < 1:
        raise PreconditionFailed("numInitialSegments must be >= 1")
    if segments > RING:
        raise PreconditionFailed(f"numInitialSegments must be <= {RING}")
    await scalable.create_topic(topic, segments=segments, properties=properties or {})


@carries_out("scalable_topics.delete")
async def delete_topic(owners: TopicOwners, topic: TopicName, force: bool) -> None:
    await owners.scalable.delete_topic(topic, force=force)
    await forget_permissions(owners.resources, topic)


@carries_out("scalable_topics.metadata")
async def get_metadata(record: ScalableTopicMetadata) -> ScalableMetadata:
    return cast(ScalableMetadata, format_topic_record(record))


@carries_out("scalable_topics.history")
async def get_history(record: ScalableTopicMetadata) -> Sequence[PastLayoutChange]:
    return [format_event(event) for event in record.history]


@carries_out("scalable_topics.properties")
async def get_properties(record: ScalableTopicMetadata) -> Mapping[str, str]:
    return record.properties


@carries_out("scalable_topics.set_properties")
async def set_properties(
    scalable: ScalableService, topic: TopicName, properties: dict[str, str] | None
) -> None:
    await scalable.records.update_properties(topic, properties or {})


@carries_out("scalable_topics.policy")
async def get_policy(
    scalable: ScalableService, policies: PolicyService, topic: TopicName
) -> ScalablePolicy:
    """What is in force: for scaling, and for the messages of all segments."""
    scaling = await describe_auto_scale(scalable, topic)
    applied = cast(TopicPoliciesAnswer, await policies.get_applied(topic))
    return {"autoScale": scaling, "topic": applied}


# The layout
@carries_out("scalable_topics.split")
async def split(
    scalable: ScalableService, topic: TopicName, segment: SegmentId, at: str | None
) -> None:
    """`at` is decimal, or hexadecimal after 0x."""
    try:
        first = None if at is None else int(at, 16 if at[:2].lower() == "0x" else 10)
    except ValueError:
        raise BadRequest(f"at is a hash from 0 to 65535, not {at!r}") from None
    await (await find_controller(scalable, topic, _LAYOUT)).changes.split(segment, at=first)


@carries_out("scalable_topics.merge", what=_LAYOUT)
async def merge(controller: Controller, left: SegmentId, right: SegmentId) -> None:
    await controller.changes.merge(left, right)


@carries_out("scalable_topics.scale")
async def scale(
    scalable: ScalableService, topic: TopicName, segments: int, hold_until_ms: int | None
) -> None:
    if not 1 <= segments <= RING:
        raise PreconditionFailed(f"segments must be from 1 to {RING}, not {segments}")
    controller = await find_controller(scalable, topic, _LAYOUT)
    await controller.changes.scale_to(segments, hold_until_ms=hold_until_ms)


@carries_out("scalable_topics.prune")
async def prune(controller: Controller) -> Sequence[SegmentId]:
    return await controller.changes.prune()


# Subscriptions
@carries_out("scalable_topics.subscriptions")
async def list_subscriptions(controller: Controller) -> Mapping[str, GroupAnswer]:
    names = sorted(controller.subscriptions.registry.records)
    return {name: await describe_subscription(controller, name) for name in names}


@carries_out("scalable_topics.subscription")
async def get_subscription(controller: Controller, subscription: Known) -> GroupAnswer:
    return await describe_subscription(controller, subscription)


@carries_out("scalable_topics.create_subscription")
async def create_subscription(
    scalable: ScalableService, topic: TopicName, subscription: str, kind: str
) -> None:
    """One that exists keeps its kind."""
    try:
        wanted = SubscriptionKind(kind.upper())
    except ValueError:
        known = " or ".join(each.value for each in SubscriptionKind)
        raise BadRequest(f"type is {known}, not {kind!r}") from None
    if not subscription.strip():
        raise PreconditionFailed("Subscription name is not valid")
    controller = await scalable.controller(topic)
    await controller.subscriptions.create(subscription, wanted)


@carries_out("scalable_topics.delete_subscription")
async def delete_subscription(controller: Controller, subscription: Known, force: bool) -> None:
    await controller.subscriptions.delete(subscription, force=force)


@carries_out("scalable_topics.seek")
async def seek(controller: Controller, subscription: Known, timestamp_ms: int) -> None:
    await controller.subscriptions.seek(subscription, timestamp_ms)


@carries_out("scalable_topics.clear_backlog")
async def clear_backlog(controller: Controller, subscription: Known) -> None:
    await controller.subscriptions.clear_backlog(subscription)


@carries_out("scalable_topics.expire")
async def expire(seconds: Age, controller: Controller, subscription: Known) -> None:
    await controller.subscriptions.expire(subscription, seconds)


async def describe_subscription(controller: Controller, name: str) -> GroupAnswer:
    """Its kind, how far it is segment by segment, what its consumers read and wait for.

    A group of CHECKPOINT consumers keeps its place itself: it has no record and no backlog.
    """
    coordinator = controller.groups.coordinators.get(name)
    described: GroupAnswer = {} if coordinator is None else coordinator.stats()
    registry = controller.subscriptions.registry
    record = registry.records.get(name)
    if record is not None:
        lags = sorted((await registry.lag(name)).items())
        described |= {
            "type": record.kind.value,
            "msgBacklog": sum(lag.entries for _, lag in lags),
            "backlog": {str(number): lag.entries for number, lag in lags},
            "lagMessages": sum(lag.messages for _, lag in lags),
            "isLagEstimated": not all(lag.is_exact for _, lag in lags),
            "lag": {str(number): lag.messages for number, lag in lags},
        }
    return described


# How topics may scale themselves
@carries_out("scalable_topics.namespace_auto_scale_policy")
async def get_scaling_of_namespace(policies: Policies) -> AutoScaleAnswer | None:
    return cast(AutoScaleAnswer | None, policies.scalableTopicAutoScalePolicy)


@carries_out("scalable_topics.set_namespace_auto_scale_policy")
async def set_scaling_of_namespace(
    config: Configuration, store: Store, override: AutoScaleOverride
) -> None:
    """What contradicts the broker's own values is refused."""
    value = format_override(override)
    check_auto_scale(apply_override(plan_auto_scale(config), value))
    await store(lambda policies: structs.replace(policies, scalableTopicAutoScalePolicy=value))


@carries_out("scalable_topics.remove_namespace_auto_scale_policy")
async def remove_scaling_of_namespace(store: Store) -> None:
    await store(lambda policies: structs.replace(policies, scalableTopicAutoScalePolicy=None))


@carries_out("scalable_topics.auto_scale_policy")
async def get_scaling_of_topic(record: ScalableTopicMetadata) -> AutoScaleAnswer | None:
    return cast(AutoScaleAnswer | None, record.auto_scale_policy)


@carries_out("scalable_topics.set_auto_scale_policy")
async def set_scaling_of_topic(
    scalable: ScalableService,
    topic: TopicName,
    record: ScalableTopicMetadata,
    override: AutoScaleOverride,
) -> None:
    """What contradicts the broker's or the namespace's values is refused."""
    value = format_override(override)
    wanted = replace(record, auto_scale_policy=value)
    check_auto_scale(await scalable.scale_policies.load(topic.namespace, wanted))
    await scalable.records.update(topic, lambda present: replace(present, auto_scale_policy=value))


@carries_out("scalable_topics.remove_auto_scale_policy")
async def remove_scaling_of_topic(scalable: ScalableService, topic: TopicName) -> None:
    await scalable.records.update(topic, lambda present: replace(present, auto_scale_policy=None))


async def describe_auto_scale(scalable: ScalableService, topic: TopicName) -> dict[str, ScaleValue]:
    """Every value that is in force, and where it was set."""
    record = await scalable.records.require(topic)
    policies = scalable.scale_policies
    policy = await policies.load(topic.namespace, record)
    layers = await policies.load_override(topic.namespace), record.auto_scale_policy
    return {
        name: {"value": getattr(policy, name), "source": source_of(name, *layers).value}
        for name in FIELDS
    }


# What a regular topic becomes
@carries_out("scalable_topics.migrate_to_scalable")
async def migrate(
    scalable: ScalableService, topic: TopicName, force: bool, segments: int | None
) -> None:
    _check_regular_name(topic)
    await scalable.migrations.run(topic, force=force, segments=segments)


@carries_out("scalable_topics.migration_check")
async def check_migration(
    scalable: ScalableService, topic: TopicName, segments: int | None
) -> MigrationCheck:
    _check_regular_name(topic)
    return format_rehearsal(await scalable.migrations.rehearse(topic, segments=segments))


def _check_regular_name(topic: TopicName) -> None:
    if "/" in topic.local:
        raise InvalidName(f"No regular topic is called {topic.local!r}")


def on_refused(
    scalable: ScalableService,
    refused: TopicMigrated,
    *,
    path: str,
    address: str,
    version: str,
    caller: Caller,
) -> None:
    """A call by the name of a regular topic was refused, because the topic is scalable."""
    scalable.refusals.on_refused(
        EntryPoint.REST,
        refused.sentence,
        topic=path,
        address=address,
        version=version,
        caller=caller,
    )

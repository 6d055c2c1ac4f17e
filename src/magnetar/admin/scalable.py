"""Scalable topics, below both spellings of their path.

`/admin/v2/scalable` is what Pulsar's tools call, `/admin/v2/scalable-topics` what the proposal
says. A topic's name is one component, form-encoded like that of a regular topic.
"""

from __future__ import annotations

from typing import Final

from magnetar.admin.entry import entry_response
from magnetar.admin.request import Call
from magnetar.admin.response import BYTES
from magnetar.admin.route import Body, Priority, Query, Table
from magnetar.broker.api import BrokerApi
from magnetar.errors import BadRequest, PreconditionFailed
from magnetar.model.autoscale import AutoScaleOverride
from magnetar.model.name import TopicDomain
from magnetar.model.permission import (
    NAMESPACE_ADMIN,
    NAMESPACE_READ,
    SUPER_USER,
    TOPIC_ADMIN,
    TOPIC_CONSUME,
    TOPIC_POLICY,
    TOPIC_PRODUCE,
    TOPIC_READ,
)
from magnetar.model.scalable import SubscriptionKind
from magnetar.model.segment import SegmentId

_PROPERTIES: Final = Body(dict[str, str])
_OVERRIDE: Final = Body(AutoScaleOverride, required=True, missing="An auto-scale policy is needed")


def _segment(call: Call, name: str = "segment") -> SegmentId:
    return SegmentId(call.integer(name))


# The topic
async def list_topics(api: BrokerApi, call: Call) -> object:
    """Scalable topics of a namespace, or those that have all the given properties."""
    filters: dict[str, str] = {}
    contradicted = False
    for text in call.values("property"):
        key, separator, value = text.partition("=")
        if not (separator and key and value):
            raise PreconditionFailed(f"property filter must be in the form key=value, got: {text}")
        contradicted |= filters.setdefault(key, value) != value
    found = await api.scalable.list(call.namespace, filters)
    return [] if contradicted else found


async def create_topic(api: BrokerApi, call: Call) -> object:
    """Make a scalable topic of some segments, with properties."""
    segments = call.number("numInitialSegments")
    await api.scalable.create(
        call.topic, segments=1 if segments is None else segments, properties=call.payload or {}
    )
    return None


async def get_metadata(api: BrokerApi, call: Call) -> object:
    """The stored record: layout, properties, policy, the change under way and the past ones."""
    return await api.scalable.metadata(call.topic)


async def delete_topic(api: BrokerApi, call: Call) -> object:
    """Delete a topic with all its segments; one that is in use only when forced."""
    await api.scalable.delete(call.topic, force=call.flag("force"))
    return None


async def get_properties(api: BrokerApi, call: Call) -> object:
    """The topic's properties."""
    return await api.scalable.properties(call.topic)


async def set_properties(api: BrokerApi, call: Call) -> object:
    """Replace the topic's properties."""
    await api.scalable.set_properties(call.topic, call.payload or {})
    return None


async def get_history(api: BrokerApi, call: Call) -> object:
    """The latest changes of the layout, oldest first."""
    return await api.scalable.history(call.topic)


async def get_policy(api: BrokerApi, call: Call) -> object:
    """What is in force for the topic, and where each value of its scaling was set."""
    return await api.scalable.policy(call.topic)


# What a regular topic becomes
async def migrate_topic(api: BrokerApi, call: Call) -> object:
    """Make a regular topic scalable, for ever; `force` locks out clients that cannot follow,
    `segments` says how many there shall be for new messages.
    """
    await api.migrations.run(call.topic, force=call.flag("force"), segments=call.number("segments"))
    return None


async def check_migration(api: BrokerApi, call: Call) -> object:
    """What making a regular topic scalable would do, and what is in its way."""
    return await api.migrations.rehearse(call.topic, segments=call.number("segments"))


# Numbers
async def get_stats(api: BrokerApi, call: Call) -> object:
    """What the topic does: segments with rates, subscriptions with backlog and consumers."""
    return await api.scalable_stats.stats(call.topic)


async def get_segments(api: BrokerApi, call: Call) -> object:
    """Every segment with its rates and the backlog of each subscription."""
    return await api.scalable_stats.segments(call.topic)


async def get_segment(api: BrokerApi, call: Call) -> object:
    """One segment, with all that a regular topic's stats tell."""
    return await api.scalable_stats.segment(call.topic, _segment(call))


async def get_segment_log(api: BrokerApi, call: Call) -> object:
    """The log behind one segment: ledgers and cursors."""
    return await api.scalable_stats.internal(call.topic, _segment(call))


async def get_last_sequence(api: BrokerApi, call: Call) -> object:
    """The highest sequence id that one segment, sealed or not, has stored of a producer."""
    producer = call.query("producer")
    if not producer:
        raise BadRequest("producer is needed: its name")
    return await api.scalable_stats.last_sequence(call.topic, _segment(call), producer)


async def get_load(api: BrokerApi, call: Call) -> object:
    """What each active segment carries."""
    return await api.scalable_stats.load(call.topic)


async def explain(api: BrokerApi, call: Call) -> object:
    """Why the topic splits, merges or stays; for each subscription, what waits for what."""
    return await api.scalable_stats.explain(call.topic)


async def get_decisions(api: BrokerApi, call: Call) -> object:
    """What the topic decided about scaling itself, lately; oldest first."""
    return await api.scalable_stats.decisions(call.topic)


async def peek_message(api: BrokerApi, call: Call) -> object:
    """The nth unacknowledged entry of one segment, counted from 1."""
    found = await api.scalable_stats.peek(
        call.topic, _segment(call), call.subscription, call.integer("number")
    )
    return entry_response(*found)


async def analyze_backlog(api: BrokerApi, call: Call) -> object:
    """Count the entries and messages that a subscription has not acknowledged of one segment."""
    entries_max = call.number("entriesMax")
    return await api.scalable_stats.analyze_backlog(
        call.topic, _segment(call), call.subscription, entries_max
    )


# The layout
async def split_segment(api: BrokerApi, call: Call) -> object:
    """Split a segment in its middle, or before the hash `at`."""
    await api.scalable.split(call.topic, _segment(call), at=_hash(call))
    return None


def _hash(call: Call) -> int | None:
    """Decimal, or hexadecimal after 0x."""
    text = call.query("at")
    if not text:
        return None
    try:
        return int(text, 16 if text[:2].lower() == "0x" else 10)
    except ValueError:
        raise BadRequest(f"at is a hash from 0 to 65535, not {text!r}") from None


async def merge_segments(api: BrokerApi, call: Call) -> object:
    """Merge two neighbours, in either order."""
    await api.scalable.merge(call.topic, _segment(call, "left"), _segment(call, "right"))
    return None


async def scale_topic(api: BrokerApi, call: Call) -> object:
    """Split or merge until there are so many active segments, and no fewer till some time."""
    segments = call.number("segments")
    if segments is None:
        raise BadRequest("segments is needed: how many active segments there shall be")
    await api.scalable.scale(call.topic, segments, hold_until_ms=call.number("holdUntil"))
    return None


async def prune_segments(api: BrokerApi, call: Call) -> object:
    """Remove sealed segments that are drained and no longer retained; their ids."""
    return list(await api.scalable.prune(call.topic))


# Subscriptions
async def list_subscriptions(api: BrokerApi, call: Call) -> object:
    """Subscriptions with kind and backlog, by name."""
    return await api.scalable_subscriptions.list(call.topic)


async def get_subscription(api: BrokerApi, call: Call) -> object:
    """One subscription: kind, backlog of each segment, what its consumers read and wait for."""
    return await api.scalable_subscriptions.get(call.topic, call.subscription)


async def create_subscription(api: BrokerApi, call: Call) -> object:
    """Make a subscription that gets all messages from now on; one that exists stays as it is."""
    text = call.query("type") or SubscriptionKind.STREAM.value
    try:
        kind = SubscriptionKind(text.upper())
    except ValueError:
        known = " or ".join(kind.value for kind in SubscriptionKind)
        raise BadRequest(f"type is {known}, not {text!r}") from None
    await api.scalable_subscriptions.create(call.topic, call.subscription, kind)
    return None


async def delete_subscription(api: BrokerApi, call: Call) -> object:
    """Delete a subscription from every segment; one with consumers only when forced."""
    await api.scalable_subscriptions.delete(call.topic, call.subscription, force=call.flag("force"))
    return None


async def seek_subscription(api: BrokerApi, call: Call) -> object:
    """Move a subscription to what was published at or after a time."""
    timestamp_ms = call.number("timestamp")
    if timestamp_ms is None:
        raise BadRequest("timestamp is needed: milliseconds since 1970")
    await api.scalable_subscriptions.seek(call.topic, call.subscription, timestamp_ms)
    return None


async def clear_backlog(api: BrokerApi, call: Call) -> object:
    """Acknowledge everything in every segment."""
    await api.scalable_subscriptions.clear_backlog(call.topic, call.subscription)
    return None


async def expire_messages(api: BrokerApi, call: Call) -> object:
    """Acknowledge what is older than some seconds, in every segment."""
    await api.scalable_subscriptions.expire(call.topic, call.subscription, call.integer("seconds"))
    return None


# How it scales itself
async def get_auto_scale_policy(api: BrokerApi, call: Call) -> object:
    """What the topic sets about scaling itself."""
    return await api.auto_scale.of_topic(call.topic)


async def set_auto_scale_policy(api: BrokerApi, call: Call) -> object:
    """Replace what the topic sets about scaling itself."""
    await api.auto_scale.set_of_topic(call.topic, call.payload)
    return None


async def remove_auto_scale_policy(api: BrokerApi, call: Call) -> object:
    """Let the topic scale itself as its namespace says."""
    await api.auto_scale.set_of_topic(call.topic, None)
    return None


async def get_namespace_auto_scale_policy(api: BrokerApi, call: Call) -> object:
    """What a namespace sets about topics that scale themselves."""
    return await api.auto_scale.of_namespace(call.namespace)


async def set_namespace_auto_scale_policy(api: BrokerApi, call: Call) -> object:
    """Replace what a namespace sets about topics that scale themselves."""
    await api.auto_scale.set_of_namespace(call.namespace, call.payload)
    return None


async def remove_namespace_auto_scale_policy(api: BrokerApi, call: Call) -> object:
    """Let topics of a namespace scale themselves as the broker's configuration says."""
    await api.auto_scale.set_of_namespace(call.namespace, None)
    return None


P0: Final = Priority.P0
ONE: Final = "/{topic}"
SUBSCRIPTION: Final = f"{ONE}/subscriptions/{{subscription}}"
SEGMENT: Final = f"{ONE}/segments/{{segment}}"
FORCE: Final = (Query("force", default=False),)
SEGMENTS: Final = (Query("segments", int),)
FILTER: Final = (Query("property", str),)


def _make_table(area: str, spelling: str) -> Table:
    root = f"/admin/v2/{spelling}/{{tenant}}/{{namespace}}"
    table = Table(area, root, fixed={"domain": TopicDomain.TOPIC.value})
    table.add("GET", "", list_topics, NAMESPACE_READ, priority=P0, query=FILTER)
    initial = (Query("numInitialSegments", int, 1),)
    table.add(
        "PUT", ONE, create_topic, NAMESPACE_ADMIN, priority=P0, body=_PROPERTIES, query=initial
    )
    table.add("GET", ONE, get_metadata, TOPIC_READ, priority=P0)
    table.add("DELETE", ONE, delete_topic, NAMESPACE_ADMIN, priority=P0, query=FORCE)
    for verb in ("migrate", "migrate-to-scalable"):
        table.add(
            "POST",
            f"{ONE}/{verb}",
            migrate_topic,
            TOPIC_PRODUCE,
            priority=P0,
            query=(*FORCE, *SEGMENTS),
            operation=verb,
        )
    table.add("GET", f"{ONE}/migration-check", check_migration, TOPIC_PRODUCE, query=SEGMENTS)
    table.add("GET", f"{ONE}/properties", get_properties, TOPIC_READ)
    table.add("PUT", f"{ONE}/properties", set_properties, TOPIC_ADMIN, body=_PROPERTIES)
    table.add("GET", f"{ONE}/history", get_history, TOPIC_READ)
    table.add("GET", f"{ONE}/policy", get_policy, TOPIC_READ)
    table.add("GET", f"{ONE}/stats", get_stats, TOPIC_READ, priority=P0)
    table.add("GET", f"{ONE}/segments", get_segments, TOPIC_READ)
    table.add("GET", SEGMENT, get_segment, TOPIC_READ)
    table.add("GET", f"{SEGMENT}/internalStats", get_segment_log, TOPIC_READ)
    sequence = (Query("producer", str),)
    table.add("GET", f"{SEGMENT}/lastSequenceId", get_last_sequence, TOPIC_PRODUCE, query=sequence)
    table.add("GET", f"{ONE}/load", get_load, TOPIC_READ)
    table.add("GET", f"{ONE}/explain", explain, TOPIC_READ)
    table.add("GET", f"{ONE}/decisions", get_decisions, TOPIC_READ)
    peek = f"{SEGMENT}/subscriptions/{{subscription}}/position/{{number}}"
    table.add("GET", peek, peek_message, TOPIC_CONSUME, produces=BYTES)
    analyze = f"{SEGMENT}/subscriptions/{{subscription}}/analyzeBacklog"
    most = (Query("entriesMax", int),)
    table.add("POST", analyze, analyze_backlog, TOPIC_CONSUME, status=200, query=most)
    split = f"{ONE}/split/{{segment}}"
    table.add("POST", split, split_segment, SUPER_USER, priority=P0, query=(Query("at", str),))
    table.add("POST", f"{ONE}/merge/{{left}}/{{right}}", merge_segments, SUPER_USER, priority=P0)
    scale = (Query("segments", int), Query("holdUntil", int))
    table.add("POST", f"{ONE}/scale", scale_topic, SUPER_USER, query=scale)
    table.add("POST", f"{ONE}/prune", prune_segments, SUPER_USER, status=200)
    table.add("GET", f"{ONE}/subscriptions", list_subscriptions, TOPIC_CONSUME)
    table.add("GET", SUBSCRIPTION, get_subscription, TOPIC_CONSUME)
    kind = (Query("type", str, "STREAM"),)
    table.add("PUT", SUBSCRIPTION, create_subscription, TOPIC_CONSUME, priority=P0, query=kind)
    table.add("DELETE", SUBSCRIPTION, delete_subscription, TOPIC_CONSUME, priority=P0, query=FORCE)
    time = (Query("timestamp", int),)
    table.add(
        "POST", f"{SUBSCRIPTION}/seek", seek_subscription, TOPIC_CONSUME, priority=P0, query=time
    )
    table.add("POST", f"{SUBSCRIPTION}/skip-all", clear_backlog, TOPIC_CONSUME, priority=P0)
    table.add("POST", f"{SUBSCRIPTION}/expireMessages/{{seconds}}", expire_messages, TOPIC_CONSUME)
    policy = f"{ONE}/autoScalePolicy"
    table.add("GET", policy, get_auto_scale_policy, TOPIC_POLICY)
    table.add("POST", policy, set_auto_scale_policy, TOPIC_POLICY, body=_OVERRIDE)
    table.add("DELETE", policy, remove_auto_scale_policy, TOPIC_POLICY)
    return table


TABLE: Final = _make_table("scalable", "scalable")
SPELLED_OUT_TABLE: Final = _make_table("scalable_topics", "scalable-topics")

LIST_TABLE: Final = Table("scalable_list", "/admin/v2/topic/{tenant}/{namespace}")
LIST_TABLE.add("GET", "", list_topics, NAMESPACE_READ, query=FILTER)

NAMESPACE_TABLE: Final = Table(
    "scalable_namespaces",
    "/admin/v2/namespaces/{tenant}/{namespace}/scalableTopicAutoScalePolicy",
)
NAMESPACE_TABLE.add("GET", "", get_namespace_auto_scale_policy, NAMESPACE_ADMIN)
NAMESPACE_TABLE.add("POST", "", set_namespace_auto_scale_policy, NAMESPACE_ADMIN, body=_OVERRIDE)
NAMESPACE_TABLE.add("DELETE", "", remove_namespace_auto_scale_policy, NAMESPACE_ADMIN)

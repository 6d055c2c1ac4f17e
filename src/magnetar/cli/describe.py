"""`magnetar admin topics describe`: a topic of any kind on one screen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from magnetar import AdminError
from magnetar.cli.command import Options
from magnetar.cli.lineage import format_lineage
from magnetar.cli.output import format_result
from magnetar.cli.quantity import format_bytes, format_lag, format_rate
from magnetar.model.name import TopicDomain, parse_topic
from magnetar.model.segment import scalable_name

_LISTED_MAX: Final = 8
"""Producers and policies that are shown by name."""
_UNDECIDED: Final = "none yet"
"""The first consumer decides the type of a subscription."""


def describe(admin: Any, options: Options) -> Any:
    found = _load(admin, options.topic)
    return found if options.output == "json" else format_topic(found)


def _load(admin: Any, topic: str) -> dict[str, Any]:
    described = _load_kind(admin, topic)
    return described | {
        "schema": _load_schema(admin, described["topic"]),
        "policies": _load_policies(admin, described["topic"]),
    }


def _load_kind(admin: Any, topic: str) -> dict[str, Any]:
    """A name without a domain is that of a scalable topic, if there is one."""
    if parse_topic(topic).domain is TopicDomain.TOPIC:
        return _load_scalable(admin, topic)
    if "://" not in topic:
        try:
            return _load_scalable(admin, topic)
        except AdminError:
            pass
    return _load_regular(admin, topic)


def _load_regular(admin: Any, topic: str) -> dict[str, Any]:
    partitions = admin.topics.partitioned_metadata(topic)["partitions"]
    load = admin.topics.partitioned_stats if partitions else admin.topics.stats
    kind = "partitioned" if partitions else "regular"
    shown = {"topic": parse_topic(topic).full, "kind": kind, "partitions": partitions}
    return {**shown, "stats": load(topic)}


def _load_scalable(admin: Any, topic: str) -> dict[str, Any]:
    stats = admin.scalable_topics.stats(topic)
    name = scalable_name(parse_topic(topic)).full
    metadata = admin.scalable_topics.metadata(topic)
    return {"topic": name, "kind": "scalable", "stats": stats, "metadata": metadata}


def _load_schema(admin: Any, topic: str) -> Any:
    try:
        return admin.schemas.get(topic)
    except AdminError:  # none, or not for this caller
        return None


def _load_policies(admin: Any, topic: str) -> list[dict[str, Any]]:
    """What is set for the topic or its namespace; what the broker does by itself is left out."""
    try:
        found = admin.topics.policy_origins(topic)
    except AdminError:  # not for this caller, or the console is switched off
        return []
    return [each for each in found if each["source"] != "broker"]


def format_topic(found: Mapping[str, Any]) -> str:
    stats = found["stats"]
    if found["kind"] == "scalable":
        head, rates = format_lineage(found["topic"], found["metadata"]), _sum_segments(stats)
        subscriptions = _scalable_subscriptions(stats)
    else:
        count = found["partitions"]
        kind = f"{count} partitions" if count else "regular, without partitions"
        head, rates = f"{found['topic']}  {kind}", stats
        subscriptions = _regular_subscriptions(stats)
    parts = [head, "\n".join(_facts(found, rates))]
    if subscriptions:
        parts.append(format_result(subscriptions, "table"))
    return "\n\n".join(parts)


def _facts(found: Mapping[str, Any], rates: Mapping[str, Any]) -> Iterator[str]:
    stats = found["stats"]
    yield "in          " + _flow(rates["msgRateIn"], rates["msgThroughputIn"])
    yield "out         " + _flow(rates["msgRateOut"], rates["msgThroughputOut"])
    yield "stored      " + format_bytes(rates["storageSize"])
    if producers := stats.get("publishers"):
        names = [each.get("producerName", "?") for each in producers]
        yield f"producers   {len(producers)}: {_some(names)}"
    elif (count := rates.get("producerCount")) is not None:
        yield f"producers   {count}"
    else:
        yield "producers   none"
    yield "schema      " + _describe_schema(found["schema"])
    policies = [f"{each['name']} ({each['source']})" for each in found["policies"]]
    yield "policies    " + (_some(policies) or "those of the broker")


def _flow(messages: float, size: float) -> str:
    return f"{format_rate(messages)} messages/s, {format_bytes(size)}/s"


def _some(names: Sequence[str]) -> str:
    more = len(names) - _LISTED_MAX
    return ", ".join(names[:_LISTED_MAX]) + (f" and {more} more" if more > 0 else "")


def _describe_schema(schema: Mapping[str, Any] | None) -> str:
    if schema is None:
        return "none"
    return f"{schema['type']}, version {schema['version']}"


def _sum_segments(stats: Mapping[str, Any]) -> dict[str, Any]:
    names = {
        "msgRateIn": "msgRateIn",
        "msgRateOut": "msgRateOut",
        "msgThroughputIn": "bytesRateIn",
        "msgThroughputOut": "bytesRateOut",
        "storageSize": "storageSize",
        "producerCount": "producerCount",
    }
    segments = stats["segments"].values()
    return {name: sum(each.get(key, 0) for each in segments) for name, key in names.items()}


def _scalable_subscriptions(stats: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "subscription": name,
            "type": each["type"],
            "consumers": each["consumerCount"],
            "lag in messages": format_lag(each),
        }
        for name, each in stats["subscriptions"].items()
    ]


def _regular_subscriptions(stats: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "subscription": name,
            "type": _UNDECIDED if each.get("type") == "None" else each.get("type", ""),
            "consumers": len(each.get("consumers", ())),
            "lag in messages": format_lag(each),
            "unacknowledged": each["unackedMessages"],
            "messages/s": each["msgRateOut"],
        }
        for name, each in stats["subscriptions"].items()
    ]

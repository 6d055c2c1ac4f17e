"""What `magnetar admin scalable-topics` does beside a single call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from magnetar.cli.command import Options, UsageError
from magnetar.cli.derive import Own
from magnetar.cli.lineage import format_lineage
from magnetar.cli.migration import format_rehearsal, migrate
from magnetar.cli.moment import format_time
from magnetar.cli.policy import build_value, policy_arguments
from magnetar.cli.quantity import format_lag
from magnetar.cli.value import join
from magnetar.model.name import parse_topic
from magnetar.model.segment import scalable_name
from magnetar.operation.policy_table import AUTO_SCALE


def _describe(admin: Any, options: Options) -> Any:
    metadata = admin.scalable_topics.metadata(options.topic)
    if options.output == "json":
        return metadata
    return format_lineage(scalable_name(parse_topic(options.topic)).full, metadata)


def _show_segments(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "segment": int(number),
            "hashes": each["hashRange"],
            "state": f"{each['state']}{', missing' if each.get('isMissing') else ''}",
            "msg/s in": each["msgRateIn"],
            "msg/s out": each["msgRateOut"],
            "bytes": each.get("storageSize", 0),
            "lag in messages": ", ".join(
                f"{name} {format_lag(count)}" for name, count in each["subscriptions"].items()
            ),
        }
        for number, each in found.items()
    ]


def _show_load(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"segment": int(number), **each} for number, each in found.items()]


def _show_reasons(found: Mapping[str, Any]) -> str:
    waiting = [
        f"{name}: {sentence}"
        for name, sentences in found["subscriptions"].items()
        for sentence in sentences
    ]
    return "\n".join([*found["scaling"], *waiting])


def _show_decisions(found: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            "time": format_time(each["atMs"]),
            "times": each.get("times", 1),
            "because": each["trigger"],
            "segments": each["activeSegments"],
            "consumers": each["consumers"],
            "decision": " ".join([each["decision"], *map(str, each.get("segments", ()))]),
            "reason": each.get("failure", each["reason"]),
            "held by": ", ".join(each["heldBy"]),
        }
        for each in found
    ]


def _properties(admin: Any, options: Options) -> dict[str, str]:
    if not options.property and not options.clear:
        raise UsageError("magnetar: give --property, or --clear to remove all")
    kept = {} if options.clear else admin.scalable_topics.properties(options.topic)
    return {**kept, **dict(join(options.property))}


# Subscriptions
def _show_subscriptions(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "subscription": name,
            "type": each["type"],
            "lag in messages": format_lag(each),
            "entries": each["msgBacklog"],
        }
        for name, each in found.items()
    ]


OWN: Final[Mapping[str, Own]] = {
    "scalable_topics.describe": Own(_describe),
    "scalable_topics.segments": Own(show=_show_segments),
    "scalable_topics.load": Own(show=_show_load),
    "scalable_topics.explain": Own(show=_show_reasons),
    "scalable_topics.decisions": Own(show=_show_decisions),
    "scalable_topics.set_properties": Own(build=_properties),
    "scalable_topics.set_auto_scale_policy": Own(
        build=lambda a, o: build_value(AUTO_SCALE, o), arguments=tuple(policy_arguments(AUTO_SCALE))
    ),
    "scalable_topics.subscriptions": Own(show=_show_subscriptions),
    "scalable_topics.migrate": Own(migrate),
    "scalable_topics.migration_check": Own(show=format_rehearsal),
}

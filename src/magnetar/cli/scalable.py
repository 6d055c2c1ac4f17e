"""`magnetar admin scalable-topics`: the topic, its layout, its numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from magnetar.cli.command import NAMESPACE, Argument, Flag, Options, Switch, UsageError, Verb
from magnetar.cli.lineage import format_lineage
from magnetar.cli.moment import format_time, parse_moment_ms
from magnetar.cli.policy import build_value, policy_parts
from magnetar.cli.value import join, parse_hash, parse_pairs
from magnetar.model.name import parse_topic
from magnetar.model.segment import scalable_name
from magnetar.operation.policy_table import AUTO_SCALE

TOPIC: Final = Argument("topic", "topic://tenant/namespace/topic, or without topic://")
_PROPERTIES: Final = Flag(
    ("-p", "--property", "--properties"),
    "a property, or several with commas; may be given again",
    parse=parse_pairs,
    many=True,
    variable="KEY=VALUE",
)
_SEGMENT: Final = Flag(("-s", "--segment-id"), "id of the segment", parse=int, required=True)


def _properties(options: Options) -> dict[str, str]:
    return dict(join(options.property))


def _describe(admin: Any, options: Options) -> Any:
    metadata = admin.scalable_topics.metadata(options.topic)
    if options.output == "json":
        return metadata
    return format_lineage(scalable_name(parse_topic(options.topic)).full, metadata)


def _update_properties(admin: Any, options: Options) -> None:
    if not options.property and not options.clear:
        raise UsageError("magnetar: give --property, or --clear to remove all")
    properties = {} if options.clear else admin.scalable_topics.properties(options.topic)
    admin.scalable_topics.set_properties(options.topic, {**properties, **_properties(options)})


def _rows(found: Mapping[str, Mapping[str, Any]], options: Options) -> Any:
    """As a table, one line for each segment."""
    if options.output == "json":
        return found
    return [{"segment": int(number), **each} for number, each in found.items()]


def _segments(admin: Any, options: Options) -> Any:
    found = admin.scalable_topics.segments(options.topic)
    if options.output == "json":
        return found
    return [
        {
            "segment": int(number),
            "hashes": each["hashRange"],
            "state": f"{each['state']}{', missing' if each.get('isMissing') else ''}",
            "msg/s in": each["msgRateIn"],
            "msg/s out": each["msgRateOut"],
            "bytes": each.get("storageSize", 0),
            "backlog in entries": ", ".join(
                f"{name} {count['msgBacklog']}" for name, count in each["subscriptions"].items()
            ),
        }
        for number, each in found.items()
    ]


def _explain(admin: Any, options: Options) -> Any:
    found = admin.scalable_topics.explain(options.topic)
    if options.output == "json":
        return found
    waiting = [
        f"{name}: {sentence}"
        for name, sentences in found["subscriptions"].items()
        for sentence in sentences
    ]
    return "\n".join([*found["scaling"], *waiting])


def _decisions(admin: Any, options: Options) -> Any:
    found = admin.scalable_topics.decisions(options.topic)
    if options.output == "json":
        return found
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


def _scale(admin: Any, options: Options) -> None:
    until_ms = parse_moment_ms(options.hold_until) if options.hold_until else None
    admin.scalable_topics.scale(options.topic, options.segments, hold_until_ms=until_ms)


VERBS: Final = (
    Verb(
        "list",
        "list the scalable topics of a namespace",
        (NAMESPACE, _PROPERTIES),
        lambda a, o: a.scalable_topics.list(o.namespace, properties=_properties(o)),
    ),
    Verb(
        "create",
        "add a scalable topic",
        (
            TOPIC,
            Flag(("-s", "--segments"), "how many it begins with (1)", parse=int, default=1),
            _PROPERTIES,
        ),
        lambda a, o: a.scalable_topics.create(
            o.topic, segments=o.segments, properties=_properties(o)
        ),
        shows=False,
    ),
    Verb(
        "describe",
        "draw the segments as a tree, parents above what came out of them",
        (TOPIC,),
        _describe,
    ),
    Verb(
        "get-metadata",
        "show the stored record of a topic",
        (TOPIC,),
        lambda a, o: a.scalable_topics.metadata(o.topic),
    ),
    Verb(
        "stats",
        "show what a topic does: segments, rates, subscriptions, backlog",
        (TOPIC,),
        lambda a, o: a.scalable_topics.stats(o.topic),
    ),
    Verb(
        "segments",
        "list the segments with rates and backlog",
        (TOPIC,),
        _segments,
    ),
    Verb(
        "segment-stats",
        "show what one segment does",
        (TOPIC, _SEGMENT),
        lambda a, o: a.scalable_topics.segment_stats(o.topic, o.segment_id),
    ),
    Verb(
        "load",
        "show what each active segment carries",
        (TOPIC,),
        lambda a, o: _rows(a.scalable_topics.load(o.topic), o),
    ),
    Verb(
        "history",
        "list the latest changes of the layout",
        (TOPIC,),
        lambda a, o: a.scalable_topics.history(o.topic),
    ),
    Verb(
        "explain",
        "say why a topic does or does not split or merge, and which consumers wait for what",
        (TOPIC,),
        _explain,
    ),
    Verb(
        "decisions",
        "list what a topic decided about scaling itself, lately",
        (TOPIC,),
        _decisions,
    ),
    Verb(
        "delete",
        "delete a topic with its segments",
        (TOPIC, Switch(("-f", "--force"), "even with subscriptions or clients")),
        lambda a, o: a.scalable_topics.delete(o.topic, force=o.force),
        shows=False,
    ),
    Verb(
        "split-segment",
        "split a segment in two",
        (
            TOPIC,
            _SEGMENT,
            Flag(("--at",), "first hash of the upper half, such as 0x6000", parse=parse_hash),
        ),
        lambda a, o: a.scalable_topics.split(o.topic, o.segment_id, at=o.at),
        shows=False,
    ),
    Verb(
        "merge-segments",
        "merge two neighbours",
        (
            TOPIC,
            Flag(("--segment-id-1",), "id of one", parse=int, required=True),
            Flag(("--segment-id-2",), "id of the other", parse=int, required=True),
        ),
        lambda a, o: a.scalable_topics.merge(o.topic, o.segment_id_1, o.segment_id_2),
        shows=False,
    ),
    Verb(
        "scale",
        "split or merge until there are so many active segments",
        (
            TOPIC,
            Flag(("-s", "--segments"), "how many", parse=int, required=True),
            Flag(
                ("--hold-until",),
                "have no fewer till then: 18:00, 2027-01-31T18:00, or for a time such as +3h",
                variable="TIME",
            ),
        ),
        _scale,
        shows=False,
    ),
    Verb(
        "prune",
        "remove sealed segments that are drained and no longer retained; prints their ids",
        (TOPIC,),
        lambda a, o: a.scalable_topics.prune(o.topic),
    ),
    Verb(
        "get-properties",
        "show the properties of a topic",
        (TOPIC,),
        lambda a, o: a.scalable_topics.properties(o.topic),
    ),
    Verb(
        "update-properties",
        "set properties of a topic",
        (TOPIC, _PROPERTIES, Switch(("-c", "--clear"), "remove those that are not given")),
        _update_properties,
        shows=False,
    ),
    Verb(
        "get-policy",
        "show what is in force, and where it was set",
        (TOPIC,),
        lambda a, o: a.scalable_topics.policy(o.topic),
    ),
    Verb(
        "get-auto-scale-policy",
        "show what the topic sets about scaling itself",
        (TOPIC,),
        lambda a, o: a.scalable_topics.auto_scale_policy(o.topic),
    ),
    Verb(
        "set-auto-scale-policy",
        "replace what the topic sets about scaling itself",
        (TOPIC, *policy_parts(AUTO_SCALE)),
        lambda a, o: a.scalable_topics.set_auto_scale_policy(o.topic, build_value(AUTO_SCALE, o)),
        shows=False,
    ),
    Verb(
        "remove-auto-scale-policy",
        "let the topic scale itself as its namespace says",
        (TOPIC,),
        lambda a, o: a.scalable_topics.remove_auto_scale_policy(o.topic),
        shows=False,
    ),
)

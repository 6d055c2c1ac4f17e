"""Scalable topics, below both spellings of their path.

`/admin/v2/scalable` is what Pulsar's tools call, `/admin/v2/scalable-topics` what the proposal
says. A topic's name is one component, form-encoded like that of a regular topic.
"""

from __future__ import annotations

from typing import Final

from magnetar.model.answer.log import LogStats
from magnetar.model.answer.record import AutoScaleAnswer
from magnetar.model.answer.scalable import (
    MeasuredLoad,
    MigrationCheck,
    PastLayoutChange,
    ScalableExplanation,
    ScalableMetadata,
    ScalablePolicy,
    ScalableTopicStats,
    ScaleDecisionAnswer,
    SegmentAnswer,
    SegmentTopicStats,
)
from magnetar.model.name import TopicDomain
from magnetar.model.permission import (
    NAMESPACE_ADMIN,
    NAMESPACE_READ,
    SUPER_USER,
    TOPIC_ADMIN,
    TOPIC_POLICY,
    TOPIC_PRODUCE,
    TOPIC_READ,
)
from magnetar.operation.row import (
    FORCE,
    NAMESPACE,
    REQUIRED,
    Answer,
    Form,
    Kind,
    Parameter,
    Reader,
    Result,
    Table,
    Verb,
    body,
    local,
    path,
    query,
)

_NAMESPACE: Final = "/{tenant}/{namespace}"


def make_table(topic: str) -> Table:
    return Table(
        "scalable_topics",
        f"/admin/v2/scalable{_NAMESPACE}/{{topic}}",
        path("topic", topic),
        for_owner=True,
        domain=TopicDomain.TOPIC,
        roots=(f"/admin/v2/scalable-topics{_NAMESPACE}/{{topic}}",),
    )


def _properties(parameter: Parameter) -> Parameter:
    return parameter.asked(
        "a property, or several with commas; may be given again",
        "-p",
        "--property",
        "--properties",
        reader=Reader.PAIRS,
        many=True,
        variable="KEY=VALUE",
    )


TOPIC: Final = "topic://tenant/namespace/topic, or without topic://"
NAMESPACE_TABLE: Final = Table("scalable_topics", "/admin/v2", NAMESPACE)
TABLE: Final = make_table(TOPIC)
MIGRATION_TABLE: Final = make_table("persistent://tenant/namespace/topic, or without persistent://")

SEGMENT: Final = path("segment", "id of the segment", "-s", "--segment-id", kind=Kind.NUMBER)
_ONE_SEGMENT: Final = TABLE.below("/segments/{segment}", SEGMENT)
_OVERRIDE: Final = body("override", Kind.DOCUMENT, missing="An auto-scale policy is needed")

# Of a namespace
# The client sets it by its name, like all policies of a namespace.
_NAMESPACE_POLICY: Final = f"/namespaces{_NAMESPACE}/scalableTopicAutoScalePolicy"

NAMESPACE_TABLE.add(
    "list",
    f"GET /scalable{_NAMESPACE}",
    NAMESPACE_READ,
    "Scalable topics of a namespace, or those that have all the given properties.",
    _properties(Parameter("properties", Kind.PROPERTIES, wire="property")),
    result=Result.NAMES,
    cli=Verb("list", "list the scalable topics of a namespace"),
    also=(f"/scalable-topics{_NAMESPACE}", f"/topic{_NAMESPACE}"),
)
NAMESPACE_TABLE.add(
    "namespace_auto_scale_policy",
    f"GET {_NAMESPACE_POLICY}",
    NAMESPACE_ADMIN,
    "What a namespace sets about topics that scale themselves; None when nothing.",
    result=Answer(AutoScaleAnswer, Form.MAYBE),
    is_written=True,
)
NAMESPACE_TABLE.add(
    "set_namespace_auto_scale_policy",
    f"POST {_NAMESPACE_POLICY}",
    NAMESPACE_ADMIN,
    "Replace what a namespace sets about topics that scale themselves.",
    _OVERRIDE,
    is_written=True,
)
NAMESPACE_TABLE.add(
    "remove_namespace_auto_scale_policy",
    f"DELETE {_NAMESPACE_POLICY}",
    NAMESPACE_ADMIN,
    "Let topics of a namespace scale themselves as the broker's configuration says.",
    is_written=True,
)

# The topic
TABLE.add(
    "create",
    "PUT",
    NAMESPACE_ADMIN,
    "Make a scalable topic of some segments, with properties.",
    Parameter("segments", Kind.NUMBER, wire="numInitialSegments", default=1).asked(
        "how many it begins with (1)", "-s", "--segments"
    ),
    _properties(body("properties", Kind.PROPERTIES, None)),
    cli=Verb("create", "add a scalable topic"),
)
TABLE.compose(
    "describe",
    "The segments drawn as a tree.",
    result=Result.ANY,
    cli=Verb("describe", "draw the segments as a tree, parents above what came out of them"),
)
TABLE.add(
    "metadata",
    "GET",
    TOPIC_READ,
    "The stored record: layout, properties, policy, the change under way and the past ones.",
    result=Answer(ScalableMetadata),
    cli=Verb("get-metadata", "show the stored record of a topic"),
)

# Numbers
TABLE.add(
    "stats",
    "GET /stats",
    TOPIC_READ,
    "What the topic does: segments with rates, subscriptions with backlog and consumers.",
    result=Answer(ScalableTopicStats),
    cli=Verb("stats", "show what a topic does: segments, rates, subscriptions, backlog"),
)
TABLE.add(
    "segments",
    "GET /segments",
    TOPIC_READ,
    "Every segment with its rates and the backlog of each subscription, by id.",
    result=Answer(SegmentAnswer, Form.BY_NAME),
    cli=Verb("segments", "list the segments with rates and backlog"),
)
_ONE_SEGMENT.add(
    "segment_stats",
    "GET",
    TOPIC_READ,
    "One segment, with all that a regular topic's stats tell.",
    result=Answer(SegmentTopicStats),
    cli=Verb("segment-stats", "show what one segment does"),
)
_ONE_SEGMENT.add(
    "segment_internal_stats",
    "GET /internalStats",
    TOPIC_READ,
    "The log behind one segment: ledgers and cursors.",
    result=Answer(LogStats),
)
_ONE_SEGMENT.add(
    "last_sequence_id",
    "GET /lastSequenceId",
    TOPIC_PRODUCE,
    "The highest sequence id that a segment, sealed or not, has of a producer; -1 for none.",
    Parameter("producer", default=REQUIRED, missing="producer is needed: its name"),
    result=Result.NUMBER,
)
TABLE.add(
    "last_sequence_ids",
    "GET /lastSequenceIds",
    TOPIC_PRODUCE,
    "The highest sequence id that each segment, sealed or not, has of a scalable producer.\n\n"
    "Such a producer is named `{producer}-seg-{segment}` on a segment. With `segments`, only\n"
    "those are asked.",
    Parameter("producer", default=REQUIRED, missing="producer is needed: its name"),
    query("segments", Kind.NAMES),
    result=Result.COUNTS,
)
TABLE.add(
    "load",
    "GET /load",
    TOPIC_READ,
    "What each active segment carries.",
    result=Answer(MeasuredLoad, Form.BY_NAME),
    cli=Verb("load", "show what each active segment carries"),
)
TABLE.add(
    "history",
    "GET /history",
    TOPIC_READ,
    "The latest changes of the layout, oldest first.",
    result=Answer(PastLayoutChange, Form.LIST),
    cli=Verb("history", "list the latest changes of the layout"),
)
TABLE.add(
    "explain",
    "GET /explain",
    TOPIC_READ,
    "Why the topic splits, merges or stays; for each subscription, what waits for what.",
    result=Answer(ScalableExplanation),
    cli=Verb(
        "explain",
        "say why a topic does or does not split or merge, and which consumers wait for what",
    ),
)
TABLE.add(
    "decisions",
    "GET /decisions",
    TOPIC_READ,
    "What the topic decided about scaling itself, lately; oldest first.",
    result=Answer(ScaleDecisionAnswer, Form.LIST),
    cli=Verb("decisions", "list what a topic decided about scaling itself, lately"),
)

# The layout
TABLE.add(
    "delete",
    "DELETE",
    NAMESPACE_ADMIN,
    "Delete a topic with all its segments; one that is in use only when forced.",
    FORCE.asked("even with subscriptions or clients", "-f", "--force"),
    cli=Verb("delete", "delete a topic with its segments"),
)
TABLE.add(
    "split",
    "POST /split/{segment}",
    SUPER_USER,
    "Split a segment in its middle, or so that `at` is the first hash of the upper half.",
    SEGMENT,
    query("at", Kind.NUMBER).asked(
        "first hash of the upper half, such as 0x6000", "--at", reader=Reader.HASH
    ),
    cli=Verb("split-segment", "split a segment in two"),
)
TABLE.add(
    "merge",
    "POST /merge/{left}/{right}",
    SUPER_USER,
    "Merge two neighbours, in either order.",
    path("left", "id of one", "--segment-id-1", kind=Kind.NUMBER),
    path("right", "id of the other", "--segment-id-2", kind=Kind.NUMBER),
    cli=Verb("merge-segments", "merge two neighbours"),
)
TABLE.add(
    "scale",
    "POST /scale",
    SUPER_USER,
    "Split or merge until there are so many active segments, and no fewer till some time.",
    Parameter(
        "segments",
        Kind.NUMBER,
        default=REQUIRED,
        missing="segments is needed: how many active segments there shall be",
    ).asked("how many", "-s", "--segments"),
    Parameter("hold_until_ms", Kind.NUMBER, wire="holdUntil").asked(
        "have no fewer till then: 18:00, 2027-01-31T18:00, or for a time such as +3h",
        "--hold-until",
        reader=Reader.MOMENT_MS,
        variable="TIME",
    ),
    cli=Verb("scale", "split or merge until there are so many active segments"),
)
TABLE.add(
    "prune",
    "POST /prune",
    SUPER_USER,
    "Remove sealed segments that are drained and no longer retained; their ids.",
    result=Result.IDS,
    status=200,
    cli=Verb(
        "prune", "remove sealed segments that are drained and no longer retained; prints their ids"
    ),
)

# What is set
TABLE.add(
    "properties",
    "GET /properties",
    TOPIC_READ,
    "The topic's properties.",
    result=Result.PROPERTIES,
    cli=Verb("get-properties", "show the properties of a topic"),
)
TABLE.add(
    "set_properties",
    "PUT /properties",
    TOPIC_ADMIN,
    "Replace the topic's properties: what is not named goes.",
    body("properties", Kind.PROPERTIES),
    _properties(local("property", Kind.PROPERTIES)),
    local("clear", Kind.FLAG).asked("remove those that are not given", "-c", "--clear"),
    cli=Verb("update-properties", "set properties of a topic"),
)
TABLE.add(
    "policy",
    "GET /policy",
    TOPIC_READ,
    "What is in force for the topic, and where each value of its scaling was set.",
    result=Answer(ScalablePolicy),
    cli=Verb("get-policy", "show what is in force, and where it was set"),
)
TABLE.add(
    "auto_scale_policy",
    "GET /autoScalePolicy",
    TOPIC_POLICY,
    "What the topic sets about scaling itself; None when nothing.",
    result=Answer(AutoScaleAnswer, Form.MAYBE),
    cli=Verb("get-auto-scale-policy", "show what the topic sets about scaling itself"),
)
TABLE.add(
    "set_auto_scale_policy",
    "POST /autoScalePolicy",
    TOPIC_POLICY,
    "Replace what the topic sets about scaling itself.",
    _OVERRIDE,
    cli=Verb("set-auto-scale-policy", "replace what the topic sets about scaling itself"),
)
TABLE.add(
    "remove_auto_scale_policy",
    "DELETE /autoScalePolicy",
    TOPIC_POLICY,
    "Let the topic scale itself as its namespace says.",
    cli=Verb("remove-auto-scale-policy", "let the topic scale itself as its namespace says"),
)

# What a regular topic becomes
_SEGMENTS: Final = query("segments", Kind.NUMBER).asked(
    "segments for new messages (as many as partitions, or as a client can take)",
    "-s",
    "--segments",
)
_FORCE: Final = FORCE.asked("even with v4 clients attached, which are locked out", "-f", "--force")

MIGRATION_TABLE.add(
    "migrate_to_scalable",
    "POST /migrate",
    TOPIC_PRODUCE,
    "Make a regular topic scalable, for ever; `force` locks out clients that cannot follow.\n\n"
    "It gets as many segments as it has partitions, or as a client can take, or `segments`.",
    _FORCE,
    _SEGMENTS,
    also=("/migrate-to-scalable",),
)
MIGRATION_TABLE.compose(
    "migrate",
    "Make a regular topic scalable, or say what that would do, or wait until all is read.",
    _SEGMENTS,
    _FORCE,
    local("dry_run", Kind.FLAG).asked(
        "say what would be done and what is in the way", "-n", "--dry-run"
    ),
    local("wait", Kind.FLAG).asked(
        "follow until everything of the regular topic is read", "-w", "--wait"
    ),
    result=Result.TEXT,
    cli=Verb(
        "migrate-to-scalable", "make a regular topic scalable; there is no way back", ("migrate",)
    ),
)
MIGRATION_TABLE.add(
    "migration_check",
    "GET /migration-check",
    TOPIC_PRODUCE,
    "What making a regular topic scalable would do, and what is in its way.",
    _SEGMENTS,
    result=Answer(MigrationCheck),
    cli=Verb("migration-check", "say what migrating would do and what is in the way"),
)

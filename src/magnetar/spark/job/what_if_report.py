"""What a what-if leaves behind: the recommended policy, all verdicts, pictures, one page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from magnetar.model.autoscale import FIELDS, AutoScalePolicy
from magnetar.spark.job.chart import COLOURS, Curve, Point, draw_curves, draw_points
from magnetar.spark.job.folder import Folder
from magnetar.spark.job.grid import format_policy
from magnetar.spark.job.page import (
    format_code,
    format_heading,
    format_page,
    format_paragraph,
    format_table,
)
from magnetar.spark.job.what_if import Price, Timeline, Verdict

_ROWS_MAX: Final = 200
_POINTS_MAX: Final = 1500
_NAMES: Final = (
    "policy",
    "differs in",
    "splits",
    "merges",
    "overloaded h",
    "segment h",
    "flaps",
    "most segments",
    "cost",
)


def describe_difference(policy: AutoScalePolicy, base: AutoScalePolicy) -> str:
    """Fields that differ, with their values."""
    changed = [name for name in FIELDS if getattr(policy, name) != getattr(base, name)]
    return ", ".join(f"{name}={getattr(policy, name):g}" for name in changed) or "in force"


def format_verdict(verdict: Verdict, price: Price) -> dict[str, Any]:
    return {
        "policy": verdict.number,
        "splits": verdict.splits,
        "merges": verdict.merges,
        "overloadedHours": round(verdict.overloaded_hours, 3),
        "segmentHours": round(verdict.segment_hours, 3),
        "flaps": verdict.flaps,
        "segmentsMost": verdict.segments_most,
        "topics": verdict.topics,
        "topicDays": round(verdict.days, 3),
        "cost": round(verdict.cost(price), 3),
        "values": format_policy(verdict.policy),
    }


def write_report(
    output: Folder, verdicts: Sequence[Verdict], chosen: Verdict, timeline: Timeline, price: Price
) -> Mapping[str, str]:
    """Where things are, by what they are."""
    base = verdicts[0]
    plane, curves = draw_plane(verdicts, chosen, base), draw_topic(timeline, chosen)
    values = json.dumps(format_policy(chosen.policy), indent=2)
    told = [format_verdict(each, price) for each in verdicts]
    page = _format_page(verdicts, chosen, base, price, plane, curves, values)
    return {
        "recommended": output.write("recommended.json", values + "\n"),
        "verdicts": output.write("verdicts.json", json.dumps(told, indent=1) + "\n"),
        "policies": output.write("policies.svg", plane),
        "topic": output.write("topic.svg", curves),
        "page": output.write("report.html", page),
    }


def draw_plane(verdicts: Sequence[Verdict], chosen: Verdict, base: Verdict) -> str:
    """Every policy by what it costs and what it spares; those at the lower left are best."""
    points = [
        Point(
            each.segment_hours,
            each.overloaded_hours,
            hint=f"{each.number}: {describe_difference(each.policy, base.policy)}",
        )
        for each in verdicts
    ]
    named = [(base, "in force", COLOURS[1])]
    if chosen.number != base.number:
        named.append((chosen, f"recommended ({chosen.number})", COLOURS[2]))
    points += [
        Point(each.segment_hours, each.overloaded_hours, label, label, colour, 7)
        for each, label, colour in named
    ]
    return draw_points(
        f"{len(verdicts)} policies over {base.days:,.0f} topic-days of load",
        "segment-hours",
        "hours with an overloaded segment",
        points,
    )


def draw_topic(timeline: Timeline, chosen: Verdict) -> str:
    """The load of one topic, and its segments under the policy in force and the chosen one."""
    every = max(1, len(timeline.hours) // _POINTS_MAX)
    curves = [Curve("messages/s in", timeline.rate_in_per_s[::every])]
    for number, values in timeline.segments.items():
        name = "recommended" if number == chosen.number and number else "in force"
        curves.append(Curve(f"segments, policy {number} ({name})", values[::every], True))
    return draw_curves(timeline.topic, "hours", timeline.hours[::every], curves)


def _format_page(
    verdicts: Sequence[Verdict],
    chosen: Verdict,
    base: Verdict,
    price: Price,
    plane: str,
    curves: str,
    values: str,
) -> str:
    ranked = sorted(verdicts, key=lambda each: (each.cost(price), each.number))[:_ROWS_MAX]
    rows = [
        (
            each.number,
            describe_difference(each.policy, base.policy),
            each.splits,
            each.merges,
            each.overloaded_hours,
            each.segment_hours,
            each.flaps,
            each.segments_most,
            each.cost(price),
        )
        for each in ranked
    ]
    return format_page(
        "What if the topics had scaled by another policy?",
        [
            format_paragraph(
                f"{base.topics:,} topics, {base.days:,.1f} topic-days, {len(verdicts):,} policies."
                f" Costs are hours of one segment: an overloaded hour counts"
                f" {price.overloaded_hour:g}, a split or merge {price.change:g}, a flap"
                f" {price.flap:g}."
            ),
            plane,
            curves,
            format_heading("Recommended"),
            format_paragraph(describe_difference(chosen.policy, base.policy)),
            format_code(values),
            format_paragraph(
                "To set it: magnetar admin namespaces set-scalable-topic-auto-scale-policy"
                " TENANT/NAMESPACE --file recommended.json"
            ),
            format_heading("Policies, cheapest first"),
            format_table(_NAMES, rows, chosen=0),
        ],
    )

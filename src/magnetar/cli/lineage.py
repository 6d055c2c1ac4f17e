"""The segments of a scalable topic drawn as a tree: parents above what came out of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Segments = Mapping[int, Mapping[str, Any]]


def format_lineage(topic: str, metadata: Mapping[str, Any]) -> str:
    """One line for each segment. What was merged stands below its last parent, and the others
    point to it, save the partitions of a migrated topic, which all have the same children; a parent
    that is pruned is not there.
    """
    segments = {int(number): segment for number, segment in metadata["segments"].items()}
    active = sum(segment["state"] == "ACTIVE" for segment in segments.values())
    head = f"{topic}  epoch {metadata['epoch']}, {active} active, {len(segments) - active} sealed"
    roots = [number for number, segment in segments.items() if not segment["parentIds"]]
    return "\n".join((head, *_draw(_by_hash(segments, roots), segments, "", None)))


def _draw(numbers: list[int], segments: Segments, indent: str, parent: int | None) -> Iterator[str]:
    for place, number in enumerate(numbers):
        is_last = place == len(numbers) - 1
        parents = [each for each in segments[number]["parentIds"] if each in segments]
        branch = f"{indent}{'└─' if is_last else '├─'} "
        if parents and parent != max(parents):
            yield f"{branch}{number}  (below {max(parents)})"
            continue
        yield branch + _describe(number, segments)
        children = [each for each in segments[number]["childIds"] if each in segments]
        if not is_last and segments[number].get("legacyTopicName"):
            continue  # they stand below the last partition
        deeper = f"{indent}{'  ' if is_last else '│ '} "
        yield from _draw(_by_hash(segments, children), segments, deeper, number)


def _by_hash(segments: Segments, numbers: list[int]) -> list[int]:
    return sorted(numbers, key=lambda each: (segments[each]["hashRange"]["start"], each))


def _describe(number: int, segments: Segments) -> str:
    segment = segments[number]
    span = segment["hashRange"]
    words = [f"{number}", f"{span['start']:04x}-{span['end']:04x}", segment["state"].lower()]
    if segment["state"] == "SEALED":
        words.append(f"at epoch {segment['sealedAtEpoch']}")
    parents = segment["parentIds"]
    if len(parents) > 1:
        is_migrated = bool(segments.get(parents[0], {}).get("legacyTopicName"))
        joined = " and ".join(map(str, parents))
        words.append(f"after {len(parents)} partitions" if is_migrated else f"merged from {joined}")
    if segment.get("legacyTopicName"):
        words.append(segment["legacyTopicName"])
    return "  ".join(words)

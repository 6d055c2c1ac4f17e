"""Judges the layouts of scalable topics as they were written, one after the other: each follows
from the one before by one split or merge, which an intent announced.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any, Final, TypeAlias

from magnetar.testing.simulation.history import Entry, Stored
from magnetar.testing.simulation.tally import NOT_BY_LOAD

RING: Final = 65_536
_Record: TypeAlias = Mapping[str, Any]


def find_layout_breaks(entries: Iterable[Entry]) -> Iterator[str]:
    """Active segments tile the ring; a layout follows from the one before by splits and merges."""
    before: dict[str, _Record] = {}
    for at_s, path, layout in _records(entries):
        earlier = before.get(path)
        found = [*_untiled(layout), *(_unborn(layout) if earlier is None else ())]
        if earlier is not None:
            found += (*_gone_back(earlier, layout), *_misbegotten(earlier, layout))
        for what in found:
            yield f"layout of {path} at {at_s:.3f}, epoch {layout['epoch']}: {what}"
        before[path] = layout


def find_unfinished(entries: Iterable[Entry]) -> Iterator[str]:
    """What was begun and stands in the metadata still: at the quiet end there is nothing."""
    standing: dict[str, str] = {}
    for entry in entries:
        event = entry.event
        if not isinstance(event, Stored):
            continue
        if event.path.startswith("/magnetar/migrations/") and event.value:
            standing[event.path] = "migration"
        elif b'"magnetarIntent"' in event.value:
            standing[event.path] = json.loads(event.value)["magnetarIntent"]["kind"].lower()
        else:
            standing.pop(event.path, None)
    for path, what in standing.items():
        yield f"unfinished: {what} of {path}"


def _records(entries: Iterable[Entry]) -> Iterator[tuple[float, str, _Record]]:
    for entry in entries:
        event = entry.event
        if isinstance(event, Stored) and b'"nextSegmentId"' in event.value:
            layout = json.loads(event.value)
            if "magnetarRuns" not in layout:
                yield entry.at_s, event.path, layout


def _range_of(segment: _Record) -> tuple[int, int]:
    bounds = segment["hashRange"]
    return int(bounds["start"]), int(bounds["end"])


def _untiled(layout: _Record) -> Iterator[str]:
    ranges = sorted(
        _range_of(each) for each in layout["segments"].values() if each["state"] == "ACTIVE"
    )
    expected = 0
    for first, last in ranges:
        if first != expected:
            yield f"active segments do not tile the ring at {first}, expected {expected}"
        expected = last + 1
    if expected != RING:
        yield f"active segments end at {expected}, not at {RING}"


def _unborn(layout: _Record) -> Iterator[str]:
    """The first layout: segments come out of nothing, or all of all that was migrated."""
    old = sorted(int(name) for name, each in layout["segments"].items() if each["legacy"])
    for name, segment in layout["segments"].items():
        if segment["parentIds"] != ([] if segment["legacy"] else old):
            yield f"segment {name} of a new layout has the parents {segment['parentIds']}"


def _gone_back(earlier: _Record, layout: _Record) -> Iterator[str]:
    if layout["epoch"] < earlier["epoch"]:
        yield f"epoch went back from {earlier['epoch']}"
    if layout["nextSegmentId"] < earlier["nextSegmentId"]:
        yield f"the next id went back from {earlier['nextSegmentId']}"
    for name in layout["segments"]:
        if name not in earlier["segments"] and int(name) < earlier["nextSegmentId"]:
            yield f"segment id {name} was used before"


def _misbegotten(earlier: _Record, layout: _Record) -> Iterator[str]:
    """All segments that are new have the same parents, which were active and are sealed with them;
    nothing else has changed.
    """
    old, new = earlier["segments"], layout["segments"]
    born = sorted((name for name in new if name not in old), key=int)
    parents = {str(each) for name in born for each in new[name]["parentIds"]}
    pruned = {str(each["segmentId"]) for each in _targets(layout, "PRUNE")}
    for name, segment in old.items():
        now = new.get(name)
        if now is None:
            if name not in pruned or segment["state"] == "ACTIVE":
                yield f"segment {name}, {segment['state']}, vanished"
        elif _range_of(now) != _range_of(segment):
            yield f"segment {name} changed its range"
        elif not {*now["parentIds"]} <= {*segment["parentIds"]}:
            yield f"segment {name} changed its parents"
        elif (segment["state"], now["state"]) == ("SEALED", "ACTIVE"):
            yield f"sealed segment {name} is active again"
        elif name in parents:
            if (segment["state"], now["state"]) != ("ACTIVE", "SEALED"):
                yield f"parent {name} was {segment['state']} and is {now['state']}"
            if now["childIds"] != [int(each) for each in born]:
                yield f"parent {name} names the children {now['childIds']}, not {born}"
        elif now["state"] != segment["state"] or now["childIds"] != segment["childIds"]:
            yield f"segment {name} was sealed or given children, and has none"
    if born:
        yield from _misshapen(earlier, layout, born)


def _misshapen(earlier: _Record, layout: _Record, born: list[str]) -> Iterator[str]:
    """Two children tile their parent; one child is two neighbours."""
    children = [layout["segments"][name] for name in born]
    numbers = {tuple(each["parentIds"]) for each in children}
    parents = [earlier["segments"].get(str(each)) for each in sorted(min(numbers))]
    known = sorted(_range_of(each) for each in parents if each is not None)
    spans = sorted(_range_of(each) for each in children)
    if len(numbers) > 1 or len(known) < len(parents) or (len(known), len(spans)) not in _SHAPES:
        yield f"segments {born} come out of {sorted(numbers)}"
        return
    if not _joins(known) or not _joins(spans) or _ends(known) != _ends(spans):
        yield f"segments {born} are {spans}, their parents {known}"
    if layout["epoch"] != earlier["epoch"] + 1:
        yield f"segments {born} are new, and the epoch was {earlier['epoch']}"
    intent = earlier.get("magnetarIntent", {})
    targets = [(str(each["segmentId"]), _range_of(each)) for each in intent.get("targets", ())]
    if targets != [(name, _range_of(layout["segments"][name])) for name in born]:
        yield f"segments {born} are {spans}, the intent was {targets}"
    elif len(spans) == 2 and intent["reason"] in NOT_BY_LOAD:
        # By load it may be split where its keys say.
        sizes = [last - first for first, last in spans]
        if abs(sizes[0] - sizes[1]) > 1:
            yield f"segments {born} are {spans}, no halves"


_SHAPES: Final = frozenset(((1, 2), (2, 1)))


def _joins(ranges: list[tuple[int, int]]) -> bool:
    return all(left[1] + 1 == right[0] for left, right in pairwise(ranges))


def _ends(ranges: list[tuple[int, int]]) -> tuple[int, int]:
    return ranges[0][0], ranges[-1][1]


def _targets(layout: _Record, kind: str) -> Iterable[_Record]:
    intent = layout.get("magnetarIntent", {})
    targets: Iterable[_Record] = intent.get("targets", ()) if intent.get("kind") == kind else ()
    return targets

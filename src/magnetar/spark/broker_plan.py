"""What a broker tells about all topics of a query at once.

One call tells the layouts, ends and ledgers, one how far a limit of messages or bytes reaches, one
moves the hold of a page of them. Apache Pulsar has none of these: there the survey asks topic by
topic.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from magnetar import Admin, AdminError, AdminNotAllowed, AdminNotFound
from magnetar.spark.offset import BEFORE_ALL, Offset, Place
from magnetar.spark.option import Bound, Selection
from magnetar.spark.plan import Pending, SegmentView, TopicView
from magnetar.spark.stretch import LedgerSize, Span

_PROBE: Final = {"version": "[[], {}]"}
"""Of no topic, so that no rights are needed to ask."""
_PAGE: Final = 20_000
_OTHERS: Final = "*"


class Found(NamedTuple):
    """The topics of a query, and those it names that are not there."""

    views: dict[str, TopicView]
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Admitted:
    """How far to read each of the pending parts, and how many messages that is."""

    ends: list[Place]
    messages: int
    is_all: bool


class _Seen(NamedTuple):
    """What the broker told of a topic, and what that means."""

    document: Mapping[str, Any]
    hold: str | None
    view: TopicView


class BrokerPlan:
    """For one query, over one admin client."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._is_offered: bool | None = None
        self._version = ""
        """Of the last answer, if one call gave all of it."""
        self._seen: dict[str, _Seen] = {}

    @property
    def is_offered(self) -> bool:
        """Whether the broker has these calls."""
        if self._is_offered is None:
            try:
                self._is_offered = isinstance(self._admin.reads.plan(_PROBE), dict)
            except (AdminNotFound, AdminNotAllowed):
                self._is_offered = False
        return self._is_offered

    def look(
        self,
        selection: Selection,
        *,
        read: Offset | None = None,
        hold: str | None = None,
        start: Bound | None = None,
    ) -> Found:
        """`read` is how far the query has come, `start` what may ask for a time."""
        query: dict[str, Any] = {"limit": _PAGE, "hold": hold or ""}
        if selection.topics:
            query["topics"] = list(selection.topics)
        else:
            query["namespace"] = selection.namespace
            query["properties"] = dict(selection.properties)
        if read is not None:
            query["positions"] = _positions(read)
        if start is not None:
            query["atMs"] = _times(start)
        answers = self._ask(query, selection.pattern)
        self._version = str(answers[0]["version"]) if len(answers) == 1 else ""
        views = {}
        for each in (topic for answer in answers for topic in answer.get("topics", ())):
            if _is_wanted(selection, str(each["name"])):
                view = self._view_of(each, hold, selection)
                views[view.name] = view
        self._seen = {name: self._seen[name] for name in views}
        missing = tuple(name for answer in answers for name in answer.get("missing", ()))
        return Found(views, missing)

    def _view_of(
        self, document: Mapping[str, Any], hold: str | None, selection: Selection
    ) -> TopicView:
        """Most topics are described as they were the last time."""
        name = str(document["name"])
        seen = self._seen.get(name)
        if seen is None or seen.document != document or seen.hold != hold:
            view = choose_parts(parse_view(document, hold), selection)
            seen = self._seen[name] = _Seen(document, hold, view)
        return seen.view

    def _ask(self, query: dict[str, Any], pattern: str | None) -> list[Mapping[str, Any]]:
        """Every page. A pattern that the broker does not take is matched here."""
        if pattern is not None:
            try:
                return self._pages(query | {"pattern": pattern})
            except AdminNotFound:
                raise
            except AdminError:
                pass
        return self._pages(query)

    def _pages(self, query: dict[str, Any]) -> list[Mapping[str, Any]]:
        answers: list[Mapping[str, Any]] = [self._admin.reads.plan(query)]
        while answers[-1].get("more"):
            answers.append(self._admin.reads.plan(query | {"after": answers[-1]["more"]}))
        return answers

    @property
    def is_unchanged(self) -> bool:
        """Whether nothing can be new since the last look: a call that does not grow with topics."""
        if not self._version:
            return False
        answer = self._admin.reads.plan({"version": self._version})
        return bool(answer.get("isUnchanged"))

    def admit(
        self, pending: Sequence[Pending], *, messages: int | None, size: int | None
    ) -> Admitted:
        """By exact counts; entries stay whole, and one is always read."""
        parts = [
            {
                "name": each.segment.topic,
                "after": _before(each.after),
                "through": _format(each.through),
                "weight": each.size,
            }
            for each in pending
            if each.spans
        ]
        limits = {"messages": messages, "size": size}
        given = {name: value for name, value in limits.items() if value is not None}
        answers = self._admin.reads.cut({"parts": parts, **given}) if parts else []
        reached = {each["name"]: each for each in answers}
        ends = [_end_of(each, reached.get(each.segment.topic)) for each in pending]
        total = sum(int(each.get("messages", 0)) for each in answers)
        return Admitted(ends, total, all(each.get("isEnd", False) for each in answers))

    def move_hold(self, hold: str, moves: Mapping[str, Place]) -> None:
        """After what was read of each part; those that are gone need none."""
        told = [{"name": name, "position": _before(place)} for name, place in moves.items()]
        self._admin.reads.move_hold(hold, told)


def _is_wanted(selection: Selection, name: str) -> bool:
    if selection.pattern is None:
        return True
    return re.fullmatch(selection.pattern, name.split("/", 2)[2]) is not None


def choose_parts(view: TopicView, selection: Selection) -> TopicView:
    """Those that the query was assigned, where it was."""
    wanted = selection.parts.get(view.name)
    if wanted is None:
        return view
    segments = tuple(each for each in view.segments if each.id in wanted)
    return replace(view, segments=segments, next=max(wanted) + 1)


def parse_view(document: Mapping[str, Any], hold: str | None) -> TopicView:
    name = str(document["name"])
    segments = tuple(_parse_part(each, hold) for each in document["parts"])
    label = f"{document['domain']}://{name}"
    is_held = bool(document.get("isHeld", False))
    return TopicView(name, label, segments, int(document["next"]), is_held=is_held)


def _parse_part(document: Mapping[str, Any], hold: str | None) -> SegmentView:
    ledgers = tuple(LedgerSize(*each) for each in document.get("ledgers", ()))
    is_held = hold is not None and document.get("isHeld", False)
    before = document.get("before")
    return SegmentView(
        int(document.get("id", 0)),
        str(document["name"]),
        ledgers,
        parents=tuple(document.get("parents", ())),
        is_sealed=bool(document.get("isSealed", False)),
        is_pinned=bool(document.get("isPinned", False)),
        cursors=frozenset([hold]) if is_held and hold is not None else frozenset(),
        passed=tuple(_parse(str(each)) for each in document.get("passed", ())),
        visible=_parse(str(document.get("end", "-1:-1"))),
        hidden=tuple(Span(*each) for each in document.get("hidden", ())),
        sealed_ms=int(document.get("sealedMs", 0)),
        before=None if before is None else _parse(str(before)),
    )


def _parse(text: str) -> Place:
    ledger, _, entry = text.partition(":")
    place = Place(int(ledger), int(entry))
    return BEFORE_ALL if place.entry < 0 else place


def _format(place: Place) -> str:
    return f"{place.ledger}:{place.entry}"


def _before(place: Place) -> str:
    """An entry that was read in part counts as a whole one to come."""
    return _format(place if place.batch < 0 else Place(place.ledger, place.entry - 1))


def _end_of(pending: Pending, reached: Mapping[str, Any] | None) -> Place:
    if reached is None or reached.get("isEnd"):
        return pending.through
    if reached["position"] == _before(pending.after):
        return pending.after
    return _parse(str(reached["position"]))


def _positions(read: Offset) -> dict[str, dict[str, str]]:
    return {
        name: {str(number): _format(place) for number, place in topic.places.items()}
        for name, topic in read.topics.items()
    }


def _times(bound: Bound) -> dict[str, int]:
    stated = {_OTHERS: bound.at_ms, **{name: each.at_ms for name, each in bound.by_topic.items()}}
    return {name: at_ms for name, at_ms in stated.items() if at_ms is not None}

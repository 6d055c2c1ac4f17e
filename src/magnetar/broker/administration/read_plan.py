"""What queries ask that read many topics at once: one call for all topics, whatever their number.

The broker that is asked finds the layouts, and asks each owner of parts once.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Collection, Sequence
from contextlib import suppress
from itertools import islice
from typing import Final

from msgspec.structs import replace

from magnetar.broker.administration.port import QueryOwners
from magnetar.broker.administration.read_part import PartOwners, ReadParts
from magnetar.broker.administration.read_topic import (
    Part,
    PartLayout,
    check_readable,
    find_layouts,
    key_of,
)
from magnetar.broker.administration.registry import carries_out
from magnetar.broker.authorization import Authorization
from magnetar.broker.scalable.segment import together
from magnetar.broker.scalable.service import ScalableService
from magnetar.errors import BadRequest, NotFound, ServiceNotReady
from magnetar.model.answer.broker import ReadHold
from magnetar.model.caller import Caller
from magnetar.model.name import (
    NamespaceName,
    TopicDomain,
    TopicName,
    parse_stored_topic,
    parse_topic,
)
from magnetar.model.position import EARLIEST
from magnetar.model.read_plan import (
    Cut,
    CutQuery,
    HoldMove,
    HoldState,
    PartQuery,
    PartState,
    Reached,
    ReadPlan,
    ReadQuery,
    TopicState,
)
from magnetar.model.segment import scalable_name
from magnetar.rules.read_share import share_out
from magnetar.runtime.clock import Clock

_ATTEMPTS: Final = 6
_PAUSE_S: Final = 0.2
_SHARINGS: Final = 3
"""How often what is left over is shared out again."""
_SINGLE_TRIES: Final = 64
_OTHERS: Final = "*"


# What is there
@carries_out("reads.plan")
async def plan_read(
    owners: QueryOwners, part_owners: PartOwners, query: ReadQuery, caller: Caller
) -> ReadPlan:
    is_selected = bool(query.topics) or bool(query.namespace)
    if (query.topics and query.namespace) or not (is_selected or query.version):
        raise BadRequest("Give topics or namespace, one of them")
    if query.version and await _is_unchanged(
        owners.authorization, part_owners, query.version, caller
    ):
        return ReadPlan(version=query.version, is_unchanged=True)
    if not is_selected:
        return ReadPlan()
    layouts = await find_layouts(owners, query, caller)
    layouts = [each for each in layouts if each.key > query.after]
    more = layouts[query.limit - 1].key if len(layouts) > query.limit else ""
    layouts = layouts[: query.limit]
    version = await _make_version(part_owners, layouts)  # what comes after it is seen again
    asked = [_ask_for(query, layout, part) for layout in layouts for part in layout.parts]
    states = iter(await _look(part_owners, owners.clock, asked, query.hold))
    topics, missing = [], []
    for layout in layouts:
        seen = list(islice(states, len(layout.parts)))
        if layout.must_exist and seen[0].is_missing:
            missing.append(layout.key)
        else:
            topics.append(
                _describe(layout, seen, is_held=await _is_held(owners.scalable, query, layout))
            )
    known = {layout.key for layout in layouts}
    keys = [key_of(parse_topic(name)) for name in query.topics]
    page = [key for key in keys if key > query.after and (not more or key <= more)]
    missing += [key for key in page if key not in known]
    return ReadPlan(tuple(topics), tuple(missing), more, version)


def _ask_for(query: ReadQuery, layout: PartLayout, part: Part) -> PartQuery:
    position = query.positions.get(layout.key, {}).get(str(part.id), "")
    at_ms = query.at_ms.get(layout.key, query.at_ms.get(_OTHERS))
    return PartQuery(part.name, position, at_ms)


async def _is_held(scalable: ScalableService, query: ReadQuery, layout: PartLayout) -> bool:
    """Asked where parts are gone that the query may not have read."""
    positions = query.positions.get(layout.key)
    if not query.hold or positions is None or not has_lost_parts(layout, positions):
        return False
    return await scalable.records.groups.has_subscription(layout.topic, query.hold)


def has_lost_parts(layout: PartLayout, positions: Collection[str]) -> bool:
    """Whether one is gone that was read in part, or that came after all of these."""
    present = {part.id for part in layout.parts}
    known = {int(number) for number in positions if number.isdecimal()}
    following = range(max(known, default=-1) + 1, layout.next)
    return not present.issuperset(known) or not present.issuperset(following)


def _describe(layout: PartLayout, seen: Sequence[PartState], *, is_held: bool) -> TopicState:
    parts = [
        replace(
            state,
            id=part.id,
            parents=part.parents,
            is_sealed=part.is_sealed,
            sealed_ms=part.sealed_ms,
        )
        for part, state in zip(layout.parts, seen, strict=True)
    ]
    return TopicState(
        layout.key, layout.topic.domain.value, tuple(parts), layout.next, is_held=is_held
    )


async def _look(
    part_owners: PartOwners, clock: Clock, parts: Sequence[PartQuery], hold: str
) -> list[PartState]:
    """Every part, at the broker that owns it by then."""
    found: dict[int, PartState] = {}
    for _ in range(_ATTEMPTS):
        waiting = [place for place in range(len(parts)) if place not in found]
        if not waiting:
            break
        asked = [parts[place] for place in waiting]
        names = [part.name for part in asked]

        def look(
            owner: ReadParts, places: Sequence[int], asked: Sequence[PartQuery] = asked
        ) -> Awaitable[tuple[PartState, ...]]:
            return owner.look(tuple(asked[place] for place in places), hold)

        for places, states in await part_owners.ask(names, look):
            for place, state in zip(places, states, strict=True):
                if not state.is_elsewhere:
                    found[waiting[place]] = state
        if len(found) < len(parts):
            await clock.sleep(_PAUSE_S)
    if len(found) < len(parts):
        raise ServiceNotReady("Topics of the query are moving between brokers; try again")
    return [found[place] for place in range(len(parts))]


# Whether anything is new
async def _make_version(part_owners: PartOwners, layouts: Sequence[PartLayout]) -> str:
    """What each owner says, each with the name of a part that it owns."""
    namespaces = sorted({str(each.topic.namespace) for each in layouts})
    names = [part.name for layout in layouts for part in layout.parts]
    answers = await part_owners.ask(names, lambda owner, _: owner.activity(tuple(namespaces)))
    versions = {names[places[0]]: text for places, text in answers}
    return json.dumps([namespaces, versions])


async def _is_unchanged(
    authorization: Authorization, part_owners: PartOwners, version: str, caller: Caller
) -> bool:
    try:
        namespaces, versions = json.loads(version)
        names = [parse_topic(name).full for name in versions]
        asked = tuple(str(parse_topic(f"{each}/any").namespace) for each in namespaces)
    except (ValueError, TypeError):
        raise BadRequest("version is that of an earlier answer") from None
    await check_readable(authorization, caller, map(parse_stored_topic, names))
    answers = await part_owners.ask(names, lambda owner, _: owner.activity(asked))
    return bool(names) and all(
        versions[names[place]] == text for places, text in answers for place in places
    )


# How far
@carries_out("reads.cut")
async def cut_read(
    authorization: Authorization,
    part_owners: PartOwners,
    clock: Clock,
    query: CutQuery,
    caller: Caller,
) -> Sequence[Reached]:
    await check_readable(authorization, caller, (parse_topic(each.name) for each in query.parts))
    if query.messages is None and query.size is None:
        raise BadRequest("Give messages or size, or both")
    cutter = _Cutter(part_owners, clock, query)
    await cutter.share()
    await cutter.fill()
    return cutter.reached


class _Cutter:
    """Shares a limit out over the parts of a query."""

    def __init__(self, part_owners: PartOwners, clock: Clock, query: CutQuery) -> None:
        self._part_owners = part_owners
        self._clock = clock
        self._parts = query.parts
        self._messages = query.messages
        self._size = query.size
        self.reached = [Reached(each.name, each.after) for each in query.parts]
        self._waiting = self._choose()

    def _choose(self) -> list[int]:
        """With fewer messages than parts, some of them by chance: all get their turn in time."""
        places = list(range(len(self._parts)))
        if self._messages is None or len(places) <= self._messages:
            return places
        return sorted(self._clock.chance.sample(places, max(self._messages, 1)))

    async def share(self) -> None:
        """In proportion to the weights; what entries do not fill up is shared out again."""
        for _ in range(_SHARINGS):
            weights = [max(1, self._parts[place].weight) for place in self._waiting]
            quotas = zip(_share(self._messages, weights), _share(self._size, weights), strict=True)
            cuts = [
                self._cut(place, *quota) for place, quota in zip(self._waiting, quotas, strict=True)
            ]
            if not await self._ask(cuts):
                return

    async def fill(self) -> None:
        """What is left goes to single parts, to those whose messages have waited longest first. One
        entry is read in any case.
        """
        oldest = sorted(self._waiting, key=lambda place: self.reached[place].next_ms)
        for place in oldest[:_SINGLE_TRIES]:
            if 0 in (self._messages, self._size):
                break
            await self._ask([self._cut(place, self._messages, self._size)])
        if oldest and not any(self._is_moved(place) for place in range(len(self._parts))):
            await self._ask([replace(self._cut(oldest[0], 0, 0), is_forced=True)])

    def _cut(self, place: int, messages: int | None, size: int | None) -> Cut:
        after, part = self.reached[place].position, self._parts[place]
        return Cut(part.name, after, part.through, messages=messages, size=size)

    def _is_moved(self, place: int) -> bool:
        return self.reached[place].position != self._parts[place].after

    async def _ask(self, cuts: Sequence[Cut]) -> bool:
        """Whether any part got further and more is waiting."""
        names = [each.name for each in cuts]
        places_by_name = {each.name: place for place, each in enumerate(self._parts)}
        is_moved = False
        answers = await self._part_owners.ask(
            names, lambda owner, places: owner.cut(tuple(cuts[place] for place in places))
        )
        for answer in (each for _, found in answers for each in found):
            place = places_by_name[answer.name]
            before = self.reached[place]
            is_moved = is_moved or answer.position != before.position
            self.reached[place] = replace(
                answer,
                messages=before.messages + answer.messages,
                size=before.size + answer.size,
            )
            if self._messages is not None:
                self._messages = max(0, self._messages - answer.messages)
            if self._size is not None:
                self._size = max(0, self._size - answer.size)
            if answer.is_end:
                self._waiting.remove(place)
        return is_moved and bool(self._waiting) and 0 not in (self._messages, self._size)


def _share(total: int | None, weights: Sequence[int]) -> Sequence[int | None]:
    return [None] * len(weights) if total is None else share_out(total, weights)


# Holds
@carries_out("reads.move_hold")
async def move_hold(
    authorization: Authorization,
    part_owners: PartOwners,
    scalable: ScalableService,
    hold: str,
    moves: tuple[HoldMove, ...],
    caller: Caller,
) -> Sequence[str]:
    """A hold of a scalable topic is one of all its segments, those to come included."""
    names = [parse_stored_topic(each.name) for each in moves]
    await check_readable(authorization, caller, names)
    answers = await part_owners.ask(
        [each.name for each in moves],
        lambda owner, places: owner.hold(hold, tuple(moves[place] for place in places)),
    )
    states: dict[int, HoldState] = {}
    for places, found in answers:
        states |= zip(places, found, strict=True)
    made = {
        scalable_name(names[place])
        for place, state in states.items()
        if state is HoldState.MADE and names[place].domain is TopicDomain.SEGMENT
    }
    await together(_adopt(scalable, topic, hold) for topic in sorted(made, key=str))
    return [moves[place].name for place, state in states.items() if state is HoldState.GONE]


async def _adopt(scalable: ScalableService, topic: TopicName, hold: str) -> None:
    with suppress(NotFound):
        await scalable.controls.at(topic).adopt(hold, EARLIEST)


@carries_out("reads.holds")
async def list_holds(
    owners: QueryOwners, part_owners: PartOwners, namespace: NamespaceName, caller: Caller
) -> dict[str, ReadHold]:
    parts = [
        (layout.topic.full, part.name)
        for layout in await find_layouts(owners, ReadQuery(namespace=str(namespace)), caller)
        for part in layout.parts
    ]
    answers = await part_owners.ask(
        [name for _, name in parts],
        lambda owner, places: owner.list_holds(tuple(parts[place][1] for place in places)),
    )
    topics: dict[str, set[str]] = {}
    entries: Counter[str] = Counter()
    for places, found in answers:
        for place, holds in zip(places, found, strict=True):
            for hold, backlog in holds.items():
                topics.setdefault(hold, set()).add(parts[place][0])
                entries[hold] += backlog
    return {
        hold: {"topics": sorted(names), "entries": entries[hold]}
        for hold, names in sorted(topics.items())
    }


@carries_out("reads.release_hold")
async def release_hold(
    owners: QueryOwners,
    part_owners: PartOwners,
    namespace: NamespaceName,
    hold: str,
    caller: Caller,
) -> int:
    """Nothing is kept for the query any more."""
    layouts = await find_layouts(owners, ReadQuery(namespace=str(namespace)), caller)
    parts = [(layout.topic, part.name) for layout in layouts for part in layout.parts]
    answers = await part_owners.ask(
        [name for _, name in parts],
        lambda owner, places: owner.release(hold, tuple(parts[place][1] for place in places)),
    )
    topics = {
        parts[place][0]
        for places, found in answers
        for place, was_there in zip(places, found, strict=True)
        if was_there
    }
    scalable = sorted((each for each in topics if each.domain is TopicDomain.TOPIC), key=str)
    await together(owners.scalable.controls.at(each).unsubscribe(hold) for each in scalable)
    return len(topics)

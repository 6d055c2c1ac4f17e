"""Parts of topics as a query reads them, at the brokers that own them.

A loaded part is answered from memory. Of a log that was closed and not loaded since, the record
says everything, so that a query over thousands of idle topics loads none of them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final, TypeVar

from msgspec.structs import replace

from magnetar.broker.administration.port import PartSources
from magnetar.broker.administration.registry import finds
from magnetar.broker.broker_call import OwnerPort
from magnetar.broker.entry import published_ms
from magnetar.broker.hold import parse_passed
from magnetar.broker.log_search import last_visible, position_at
from magnetar.broker.persistent import PersistentTopic
from magnetar.broker.scalable.segment import together
from magnetar.broker.transaction.participant import needs_journal
from magnetar.errors import (
    Conflict,
    NoOwner,
    ServiceNotReady,
    SubscriptionNotFound,
    TopicNotFound,
)
from magnetar.ledger.info import LogRecords
from magnetar.ledger.message_count import Allowance
from magnetar.ledger.sequence import LedgerSequence
from magnetar.model.name import parse_namespace, parse_stored_topic
from magnetar.model.position import EARLIEST, Position
from magnetar.model.read_plan import (
    Cut,
    HiddenRange,
    HoldMove,
    HoldState,
    LedgerExtent,
    PartQuery,
    PartState,
    Reached,
    format_place,
    parse_place,
)
from magnetar.model.subscription import HOLD_PROPERTY
from magnetar.rules.transaction.buffer import TransactionBuffer

R = TypeVar("R")

_PROPERTIES: Final = {HOLD_PROPERTY: "spark"}
_ATTEMPTS: Final = 6
_PAUSE_S: Final = 0.2
_NONE_HIDDEN: Final = TransactionBuffer()


class ReadParts:
    """Port of a broker that owns parts: what queries ask about many of them at once."""

    def __init__(self, owners: PartSources) -> None:
        self._owners = owners

    # ------------------------------------------------------------------ what is there

    async def look(self, parts: tuple[PartQuery, ...], hold: str) -> tuple[PartState, ...]:
        return tuple(await together(self._look(each, hold) for each in parts))

    async def _look(self, part: PartQuery, hold: str) -> PartState:
        name = parse_stored_topic(part.name)
        try:
            live = self._owners.catalog.find(name)
            if live is None and part.at_ms is None:
                stored = await self._look_stored(part, hold)
                if stored is not None:
                    return stored
            if live is None:
                live = await self._owners.catalog.load_topic(name)
        except TopicNotFound:
            return PartState(part.name, is_missing=True)
        except (NoOwner, ServiceNotReady):
            return PartState(part.name, is_elsewhere=True)
        assert isinstance(live, PersistentTopic), "only what is stored has parts"
        before = ""
        if part.at_ms is not None:
            first = await position_at(live.log, part.at_ms)
            before = format_place(live.log.sequence.previous_position(first))
        end = last_visible(live.log, live.buffer)
        state = describe_part(part, live.log.sequence, end, live.buffer)
        held = live.subscriptions.get(hold)
        passed = None if held is None else parse_passed(held.cursor.properties)
        return replace(
            state,
            is_held=held is not None,
            passed=() if passed is None else tuple(map(format_place, passed)),
            before=before,
        )

    async def _look_stored(self, part: PartQuery, hold: str) -> PartState | None:
        """None for what must be loaded: it may have an open ledger, or transactions."""
        records = await self._owners.tree.records(parse_stored_topic(part.name))
        found = await records.load()
        if found is None:
            return PartState(part.name, is_missing=True)
        info, _ = found
        if needs_journal(info.properties) or not all(each.created_ms for each in info.ledgers):
            return None
        ledgers = sorted(info.ledgers, key=lambda each: each.ledger_id)
        sequence = LedgerSequence().restore(ledgers)
        if part.position:
            is_whole = parse_place(part.position).ledger_id in sequence.by_id
        else:
            is_whole = not hold or await _has_passed_nothing(records, hold)
        if not is_whole:
            return None  # whether a hold stands there, and was moved on, is asked of the topic
        return describe_part(part, sequence, sequence.last_position, _NONE_HIDDEN)

    # ------------------------------------------------------------------ how far

    async def cut(self, cuts: tuple[Cut, ...]) -> tuple[Reached, ...]:
        """How far each may be read."""
        return tuple(await together(map(self._cut, cuts)))

    async def _cut(self, cut: Cut) -> Reached:
        try:
            live = await self._load(cut.name)
        except TopicNotFound:  # what is lost is for the reader to say
            return Reached(cut.name, cut.through, is_end=True)
        found = await live.log.reader.message_count.reach(
            parse_place(cut.after),
            parse_place(cut.through),
            Allowance(cut.messages, cut.size, cut.is_forced),
        )
        return Reached(
            cut.name,
            format_place(found.position),
            found.amount.messages,
            found.amount.size,
            is_end=found.following is None,
            next_ms=0 if found.following is None else published_ms(found.following),
        )

    # ------------------------------------------------------------------ holds

    async def hold(self, name: str, moves: tuple[HoldMove, ...]) -> tuple[HoldState, ...]:
        """Move a hold, and make it where it is missing."""
        return tuple(await together(self._hold(name, each) for each in moves))

    async def _hold(self, name: str, move: HoldMove) -> HoldState:
        try:
            live = await self._load(move.name)
        except TopicNotFound:
            return HoldState.GONE
        position = parse_place(move.position)
        held = live.subscriptions.get(name)
        if held is None:
            start = (
                EARLIEST if position.ledger_id < 0 else live.log.sequence.next_position(position)
            )
            try:
                await live.subscriptions.create(name, position=start, properties=_PROPERTIES)
            except Conflict:
                return await self._hold(name, move)
            return HoldState.MADE
        if HOLD_PROPERTY not in held.properties:  # made with the segment, by its name alone
            await held.set_properties({**held.properties, **_PROPERTIES})
        if position.ledger_id >= 0:
            through = live.log.sequence.floor(position)
            await held.acknowledge_through(through, read=position)
        return HoldState.MOVED

    async def list_holds(self, parts: tuple[str, ...]) -> tuple[dict[str, int], ...]:
        """How many entries each hold keeps, part by part."""
        return tuple(await together(map(self._list_holds, parts)))

    async def _list_holds(self, part: str) -> dict[str, int]:
        try:
            live = await self._load(part)
        except TopicNotFound:
            return {}
        return {
            name: each.backlog
            for name, each in live.subscriptions.items()
            if HOLD_PROPERTY in each.properties
        }

    async def release(self, hold: str, parts: tuple[str, ...]) -> tuple[bool, ...]:
        """Whether each had the hold, which is gone now."""
        return tuple(await together(self._release(hold, each) for each in parts))

    async def _release(self, hold: str, part: str) -> bool:
        if hold not in await self._list_holds(part):
            return False
        live = await self._load(part)
        with suppress(SubscriptionNotFound):
            await live.subscriptions.delete(hold)
        return True

    async def activity(self, namespaces: tuple[str, ...]) -> str:
        """Another text whenever something may have changed in one of the namespaces."""
        names = (parse_namespace(each) for each in namespaces)
        counts = [self._owners.activity.of(each).count for each in names]
        return ".".join(map(str, (self._owners.started_ms, *counts)))

    async def _load(self, name: str) -> PersistentTopic:
        """A query names thousands; of those that are gone no policies are gathered."""
        topic = parse_stored_topic(name)
        live = self._owners.catalog.find(topic)
        if live is None:
            if not await self._owners.tree.exists(topic):
                raise TopicNotFound(f"Topic {name} not found")
            live = await self._owners.catalog.load_topic(topic)
        assert isinstance(live, PersistentTopic), "only what is stored has parts"
        return live


async def _has_passed_nothing(records: LogRecords, hold: str) -> bool:
    """Whether the record of the hold says so, if there is one."""
    stored = (await records.load_cursors()).get(hold)
    return stored is None or (stored[0].ledger_id < 0 and not parse_passed(stored[0].properties))


def describe_part(
    part: PartQuery, sequence: LedgerSequence, end: Position, buffer: TransactionBuffer
) -> PartState:
    """From the ledger of the position on, up to the last entry that readers may get."""
    position = parse_place(part.position) if part.position else EARLIEST
    after = Position(position.ledger_id, position.entry_id + 1)
    behind = sequence.next_position(end) if end.entry_id >= 0 else sequence.first_position
    parts = [each for each in sequence.parts if each.ledger_id >= position.ledger_id]
    ledgers = tuple(
        LedgerExtent(each.ledger_id, each.entries, each.size) for each in parts or sequence.parts
    )
    hidden = tuple(
        HiddenRange(each.ledger_id, each.first, each.last)
        for ranges in buffer.aborted.values()
        for each in ranges
        if each.ledger_id >= position.ledger_id
    )
    return PartState(
        part.name,
        ledgers=ledgers,
        end=format_place(end),
        is_pinned=buffer.pin is not None,
        entries=sequence.entries_between(after, behind),
        size=sequence.bytes_between(after, behind),
        hidden=hidden,
    )


class PartOwners:
    """The brokers that own parts; each is asked once about all of its parts."""

    def __init__(self, owners: PartSources) -> None:
        self._ownership = owners.ownership
        self._clock = owners.clock
        self._here = ReadParts(owners)
        self._port = OwnerPort(owners.calls, ReadParts, lambda _: self._here)

    async def ask(
        self, names: Sequence[str], method: Callable[[ReadParts, Sequence[int]], Awaitable[R]]
    ) -> Sequence[tuple[Sequence[int], R]]:
        """What the owners answer, each with the places of its parts among the names."""
        groups: dict[str, list[int]] = {}
        if not self._ownership.is_shared:
            groups[""] = list(range(len(names)))
        else:
            for place, name in enumerate(names):
                groups.setdefault(await self._owner_of(name), []).append(place)

        async def ask(places: Sequence[int]) -> tuple[Sequence[int], R]:
            here = self._here
            if self._ownership.is_shared:
                here = self._port.at(parse_stored_topic(names[places[0]]))
            return places, await method(here, places)

        return await together(ask(places) for places in groups.values() if places)

    async def _owner_of(self, name: str) -> str:
        for _ in range(_ATTEMPTS):
            try:
                return (await self._ownership.owner_of(parse_stored_topic(name))).broker_id
            except NoOwner:
                await self._clock.sleep(_PAUSE_S)
        raise ServiceNotReady(f"No broker serves {name} at present")


@finds(PartOwners)
def find_part_owners(owners: PartSources) -> PartOwners:
    return PartOwners(owners)

"""What a query reads next, and in which tasks: pure decisions over what the broker has told.

A child segment is planned only when the last entry of each of its parents was read in an earlier
batch, so that the messages of one key never stand in an earlier batch than those before them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter

from magnetar.errors import MagnetarError
from magnetar.spark.offset import BEFORE_ALL, Offset, Place, TopicOffset
from magnetar.spark.stretch import (
    LedgerSize,
    Span,
    count_bytes,
    count_entries,
    end_of,
    normalize_place,
    spans_between,
)


class DataLost(MagnetarError):
    """Messages that the query had not read are gone."""


class OffsetForeign(MagnetarError):
    """The offset was written for another topic than the one that is there."""


@dataclass(frozen=True, slots=True)
class SegmentView:
    """One segment as it is now. `topic` is what a reader attaches to."""

    id: int
    topic: str
    ledgers: tuple[LedgerSize, ...] = ()
    parents: tuple[int, ...] = ()
    is_sealed: bool = False
    messages_per_entry: float = 1.0
    last: Place | None = None
    """Given where ledgers cannot be counted: the last entry."""
    cursors: frozenset[str] = frozenset()
    """The subscriptions that keep what they have not acknowledged."""
    passed: tuple[Place, ...] = ()
    """The first and the last entry that the query's hold was moved past by others than the query:
    expiry, a quota or an administrator.
    """
    visible: Place | None = None
    """The last entry that readers may get, where that is known: transactions may hide others."""
    is_pinned: bool = False
    """Whether entries behind that one wait for transactions, and are to be read when they end."""
    hidden: tuple[Span, ...] = ()
    """Entries that readers never get: transactions that were aborted wrote them."""
    sealed_ms: int = 0
    before: Place | None = None
    """The last entry before a time that was asked for."""

    @property
    def end(self) -> Place:
        if self.last is not None:
            return self.last
        return end_of(self.ledgers) if self.visible is None else self.visible

    @property
    def is_final(self) -> bool:
        """Whether nothing will stand behind its end."""
        return self.is_sealed and not self.is_pinned


@dataclass(frozen=True, slots=True)
class TopicView:
    """`name` is the key of its offset, `label` what rows say."""

    name: str
    label: str
    segments: tuple[SegmentView, ...]
    next: int = 0
    """No segment with this number or a higher one exists yet."""
    is_held: bool = False
    """Whether the query's hold was found on a topic that has lost segments."""

    @property
    def by_id(self) -> Mapping[int, SegmentView]:
        return {segment.id: segment for segment in self.segments}


@dataclass(frozen=True, slots=True)
class Gap:
    """Entries of a segment that are gone: those after one place and before another."""

    topic: str
    segment: int
    after: Place
    before: Place | None

    def __str__(self) -> str:
        start = "its beginning" if self.after == BEFORE_ALL else f"{self.after.position}"
        end = "its end" if self.before is None else f"{self.before.position}"
        return f"segment {self.segment} of {self.topic}, after {start} and before {end}"


@dataclass(frozen=True, slots=True)
class Pending:
    """What could be read of one segment now."""

    topic: str
    segment: SegmentView
    after: Place
    through: Place
    spans: tuple[Span, ...]

    @property
    def entries(self) -> int:
        return count_entries(self.spans)

    @property
    def size(self) -> int:
        return count_bytes(self.segment.ledgers, self.spans)

    @property
    def messages(self) -> float:
        return self.entries * self.segment.messages_per_entry


@dataclass(frozen=True, slots=True)
class Outlook:
    """All that could be read now, and what cannot be read any more."""

    pending: tuple[Pending, ...]
    gaps: tuple[Gap, ...] = ()
    skipped: Mapping[tuple[str, int], Place] = field(default_factory=dict)
    """Where reading goes on behind a gap."""


def find_gap(
    view: TopicView, segment: SegmentView, after: Place, *, hold: str | None = None
) -> Gap | None:
    """What was trimmed after the last place that was read.

    Of a ledger that is gone the end is unknown. While the query's hold stands, it went because all
    of it was read, or because others have moved the hold past it.
    """
    ledgers = [each.ledger for each in segment.ledgers]
    if segment.last is not None or after.ledger in ledgers:
        return None
    following = next((Place(each, 0) for each in ledgers if each > after.ledger), None)
    if ledgers and following is None:
        if after.entry < 0:
            return None  # that ledger never had an entry
        raise OffsetForeign(
            f"The offset says that segment {segment.id} of {view.name} was read up to"
            f" {after.position}, and its last ledger is {ledgers[-1]}: the offset belongs to"
            " another topic of this name"
        )
    if hold in segment.cursors:
        is_lost = _is_passed(segment, after, following)
    else:
        is_lost = after != BEFORE_ALL and following is not None
    return Gap(view.name, segment.id, after, following) if is_lost else None


def _is_passed(segment: SegmentView, after: Place, following: Place | None) -> bool:
    """Whether the hold was moved past entries behind the one place and before the other."""
    if not segment.passed:
        return False
    first, last = segment.passed
    return last.sort_key > after.sort_key and (following is None or first < following)


def is_made_anew(read: TopicOffset, view: TopicView) -> bool:
    """Whether the topic was deleted since and another one made under its name."""
    return view.next < read.next or any(
        segment.id in read.ended and not segment.is_sealed for segment in view.segments
    )


def plan_outlook(
    read: TopicOffset, view: TopicView, goal: TopicView | None, *, hold: str | None = None
) -> Outlook:
    """Every segment whose parents are read; up to the ends of `goal`, when there is one.

    A segment goes only when every subscription has drained it: while the query's hold stands, what
    is gone was read, or had no message. A segment gets the hold of those it came out of.
    """
    present = view.by_id
    gaps: list[Gap] = []
    if is_made_anew(read, view):
        gaps = [Gap(view.name, number, place, None) for number, place in read.places.items()]
        read = TopicOffset()
    elif not view.is_held and not any(hold in segment.cursors for segment in view.segments):
        gaps = [
            Gap(view.name, number, read.place(number), None)
            for number in range(view.next)
            if number not in present
            and number not in read.ended
            and (number in read.places or 0 < read.next <= number)
        ]
    limits = None if goal is None else goal.by_id
    pending = []
    skipped: dict[tuple[str, int], Place] = {}
    for segment in view.segments:
        if segment.id in read.ended or (limits is not None and segment.id not in limits):
            continue
        if any(p in present and p not in read.ended for p in segment.parents):
            continue
        after = read.place(segment.id)
        gap = find_gap(view, segment, after, hold=hold)
        if gap is not None:
            gaps.append(gap)
            after = Place(gap.before.ledger, -1) if gap.before else segment.passed[-1]
            skipped[view.name, segment.id] = after
        through = segment.end if limits is None else min_place(segment.end, limits[segment.id].end)
        if gap is not None:
            through = max(through, after, key=attrgetter("sort_key"))
        spans = tuple(_spans(segment, after, through))
        if spans or segment.is_final or gap is not None:
            pending.append(Pending(view.name, segment, after, through, spans))
    return Outlook(tuple(pending), tuple(gaps), skipped)


def min_place(one: Place, other: Place) -> Place:
    return one if one.sort_key <= other.sort_key else other


def _spans(segment: SegmentView, after: Place, through: Place) -> list[Span]:
    if segment.last is None:
        return spans_between(segment.ledgers, after, through)
    return spans_between(_guess_ledgers(through), after, through)


def _guess_ledgers(through: Place) -> list[LedgerSize]:
    """Where ledgers cannot be counted, only the last one is known."""
    if through == BEFORE_ALL:
        return []
    return [LedgerSize(through.ledger, through.entry + 1)]


def apply_reads(
    read: TopicOffset, view: TopicView, outlook: Outlook, ends: Mapping[int, Place]
) -> TopicOffset:
    """The offset after reading each pending segment up to its end in `ends`."""
    is_new = is_made_anew(read, view)
    if is_new:
        read = TopicOffset()
    elif not outlook.pending and not outlook.gaps and _is_unchanged(read, view):
        return replace(read, sizes={}) if read.sizes else read
    places = dict(read.places)
    ended = set(read.ended)
    sizes: dict[int, int] = {}
    present = view.by_id
    for gap in outlook.gaps:
        if gap.segment not in present:
            ended.add(gap.segment)
    for pending in outlook.pending:
        segment = pending.segment
        through = ends.get(segment.id, pending.after)
        spans = _spans(segment, pending.after, through)
        if spans:
            sizes[segment.id] = count_bytes(segment.ledgers, spans)
        if segment.is_final and through.sort_key >= segment.end.sort_key:
            ended.add(segment.id)
            places[segment.id] = through
        elif through != BEFORE_ALL:
            places[segment.id] = normalize_place(segment.ledgers, through)
        elif pending.spans:  # it has its turn later; what is trimmed until then is a gap
            places[segment.id] = Place(pending.spans[0].ledger, -1)
    # What is read to the end and gone needs no place any more.
    kept = {number: place for number, place in places.items() if number in present}
    gone = {number for number in ended if number not in present and number < view.next}
    forgotten = {number for number in gone if _is_behind(number, present)}
    following = view.next if is_new else max(read.next, view.next)
    return TopicOffset(kept, frozenset(ended - forgotten), following, sizes)


def _is_unchanged(read: TopicOffset, view: TopicView) -> bool:
    """Whether there is nothing to forget, and no new segment: so it is with most topics."""
    if read.ended or read.next < view.next:
        return False
    return len(read.places) <= len(view.segments) and view.by_id.keys() >= read.places.keys()


def _is_behind(number: int, present: Mapping[int, SegmentView]) -> bool:
    """Whether no segment names it as a parent any more."""
    return all(number not in segment.parents for segment in present.values())


def find_lost(
    read: TopicOffset, until: TopicOffset, view: TopicView, *, hold: str | None = None
) -> list[Gap]:
    """What a batch that was planned earlier has and the topic has no more."""
    present = view.by_id
    lost = []
    for number, place in until.places.items():
        after = read.place(number)
        if place.sort_key <= after.sort_key:
            continue
        segment = present.get(number)
        if segment is None:
            lost.append(Gap(view.name, number, after, None))
        elif gap := find_gap(view, segment, after, hold=hold):
            lost.append(gap)
    return lost


def begin(offset: TopicOffset, view: TopicView) -> TopicOffset:
    """The same place, told by the first ledger where nothing of a segment was read."""
    first = {
        segment.id: Place(segment.ledgers[0].ledger, -1)
        for segment in view.segments
        if segment.ledgers and segment.id not in offset.ended
    }
    return replace(offset, places=first | dict(offset.places))


def start_latest(view: TopicView) -> TopicOffset:
    """After everything there is now."""
    ended = frozenset(segment.id for segment in view.segments if segment.is_final)
    places = {
        segment.id: normalize_place(segment.ledgers, segment.end)
        for segment in view.segments
        if segment.end != BEFORE_ALL
    }
    return TopicOffset(places, ended, view.next)


def explain_loss(gaps: Sequence[Gap]) -> str:
    told = "; ".join(map(str, gaps[:5])) + ("; …" if len(gaps) > 5 else "")
    return (
        f"Messages were deleted before they were read: {told}. Set failOnDataLoss to false to go on"
        " behind them, and keep more with the retention policy or the query's hold"
    )


def find_vanished(
    offset: Offset, names: Sequence[str], seen: Mapping[str, TopicView]
) -> tuple[list[str], list[str]]:
    """Topics of the offset that are there no more: all of them, and those among them that were not
    seen to be read to the end.
    """
    gone = sorted(set(offset.topics) - set(names))
    return gone, [name for name in gone if not _was_read(offset.of(name), seen.get(name))]


def _was_read(read: TopicOffset, view: TopicView | None) -> bool:
    if view is None:
        return False
    return all(
        segment.id in read.ended or read.place(segment.id).sort_key >= segment.end.sort_key
        for segment in view.segments
    )


def check_same_topic(offset: Offset, names: Sequence[str]) -> None:
    """Refuse a Spark checkpoint that was written by a query on other topics."""
    if offset.topics and names and not set(offset.topics) & set(names):
        there, here = ", ".join(sorted(offset.topics)), ", ".join(sorted(names))
        raise OffsetForeign(
            f"The checkpoint was written for {there} and the query reads {here};"
            " use another checkpointLocation, or the topic the checkpoint belongs to"
        )

"""Streaming queries: offsets over the segments, one micro-batch after another."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from magnetar.spark.admission import Limits, admit, is_too_little
from magnetar.spark.bookie import BookieRecords
from magnetar.spark.bound import plan_slices, resolve_bound
from magnetar.spark.change_watch import ChangeWatch
from magnetar.spark.collecting import collecting_later
from magnetar.spark.file import LedgerFiles
from magnetar.spark.hold import Hold, name_hold
from magnetar.spark.lag import describe_latest, measure_lag
from magnetar.spark.offset import Offset, OffsetCache, Place, TopicOffset, format_offset
from magnetar.spark.option import Bound, SourceOptions
from magnetar.spark.plan import (
    DataLost,
    Outlook,
    Pending,
    TopicView,
    apply_reads,
    check_same_topic,
    explain_loss,
    find_lost,
    find_vanished,
    plan_outlook,
    start_latest,
)
from magnetar.spark.reading import Task, find_direct, make_reading
from magnetar.spark.row import Finish
from magnetar.spark.slice import Slice, plan_tasks
from magnetar.spark.survey import Survey, TopicMissing
from magnetar.spark.task import Reading, read_task
from magnetar.spark.value import ValueReader

_TRUST_S: Final = 5.0
"""How long silence is trusted where topics are named, and where new ones may be found."""
_TRUST_FOUND_S: Final = 1.0
_TRUST_VERSION_S: Final = 30.0
"""How long a broker is believed that says that nothing is new."""


class TopicStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Planning runs in one process for the life of a query; tasks get a copy without it."""

    def __init__(
        self, options: SourceOptions, schema: StructType, values: ValueReader | None
    ) -> None:
        self.options = options
        self._schema = schema
        self._values = values
        self._survey: Survey | None = None
        self._hold: Hold | None = None
        self._views: dict[str, TopicView] = {}
        self._missing: Sequence[str] = ()
        """Topics that the query names and the last look did not find."""
        self._gone: frozenset[str] = frozenset()
        """Topics that this driver has seen to vanish and does not miss."""
        self._goal: Mapping[str, TopicView] | None = None
        self._files: LedgerFiles | BookieRecords | None = None
        self._waiting_since: float | None = None
        self._initial: dict[str, Any] | None = None
        self._change_watch: ChangeWatch | None = None
        self._looked_at = 0.0
        self._planned = Offset()
        """Up to where the last batch reads."""
        self._offsets = OffsetCache()
        self._quiet: dict[str, Any] | None = None
        """The offset after which the last look found nothing."""

    def __getstate__(self) -> dict[str, Any]:
        gone: dict[str, Any] = {
            "_survey": None,
            "_hold": None,
            "_views": {},
            "_goal": None,
            "_initial": None,
            "_change_watch": None,
            "_offsets": OffsetCache(),
        }
        return self.__dict__ | gone

    # ------------------------------------------------------------------ offsets

    @collecting_later()
    def initialOffset(self) -> dict[str, Any]:
        """Spark asks as long as no batch is committed, and for the first batch twice: the start and
        the name of the hold must be the same.
        """
        if self._initial is None:
            options = self.options
            hold = (options.hold_name or name_hold()) if options.hold else None
            find_time = self._asking.place_before
            topics = {
                name: resolve_bound(options.start, view, find_time)
                for name, view in self._look(start=options.start).items()
            }
            self._initial = format_offset(Offset(topics, hold))
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:
        limits = self.options.limits
        if limits.messages_max is not None:
            return ReadMaxRows(limits.messages_max)
        if limits.bytes_max is not None:
            return ReadMaxBytes(limits.bytes_max)
        if limits.messages_min is not None:
            return ReadMinRows(limits.messages_min)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._goal = dict(self._look(is_known=True))

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """What progress reports show as the latest offset, with what the query has left to read."""
        if not self._views:
            return None
        latest = {name: start_latest(view) for name, view in self._views.items()}
        return describe_latest(Offset(latest), measure_lag(self._planned, self._views))

    @collecting_later()
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        if start == self._quiet and self._is_unchanged():
            return start
        read = self._offsets.parse(start)
        seen = self._views
        views = self._look(is_known=True, read=read)
        if self.options.selection.topics:
            check_same_topic(read, [*views, *self._missing])
        gone = self._check_vanished(read, seen)
        outlooks = {name: self._outlook(read, view) for name, view in views.items()}
        self._check_loss(outlooks.values())
        pending = [each for outlook in outlooks.values() for each in outlook.pending]
        if pending:
            self._quiet = None
        limits = Limits() if isinstance(limit, ReadAllAvailable) else self.options.limits
        if self._goal is None and self._is_too_little(pending, limits):
            return start
        ends: dict[str, dict[int, Place]] = {name: {} for name in views}
        for each, end in zip(pending, self._admit(pending, limits), strict=True):
            ends[each.topic][each.segment.id] = end
        topics = {name: each for name, each in read.topics.items() if name not in gone}
        for name, view in views.items():
            topics[name] = apply_reads(read.of(name), view, outlooks[name], ends[name])
        self._planned = read
        if _is_same(read, topics):
            # Spark commits a batch when it plans the next; the last one has none.
            self._move_hold(read)
            if not pending:
                self._listen(start, views)
            return start
        self._waiting_since = None
        self._planned = Offset(topics, read.hold)
        return self._offsets.format(self._planned)

    # ------------------------------------------------------------------ tasks

    @collecting_later()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        before, after = self._offsets.parse(start), self._offsets.parse(end)
        if self._hold is None:
            # The log has the end of the batch by now: the hold that it names is the query's. One
            # that is made earlier is an orphan when the driver dies before.
            self._move_hold(Offset(before.topics, after.hold))
        views = self._views if after == self._planned else self._look_again(before, after)
        slices: list[Slice] = []
        for name, until in after.topics.items():
            if until.places != before.of(name).places and name in views:
                slices += plan_slices(views[name], before.of(name), until, sized=True)
        if not isinstance(self._files, LedgerFiles):
            self._files = find_direct(self._asking, self.options, slices)
        tasks = plan_tasks(
            slices,
            order=self.options.key_order,
            task_bytes=self.options.task_bytes,
            tasks_max=self.options.tasks_max,
            tasks_min=self.options.tasks_min,
        )
        return [Task(each, self._files) for each in tasks] or [Task(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Task)
        reading, finish = self.make_reading(partition)
        return read_task(reading, partition.slices, finish)

    def make_reading(self, task: Task) -> tuple[Reading, Finish]:
        return make_reading(self.options, self._schema, task.files, self._values)

    @collecting_later()
    def commit(self, end: dict[str, Any]) -> None:
        self._move_hold(self._offsets.parse(end))

    def stop(self) -> None:
        if self._change_watch is not None:
            self._change_watch.close()
            self._change_watch = None
        if self._survey is not None:
            self._survey.close()
            self._survey = None

    # ------------------------------------------------------------------ what the broker says

    @property
    def _asking(self) -> Survey:
        if self._survey is None:
            self._survey = Survey(self.options.broker)
        return self._survey

    def _look(
        self, *, is_known: bool = False, read: Offset | None = None, start: Bound | None = None
    ) -> Mapping[str, TopicView]:
        """Every topic as it is now. Where the query has begun, some may be gone."""
        options = self.options
        found = self._asking.look(
            options.selection,
            read=read,
            hold=None if read is None else read.hold,
            start=start,
            counts_messages=options.limits.counts_messages,
        )
        if found.missing and not is_known:
            raise TopicMissing(f"There is no topic {found.missing[0]}")
        self._missing = found.missing
        self._views = found.views
        self._looked_at = time.monotonic()
        return found.views

    def _is_unchanged(self) -> bool:
        """Whether nothing has come since the last look: noted by listeners, or asked by one call
        whose cost does not grow with the topics.
        """
        if self._change_watch is not None and self._change_watch.is_unchanged:
            return True
        if time.monotonic() > self._looked_at + _TRUST_VERSION_S:
            return False
        return self._asking.plan.is_offered and self._asking.plan.is_unchanged

    def _is_too_little(self, pending: Sequence[Pending], limits: Limits) -> bool:
        least = limits.messages_min
        if least is None or not self._asking.plan.is_offered:
            return is_too_little(pending, limits, waited_s=self._waited_s())
        if self._waited_s() >= limits.delay_s_max:
            return False
        found = self._asking.plan.admit(pending, messages=least, size=None)
        return found.is_all and found.messages < least

    def _admit(self, pending: Sequence[Pending], limits: Limits) -> Sequence[Place]:
        """How far to read each part: by the broker's counts, or by what a few entries tell."""
        if limits.messages_max is None and limits.bytes_max is None:
            return [each.through for each in pending]
        if not self._asking.plan.is_offered:
            return admit(pending, limits)
        plan = self._asking.plan
        return plan.admit(pending, messages=limits.messages_max, size=limits.bytes_max).ends

    def _check_vanished(self, read: Offset, seen: Mapping[str, TopicView]) -> Collection[str]:
        """Topics that are there no more, and leave the offset."""
        gone, unread = find_vanished(read, [*self._views], seen)
        if self.options.fail_on_loss:
            for name in unread:
                if name not in self._gone:
                    raise DataLost(
                        f"There is no topic {name} any more, and the query was not seen to have"
                        " read it to the end. Set failOnDataLoss to false to go on without it"
                    )
            for name in self._missing:
                if name not in self._gone and name not in read.topics:
                    raise TopicMissing(f"There is no topic {name}")
        self._gone = (self._gone - self._views.keys()).union(gone)
        return gone

    def _listen(self, start: dict[str, Any], views: Mapping[str, TopicView]) -> None:
        """Until something comes, a trigger need not ask."""
        if self._goal is not None:
            return
        if self._change_watch is None:
            is_named = bool(self.options.selection.topics)
            trust_s = _TRUST_S if is_named else _TRUST_FOUND_S
            self._change_watch = ChangeWatch(self.options.broker, trust_s=trust_s)
        if start != self._quiet:
            self._change_watch.stop()
            self._quiet = start
        self._change_watch.start(views)

    def _outlook(self, read: Offset, view: TopicView) -> Outlook:
        goal = None if self._goal is None else self._goal.get(view.name)
        if self._goal is not None and goal is None:
            return Outlook(())
        return plan_outlook(read.of(view.name), view, goal, hold=read.hold)

    def _check_loss(self, outlooks: Any) -> None:
        gaps = [gap for outlook in outlooks for gap in outlook.gaps]
        if gaps and self.options.fail_on_loss:
            raise DataLost(explain_loss(gaps))

    def _look_again(self, before: Offset, after: Offset) -> Mapping[str, TopicView]:
        """The topics of a batch that an earlier driver has planned; what is gone since is lost."""
        changed = [
            name for name, until in after.topics.items() if until.places != before.of(name).places
        ]
        if not changed:
            return {}
        selection = replace(self.options.selection, topics=tuple(changed))
        found = self._asking.look(selection, read=before, hold=after.hold)
        if self.options.fail_on_loss:
            for name in changed:
                if name not in found.views:
                    raise DataLost(f"There is no topic {name} any more")
            lost = [
                gap
                for name, view in found.views.items()
                for gap in find_lost(before.of(name), after.of(name), view, hold=after.hold)
            ]
            if lost:
                raise DataLost(explain_loss(lost))
        return found.views

    def _waited_s(self) -> float:
        now = time.monotonic()
        if self._waiting_since is None:
            self._waiting_since = now
        return now - self._waiting_since

    def _move_hold(self, offset: Offset) -> None:
        if offset.hold is None or not self.options.hold:
            return
        if self._hold is None or self._hold.name != offset.hold:
            self._hold = Hold(self._asking, offset.hold)
        self._hold.move(self._views, offset)


def _is_same(read: Offset, topics: Mapping[str, TopicOffset]) -> bool:
    """Whether nothing was read, nothing has ended and no topic has gone."""
    return read.topics.keys() <= topics.keys() and all(
        (read.of(name).places, read.of(name).ended) == (each.places, each.ended)
        for name, each in topics.items()
    )

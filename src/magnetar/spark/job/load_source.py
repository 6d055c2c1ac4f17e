"""A stream of looks at a cluster's scalable topics; offsets are their times."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

from magnetar.client.error import AdminUnreachable
from magnetar.runtime.clock import SystemClock
from magnetar.spark.access import open_admin
from magnetar.spark.job.journal import Journal
from magnetar.spark.job.sampler import SCHEMA, list_topics, look
from magnetar.spark.option import Options, parse_access

NAME: Final = "magnetar-load"
_TYPES: Final = {
    pa.string(): "string",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float64(): "double",
    pa.timestamp("us", tz="UTC"): "timestamp",
    pa.list_(pa.int64()): "array<long>",
}


class LoadSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        columns = ", ".join(f"{field.name} {_TYPES[field.type]}" for field in SCHEMA)
        return f"{columns}, part long"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return LoadStreamReader(dict(self.options))


@dataclass(frozen=True, slots=True)
class Looks(InputPartition):
    """Files of the journal that one batch reads."""

    journal: str
    slots: tuple[int, ...]
    part: int
    """The time after which the batch begins: no other has it, and when it is repeated it has it
    again.
    """


class LoadStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Samples when Spark asks how far it may read, and lets it read whole stretches of time."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._url = options["adminurl"]
        self._access = parse_access(Options(options))
        self._namespaces = [each for each in options.get("namespaces", "").split(",") if each]
        self._interval_ms = int(options["intervalms"])
        self._flush_ms = int(options["flushms"])
        self._is_collecting = options.get("collect", "true") == "true"
        self._path = options["journal"]
        self._lock: int | None = None

    def initialOffset(self) -> dict[str, int]:
        return {"slot": Journal(self._path).committed}

    def prepareForTriggerAvailableNow(self) -> None:
        """Whatever the journal holds is what is available: nothing is sampled then."""

    def latestOffset(self, start: Mapping[str, int], limit: Any) -> dict[str, int]:
        journal = Journal(self._path)
        if self._is_collecting:
            if self._lock is None:
                self._lock = journal.lock()
            if journal.is_paused:
                return dict(start)
            self._collect(journal)
        newest = journal.newest
        if newest is None:
            return dict(start)
        # What is left open is written with the next stretch, so that files do not get too small.
        open_from = newest // self._flush_ms * self._flush_ms if self._flush_ms else newest + 1
        whole = [slot for slot in journal.slots if slot < open_from]
        return {"slot": max([start["slot"], *whole])}

    def _collect(self, journal: Journal) -> None:
        slot = SystemClock().now_ms() // self._interval_ms * self._interval_ms
        if slot <= max(journal.newest or 0, journal.committed):
            return
        try:
            with open_admin(self._url, self._access) as admin:
                topics = list_topics(admin, self._namespaces)
                rows, known = look(admin, topics, journal.known(), at_ms=slot)
        except AdminUnreachable:
            return  # a look that could not be had is a gap in the history, and not its end
        journal.append(slot, rows, known)

    def partitions(self, start: Mapping[str, int], end: Mapping[str, int]) -> Sequence[Looks]:
        journal = Journal(self._path)
        slots = [slot for slot in journal.slots if start["slot"] < slot <= end["slot"]]
        return [Looks(self._path, tuple(slots), start["slot"])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Looks)
        journal = Journal(partition.journal)
        for slot in partition.slots:
            table = journal.read(slot).replace_schema_metadata(None)
            part = pa.array([partition.part] * len(table), pa.int64())
            yield from table.append_column("part", part).to_batches()

    def stop(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def commit(self, end: Mapping[str, int]) -> None:
        Journal(self._path).forget(end["slot"])

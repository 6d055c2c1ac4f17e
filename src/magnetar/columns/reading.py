"""Reading a topic by columns: entries become Arrow batches, with no object for each message."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from magnetar.client.delivery import RawEntry
from magnetar.client.error import ConfigurationError
from magnetar.columns.column import COLUMNS, ChunkUnbegun, ColumnDecoder, EntryUnreadable
from magnetar.runtime.log import Logger

_log = Logger(__name__)

SEGMENT = "segment"


class ColumnReading:
    """Add entries of any segments, take what they gave. A `segment` column says where from."""

    def __init__(self, columns: Iterable[str]) -> None:
        names = tuple(dict.fromkeys(columns))
        known = (*COLUMNS, SEGMENT)
        wrong = [name for name in names if name not in known]
        if wrong or not names:
            raise ConfigurationError(
                f"No column is called {', '.join(wrong) or 'nothing'}; there are {', '.join(known)}"
            )
        self._names = names
        self._decoder = ColumnDecoder([name for name in names if name != SEGMENT] or ["entry"])
        self._segments: list[int] = []
        self._counts: list[int] = []

    @property
    def rows(self) -> int:
        return self._decoder.rows

    def add(self, raw: RawEntry) -> None:
        """An unreadable one is passed over, as other consumers do."""
        before = self._decoder.rows
        try:
            self._decoder.add(raw.place.ledger_id, raw.place.entry_id, raw.data, start=raw.start)
        except (EntryUnreadable, ChunkUnbegun) as error:
            _log.warning("entry passed over", reason=error.sentence)
            return
        self._segments.append(raw.origin)
        self._counts.append(self._decoder.rows - before)

    def take(self) -> pa.RecordBatch:
        batch = self._decoder.take()
        segments = np.repeat(np.asarray(self._segments, np.int64), self._counts)
        self._segments, self._counts = [], []
        if SEGMENT in self._names:
            batch = batch.append_column(SEGMENT, pa.array(segments))
        return batch.select(list(self._names))

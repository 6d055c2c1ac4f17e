"""What the entries of journals hold: records that were appended until the same commit."""

from __future__ import annotations

from typing import Final

from magnetar.runtime.metric import Histogram, Labels, MetricKind, MetricText, format_labels

_RECORDS: Final = (1, 2, 5, 10, 50, 100, 200, 500, 1000)
_BYTES: Final = (128, 512, 1024, 2048, 4096, 16384, 102400, 1232896)
_SECONDS: Final = (0.0001, 0.001, 0.005, 0.01, 0.1, 1.0, 5.0, 10.0)


class Batches:
    """Of all journals of one kind."""

    def __init__(self, prefix: str) -> None:
        self._records = Histogram(f"{prefix}_batch_records", "", _RECORDS)
        self._bytes = Histogram(f"{prefix}_batch_size_bytes", "", _BYTES)
        self._waited = Histogram(f"{prefix}_batch_oldest_record_delay_seconds", "", _SECONDS)
        self._full_name = f"{prefix}_flush_trigger_max_records_total"
        self.full = 0
        """Entries that left before the commit, for they held enough records."""

    def observe(self, records: int, size: int, waited_s: float) -> None:
        self._records.observe(records)
        self._bytes.observe(size)
        self._waited.observe(waited_s)

    def write(self, text: MetricText, labels: Labels) -> None:
        for each in (self._records, self._bytes, self._waited):
            each.write(text, labels)
        text.add(self._full_name, format_labels(labels), self.full, kind=MetricKind.COUNTER)

"""The rows of the comparison: who runs what, and which figure of it counts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

OURS = "magnetar"
PEERS = ("kafka-sync", "kafka", "nats-sync", "nats")
"""With fsync before the acknowledgement, and with the defaults, which are without."""

NATS_SHARE = 10
"""nats-py takes as many times longer for a message: it gets fewer of them."""
SYNCED_MAX = 2_000
"""Where each message is a sync of its own: NATS has no batches, and Kafka here and there none."""

FRESH = ("life", "recovery", "topics")
"""Measures that start a server of their own."""
NATIVE = ("native-produce", "native-consume")
"""Measures of the tools and clients in the server's own language."""


@dataclass(frozen=True, slots=True)
class Run:
    """One measure of one client; equal ones are run once for all rows of a round."""

    contender: str
    side: str
    measure: str
    size: int
    count: int

    @property
    def kind(self) -> str:
        """The server that the contender is a setting of."""
        return self.contender.removesuffix("-sync")

    @property
    def is_synced(self) -> bool:
        return self.contender.endswith("-sync")


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    figure: str
    measure: str
    side: str = "sdk"
    """Our client."""
    ours: str = ""
    """What our client runs instead."""
    size: int = 100
    count: int = 400_000
    capped: bool = True
    """Whether the slow contenders get fewer messages."""

    @property
    def higher_is_better(self) -> bool:
        return self.figure.endswith("per_s")

    def ratio(self, ours: float, theirs: float) -> float:
        """Above 1 means ours is better, whatever the figure."""
        return ours / theirs if self.higher_is_better else theirs / max(ours, 1e-9)

    def runs(self, scale: float) -> Iterator[Run]:
        count = max(100, int(self.count * scale)) if self.capped else self.count
        yield Run(OURS, self.side, self.ours or self.measure, self.size, count)
        for contender in PEERS:
            kind = contender.removesuffix("-sync")
            yield Run(contender, kind, self.measure, self.size, self._cap(contender, count))

    def _cap(self, contender: str, count: int) -> int:
        if not self.capped or count <= SYNCED_MAX:
            return count
        if contender == "nats-sync" or (
            contender == "kafka-sync" and self.measure == "produce-unbatched"
        ):
            return SYNCED_MAX
        return count // NATS_SHARE if contender == "nats" else count


def rows_of(name: str, figure: str, measure: str) -> Iterator[Row]:
    """The same with messages of 100 bytes and of 1 KiB, for each of our clients."""
    for label, size, count in (("100", 100, 400_000), ("1k", 1024, 200_000)):
        yield Row(f"{name}-{label}", figure, measure, size=size, count=count)
        ours = f"{measure}-columns"
        yield Row(f"{name}-{label}-columns", figure, measure, ours=ours, size=size, count=count)
        each = "produce-each" if measure == "produce" else measure
        if measure == "produce":
            yield Row(f"{name}-{label}-each", figure, each, size=size, count=count)
        row = f"{name}-{label}-official"
        yield Row(row, figure, each, side="official", size=size, count=count)


ROWS = (
    *rows_of("produce", "rate_per_s", "produce"),
    Row("produce-unbatched-100", "rate_per_s", "produce-unbatched", count=30_000),
    Row("request-100-p50", "p50_ms", "request", count=1_000),
    Row("request-100-p99", "p99_ms", "request", count=1_000),
    Row("request-1k-p50", "p50_ms", "request", size=1024, count=1_000),
    Row("request-1k-p99", "p99_ms", "request", size=1024, count=1_000),
    Row("request-100-p50-official", "p50_ms", "request", side="official", count=1_000),
    Row("request-100-p99-official", "p99_ms", "request", side="official", count=1_000),
    Row("end-to-end-p50", "p50_ms", "end-to-end", count=3_000, capped=False),
    Row("end-to-end-p99", "p99_ms", "end-to-end", count=3_000, capped=False),
    Row("end-to-end-p50-official", "p50_ms", "end-to-end", "official", count=3_000, capped=False),
    Row("end-to-end-p99-official", "p99_ms", "end-to-end", "official", count=3_000, capped=False),
    *rows_of("consume", "rate_per_s", "consume"),
    Row("queue", "rate_per_s", "queue", count=100_000),
    Row("queue-official", "rate_per_s", "queue", side="official", count=100_000),
    Row("native-produce-100", "rate_per_s", "native-produce", side="java", count=1_000_000),
    Row("native-consume-100", "rate_per_s", "native-consume", side="java", count=1_000_000),
    Row("topics-1000", "seconds", "topics", count=1_000, capped=False),
    Row("topics-1000-memory", "kib_each", "topics", count=1_000, capped=False),
    Row("topics-10000", "seconds", "topics", count=10_000, capped=False),
    Row("topics-10000-memory", "kib_each", "topics", count=10_000, capped=False),
    Row("start", "start_s", "life"),
    Row("memory-idle", "idle_mib", "life"),
    Row("memory-loaded", "loaded_mib", "life"),
    Row("disk-100", "disk_bytes", "life"),
    Row("recovery", "recovery_s", "recovery", size=65_536, count=16_384, capped=False),
)

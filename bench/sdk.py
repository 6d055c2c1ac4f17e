"""The SDK beside the official C++-based client: same broker, same machine, one run.

Every measure is a process of its own, once for each client in turn, and every second round begins
with the other one. A ratio above 1 means that the SDK is better. Backlogs are written by the
official client, so that both read the same bytes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bench.gauge import median
from magnetar import PulsarClient
from magnetar.client.admin import AdminClient
from magnetar.testing.broker import MagnetarBroker

Result = dict[str, Any]
HOLD = "hold"
"""A subscription that nobody consumes: it keeps the backlog."""


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    measure: str
    figure: str
    size: int = 100
    count: int = 300_000
    reads: bool = False
    needs: str = ""
    """The line it is held against."""
    options: tuple[str, ...] = ()
    peer: str = ""
    """What the official client runs instead."""
    scalable: bool = False

    def ratio(self, ours: float, theirs: float) -> float:
        return ours / theirs if self.figure == "rate_per_s" else theirs / max(ours, 0.001)


ROWS = (
    Row("produce batched 100 B", "produce-batched", "rate_per_s", needs="0.9"),
    Row("produce batched 1 KB", "produce-batched", "rate_per_s", 1024, 200_000, needs="0.9"),
    Row("… each heard", "produce-batched", "rate_per_s", options=("--heard",), count=100_000),
    Row("produce unbatched", "produce-unbatched", "rate_per_s", count=50_000, needs="1.1"),
    Row("… each heard", "produce-unbatched", "rate_per_s", options=("--heard",), count=50_000),
    Row("sync submit batched", "sync-submit", "rate_per_s", count=100_000, needs="1.0"),
    Row("send and wait", "sync-send", "p50_ms", count=1_000, needs="0.91"),
    Row("consume batched 100 B", "consume", "rate_per_s", reads=True, needs="1.0"),
    Row("consume batched 1 KB", "consume", "rate_per_s", 1024, reads=True, needs="1.0"),
    Row("sync consume, ack each", "sync-consume", "rate_per_s", reads=True, needs="0.8"),
    Row("receive_many, checkpoint", "read", "rate_per_s", reads=True, needs="1.0", scalable=True),
    Row("… and look at the data", "read-data", "rate_per_s", reads=True, scalable=True),
    Row(
        "columns, checkpoint",
        "read-columns",
        "rate_per_s",
        reads=True,
        needs="2.0",
        peer="read",
        scalable=True,
    ),
    Row("1,000 idle consumers", "idle-consumers", "kib_each"),
    Row("import", "import", "import_ms", needs="below 100 ms"),
)


class Bench:
    def __init__(self, url: str, admin_url: str, *, scale: float) -> None:
        self._url = url
        self._admin = AdminClient(admin_url)
        self._scale = scale
        self._backlogs: dict[tuple[int, bool], str] = {}

    def run(self, row: Row, rounds: int) -> tuple[Result, Result]:
        both: dict[str, list[Result]] = {"ours": [], "official": []}
        for number in range(rounds):
            for side in ("ours", "official") if number % 2 == 0 else ("official", "ours"):
                both[side].append(self._measure(row, side))
        return self._summary(row, both["ours"]), self._summary(row, both["official"])

    def _measure(self, row: Row, side: str) -> Result:
        count = max(1_000, int(row.count * self._scale))
        if row.reads:
            topic = self._backlog(row.size, count, scalable=row.scalable and side == "ours")
        else:
            topic = f"persistent://public/default/{_word()}"
        measure = row.peer if side == "official" and row.peer else row.measure
        return self._call(side, measure, topic, row.size, count, *row.options)

    def _backlog(self, size: int, count: int, *, scalable: bool) -> str:
        """A topic that holds so many messages; a scalable one was regular when they came."""
        topic = self._backlogs.get((size, scalable))
        if topic is None:
            regular = f"persistent://public/default/{_word()}"
            with PulsarClient(self._url) as client:
                client.consumer(regular, HOLD).close()
            self._call("official", "produce-batched", regular, size, count)
            topic = regular
            if scalable:
                self._admin.scalable_topics.migrate_to_scalable(regular)
                topic = regular.replace("persistent", "topic")
            self._backlogs[size, scalable] = topic
        return topic

    def _call(
        self, side: str, measure: str, topic: str, size: int, count: int, *more: str
    ) -> Result:
        command = [sys.executable, "-m", "bench.sdk_side", side, measure]
        command += ["--url", self._url, "--topic", topic]
        command += ["--size", str(size), "--count", str(count), *more]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        result: Result = json.loads(done.stdout.splitlines()[-1])
        return result

    @staticmethod
    def _summary(row: Row, results: list[Result]) -> Result:
        names = results[0].keys()
        return {name: median([each[name] for each in results]) for name in names}


def _word() -> str:
    return f"sdk-{uuid.uuid4().hex[:8]}"


def show(document: Iterator[tuple[Row, Result, Result]]) -> None:
    print(f"{'measure':<26}{'figure':<12}{'ours':>12}{'official':>12}{'ratio':>8}  needed")
    for row, ours, theirs in document:
        mine, other = ours[row.figure], theirs[row.figure]
        cells = f"{row.name:<26}{row.figure:<12}{mine:>12,g}{other:>12,g}"
        print(f"{cells}{row.ratio(mine, other):>8.2f}  {row.needs}", flush=True)
        if "cpu_us" in ours:
            print(f"{'':<26}{'cpu_us':<12}{ours['cpu_us']:>12,g}{theirs['cpu_us']:>12,g}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", metavar="WORD", default=[], help="rows with a word")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each; the median counts")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the messages to send")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = [row for row in ROWS if not options.only or any(w in row.name for w in options.only)]
    with MagnetarBroker() as broker:
        bench = Bench(broker.service_url, broker.admin_url, scale=options.scale)
        document = ((row, *bench.run(row, options.rounds)) for row in rows)
        if options.json:
            print(json.dumps({row.name: [ours, theirs] for row, ours, theirs in document}))
        else:
            show(document)


if __name__ == "__main__":
    main()

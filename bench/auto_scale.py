"""Topics that scale themselves: how soon, at what price, and how many a second can be decided.

`reaction` is the time from the first message of a load to the first message that a child of the
loaded segment accepts, side by side with a real Apache Pulsar with the same settings: once with the
intervals of the defaults, once with quick ones. Limits are low in both, so that the machine is not
what is measured; loads begin spread over the interval. `decide` and `reports` need no broker.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any

from bench.gauge import percentile_ms
from bench.run import running_peer
from bench.scalable import Side
from bench.segmented import KeyedLoad, SegmentedLine
from magnetar.broker.scalable.load import Count, Meter
from magnetar.model.autoscale import AutoScalePolicy
from magnetar.model.layout import Layout
from magnetar.model.scalable import SegmentLoad
from magnetar.model.segment import SegmentId
from magnetar.rules.report import decide_report
from magnetar.rules.scale import Sample, Surroundings, decide, rates_of
from magnetar.spark.job.column import Columns, choose
from magnetar.testing import MagnetarBroker
from magnetar.wire.command import CommandSendReceipt

Result = dict[str, Any]
LOW: Mapping[str, object] = {
    "scalableTopicSplitMsgRateInThreshold": 100,
    "scalableTopicMergeMsgRateInThreshold": 10,
}
QUICK: Mapping[str, object] = {
    "scalableTopicAutoScaleIntervalSeconds": 1,
    "scalableTopicLoadReportIntervalSeconds": 1,
    "statsUpdateFrequencyInSecs": 1,
}
RATE_PER_S, REACTION_S_MAX = 200.0, 240.0
INTERVAL_S = 10.0


# From the beginning of a load to the first message in a child
class ChildWatch(KeyedLoad):
    """A load that knows when a segment other than the first accepted something."""

    def __init__(self, line: SegmentedLine, topic: str) -> None:
        super().__init__(line, topic)
        self.accepted: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    async def settle(self) -> None:
        """Let the producers that are being opened come to be."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _on_receipt(self, receipt: CommandSendReceipt) -> None:
        super()._on_receipt(receipt)
        if receipt.producer_id != 0 and not self.accepted.done():
            self.accepted.set_result(time.perf_counter())


async def react(side: Side, number: int, delay_s: float) -> float:
    """Seconds until a child takes over; the load goes on until then."""
    topic = f"topic://public/default/react-{number}"
    with side.admin() as admin:
        await asyncio.to_thread(admin.scalable_topics.create, topic)
        # Apache Pulsar looks at the load of topics only that somebody made a controller for.
        await asyncio.to_thread(admin.scalable_topics.create_subscription, topic, "s")
    async with SegmentedLine.open(side.host, side.port) as line:
        load = ChildWatch(line, topic)
        await load.begin(session=1)
        await asyncio.sleep(delay_s)
        began = time.perf_counter()
        sending = asyncio.create_task(load.run(seconds=REACTION_S_MAX, rate_per_s=RATE_PER_S))
        try:
            async with asyncio.timeout(REACTION_S_MAX):
                return await load.accepted - began
        finally:
            sending.cancel()
            with suppress(asyncio.CancelledError):
                await sending
            await load.settle()


async def react_all(side: Side, count: int, spread_s: float) -> list[float]:
    await react(side, -1, 0.0)  # warms the broker, a fresh JVM above all
    delays = [spread_s * number / count for number in range(count)]
    return list(
        await asyncio.gather(*(react(side, number, each) for number, each in enumerate(delays)))
    )


def measure_reaction(options: argparse.Namespace) -> Result:
    found: Result = {}
    for name, settings, spread_s in (
        ("default", LOW, 60.0),
        ("quick", {**LOW, **QUICK}, 5.0),
    ):
        if name not in options.knobs:
            continue
        for side_name in ("ours",) if options.no_peer else ("ours", "theirs"):
            with ExitStack() as stack:
                side = stack_side(stack, side_name, settings)
                times = asyncio.run(react_all(side, options.topics, spread_s))
            found[f"{name} {side_name}"] = {
                "p50_s": round(percentile_ms(times, 0.50) / 1000, 2),
                "p99_s": round(percentile_ms(times, 0.99) / 1000, 2),
            }
    return found


def stack_side(stack: ExitStack, name: str, settings: Mapping[str, object]) -> Side:
    if name == "ours":
        given = {key: str(value) for key, value in settings.items()}
        broker = stack.enter_context(MagnetarBroker(set=given))
        return Side(name, broker.service_url, broker.admin_url, broker.pid)
    peer = stack.enter_context(running_peer(sync=False, settings=settings))
    return Side(name, peer.service_url, peer.admin_url)


# Decisions
def measure_decide(options: argparse.Namespace) -> Result:
    """Segments a second, on one core: as a controller asks, and over columns as a job asks."""
    found: Result = {}
    segments, times = 64, 100
    layout, around = Layout.initial(segments, now_ms=0), Surroundings()
    policy = AutoScalePolicy(maxSegments=128)
    for name, most in (("cold", 0.05), ("balanced", 0.9), ("hot", 1.5)):
        chance = random.Random(7)
        shares = [chance.random() * most for _ in range(segments)]
        loads = [SegmentLoad(*(share * limit for limit in policy.split_above)) for share in shares]
        known = {SegmentId(number): Sample(load, 1e9) for number, load in enumerate(loads)}
        columns = Columns(
            list(known),
            list(zip(*map(rates_of, loads), strict=True)),
            [1e9] * segments,
            [0] * segments,
            [1_024] * segments,
        )
        asked: dict[str, Callable[[], object]] = {
            "segments_per_s": partial(decide, layout, known, policy, around),
            "column_segments_per_s": partial(choose, columns, policy, around),
        }
        found[name] = {
            figure: round(times * segments / min(timed(ask, times) for _ in range(options.repeat)))
            for figure, ask in asked.items()
        }
    return found


def timed(body: Callable[[], object], times: int) -> float:
    began = time.perf_counter()
    for _ in range(times):
        body()
    return time.perf_counter() - began


# Reports
def measure_reports(options: argparse.Namespace) -> Result:
    """Writes to the metadata store that 1,000 segments cause in an hour, by kind of load."""
    chance = random.Random(11)
    loads: dict[str, Callable[[int], float]] = {
        "steady": lambda _: 3_000.0,
        "noisy 10 %": lambda _: 3_000.0 * chance.uniform(0.9, 1.1),
        "noisy 50 %": lambda _: 3_000.0 * chance.uniform(0.5, 1.5),
        "noisy at a limit": lambda _: 10_000.0 * chance.uniform(0.95, 1.05),
        "bursty": lambda turn: 9_000.0 if turn % 60 < 3 else 100.0,
        "wild": lambda _: chance.choice([0.0, 100.0, 9_000.0, 40_000.0]),
    }
    rounds = int(3_600 / INTERVAL_S)
    segments = options.segments
    found: Result = {"bound": {"writes_per_1000_segments_hour": 1_000 * rounds}}
    for name, rate_of in loads.items():
        writes = sum(count_writes(rate_of, rounds) for _ in range(segments))
        found[name] = {"writes_per_1000_segments_hour": round(writes * 1_000 / segments)}
    return found


def count_writes(rate_of: Callable[[int], float], rounds: int) -> int:
    meter, total, writes = Meter(Count(0.0)), 0, 0
    last: SegmentLoad | None = None
    policy = AutoScalePolicy()
    for turn in range(rounds):
        total += round(rate_of(turn) * INTERVAL_S)
        load = meter.measure(Count((turn + 1) * INTERVAL_S, total, total * 100, total, total * 100))
        assert load is not None
        if decide_report(last, load, change=0.25, policy=policy):
            last, writes = load, writes + 1
    return writes


MEASURES: dict[str, Callable[[argparse.Namespace], Result]] = {
    "decide": measure_decide,
    "reports": measure_reports,
    "reaction": measure_reaction,
}


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="*", choices=list(MEASURES), default=list(MEASURES))
    parser.add_argument("--knobs", nargs="*", choices=("default", "quick"), default=["quick"])
    parser.add_argument("--no-peer", action="store_true", help="measure Magnetar alone")
    parser.add_argument("--topics", type=int, default=12, help="loads that begin one by one")
    parser.add_argument("--segments", type=int, default=200, help="segments that report")
    parser.add_argument("--repeat", type=int, default=5, help="runs of a rate; the best counts")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args(words)


def main() -> None:
    options = arguments()
    document: Result = {}
    for name in options.only:
        result = document[name] = MEASURES[name](options)
        if not options.json:
            for part, figures in result.items():
                for figure, value in figures.items():
                    print(f"{name:<9} {part:<17} {figure:<30} {value:>14,}", flush=True)
    if options.json:
        print(json.dumps(document, indent=2))


if __name__ == "__main__":
    main()

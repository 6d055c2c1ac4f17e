"""Migration of regular topics: how long the command takes, and how long writers hear nothing.

Each row is a number of partitions, how much the topic holds, and how many subscriptions it has;
keyed messages are sent to it all the while. Side by side with a real Apache Pulsar in the same
session: every round flips one topic of each row on each side, after a round that warms both up.
`--full` measures what the project promises: up to 512 partitions, 10 GiB, 100 subscriptions.

Every flip begins on a quiet broker and a quiet disk, on both sides and whether the topic holds
anything or not: a broker that has just taken 10 GiB moves them from its journal to their place for
a while, and the kernel writes behind. What is measured is a topic with months of data, not one that
was filled a second ago. Right before, a small topic is flipped that does not count.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from bench.gauge import cpu_s, median
from bench.line import Line
from bench.run import running_peer
from bench.scalable import Side
from bench.segmented import KeyedLoad, SegmentedLine
from magnetar.client.admin import AdminClient
from magnetar.client.error import AdminError, AdminUnreachable
from magnetar.model.migration import MANAGED, legacy_names
from magnetar.model.name import parse_topic
from magnetar.model.segment import scalable_name
from magnetar.testing import MagnetarBroker
from magnetar.wire.command import CommandProducer, KeyValue

Result = dict[str, Any]
BEFORE_S, AFTER_S, CALL_S_MAX = 0.5, 1.0, 60.0
SETTLED_S = 0.05
"""After the last producer is back and the command is answered."""
OPENING_S = 0.005
"""For one producer."""
ENTRY_BYTES = 64 << 10
WINDOW, BURST = 256, 16
RATE_PER_S = 1000.0
MIB = 1 << 20
QUIET_SHARE, QUIET_S, QUIET_S_MAX = 0.1, 0.5, 120.0
"""Of a processor, over so long; and how long to wait for it at most."""
MANY, MANY_ROUNDS = 512, 2
LARGE_MIB = 4096
"""A topic of such a size is filled so often only as `--large` says, and once on the other side,
which needs its room for much longer.
"""


@dataclass(frozen=True, slots=True)
class Row:
    partitions: int
    data_mib: int = 0
    subscriptions: int = 1

    def __str__(self) -> str:
        return f"{self.partitions} x {self.data_mib} MiB x {self.subscriptions}"


def parse_row(text: str) -> Row:
    """`8,10240,1`: partitions, MiB, subscriptions; the last two may be left out."""
    return Row(*map(int, text.split(",")))


EMPTY = Row(8)
SMALL = (Row(1), EMPTY, Row(64), Row(8, data_mib=256), Row(8, subscriptions=10))
FULL = (
    *(Row(partitions) for partitions in (1, 8, 64, 512)),
    *(Row(8, data_mib=size) for size in (1024, 10240)),
    *(Row(8, subscriptions=count) for count in (10, 100)),
)


@dataclass(frozen=True, slots=True)
class Flip:
    call_s: float
    silence_s: float
    """The longest time without a receipt, until all producers are back."""


class FollowingLine(SegmentedLine):
    """Says of its producers that they will follow the topic."""

    async def create_producer(self, producer_id: int, topic: str) -> None:
        await self._look_up(topic)
        mark = [KeyValue(key=MANAGED, value="true")]
        command = CommandProducer(topic=topic, producer_id=producer_id, request_id=0, metadata=mark)
        answer = await self._ask(command)
        self._names[producer_id] = answer.producer_success.producer_name


async def fill(side: Side, topics: Sequence[str], size_mib: int) -> None:
    async with Line.open(side.host, side.port) as line:
        for number, topic in enumerate(topics):
            await line.create_producer(number, topic)
        payload = bytes(ENTRY_BYTES)
        for start in range(0, size_mib * MIB // ENTRY_BYTES, 1024):
            entries = range(start, min(start + 1024, size_mib * MIB // ENTRY_BYTES))
            frames = [
                line.encode_send(each % len(topics), each // len(topics), payload)
                for each in entries
            ]
            await line.send_all(frames, window=WINDOW, burst=BURST)


async def await_quiet(pid: int) -> None:
    deadline = time.monotonic() + QUIET_S_MAX
    before = cpu_s(pid)
    while time.monotonic() < deadline:
        await asyncio.sleep(QUIET_S)
        used = cpu_s(pid)
        if used - before < QUIET_SHARE * QUIET_S:
            break
        before = used
    os.sync()


async def flip_under_load(side: Side, admin: AdminClient, topic: str, row: Row) -> Flip:
    async with FollowingLine.open(side.host, side.port) as line:
        load = KeyedLoad(line, topic)
        await load.begin(session=1)
        sending = asyncio.create_task(load.run(seconds=CALL_S_MAX, rate_per_s=RATE_PER_S))
        # All producers are there by then.
        await asyncio.sleep(BEFORE_S + row.partitions * OPENING_S)
        began = time.perf_counter()
        await asyncio.to_thread(admin.scalable_topics.migrate_to_scalable, topic)
        call_s = time.perf_counter() - began
        await asyncio.sleep(AFTER_S)
        load.stop()
        await sending
        await load.drain()
        # What a disk that is busy with others does later is none of the flip's.
        end = max(began + call_s, load.opened_at) + SETTLED_S
        return Flip(call_s, load.longest_silence_s(began, end))


async def flip_once(side: Side, topic: str, row: Row) -> Flip:
    with side.admin() as admin:
        admin.topics.create_partitioned(topic, row.partitions)
        for number in range(row.subscriptions):
            admin.subscriptions.create(topic, f"s{number}")
        if row.data_mib:
            parts = [each.full for each in legacy_names(parse_topic(topic), row.partitions)]
            await fill(side, parts, row.data_mib)
        await await_quiet(side.pid)
        flip_small(admin, f"{topic}-small")
        flip = await flip_under_load(side, admin, topic, row)
        if side.name == "ours" or row.data_mib:  # to delete many segments takes the other minutes
            delete(admin, topic)
        return flip


def flip_small(admin: AdminClient, topic: str) -> None:
    """So that no flip is the first after a while: filling a topic leaves little else in memory."""
    admin.topics.create_partitioned(topic, 1)
    admin.scalable_topics.migrate_to_scalable(topic)
    delete(admin, topic)


async def flip_or_tell(side: Side, topic: str, row: Row) -> Flip | None:
    """What the other side refuses is said and left out; our own refusals end the run."""
    name = f"  {parse_topic(topic).local:<18} {side.name:<7}"
    try:
        flip = await flip_once(side, topic, row)
    except (AdminError, AdminUnreachable, OSError, TimeoutError) as refusal:
        if side.name == "ours":
            raise
        print(f"{name} {str(refusal)[:100]!r}", file=sys.stderr, flush=True)
        return None
    figures = f"{flip.call_s * 1000:8.1f} ms  {flip.silence_s * 1000:8.1f} ms of silence"
    print(f"{name} {figures}", file=sys.stderr, flush=True)
    return flip


def delete(admin: AdminClient, topic: str) -> None:
    """With what it was before, which the other side keeps."""
    for remove, name in (
        (admin.scalable_topics.delete, scalable_name(parse_topic(topic)).full),
        (admin.topics.delete_partitioned, topic),
    ):
        try:
            remove(name, force=True)
        except AdminError:
            pass  # gone already


def measure(sides: Sequence[Side], rows: Sequence[Row], options: argparse.Namespace) -> Result:
    flips: dict[Row, dict[str, list[Flip]]] = {
        row: {side.name: [] for side in sides} for row in rows
    }
    for number in range(options.repeat + 1):
        for row in rows:
            for side in sides if number % 2 else reversed(sides):
                if is_wanted(row, side, number, options):
                    local = f"m-{row.partitions}-{row.data_mib}-{row.subscriptions}-{number}"
                    topic = f"persistent://public/default/{local}"
                    flip = asyncio.run(flip_or_tell(side, topic, row))
                    if flip is not None and (number or row.data_mib):  # the first round warms up
                        flips[row][side.name].append(flip)
    return {str(row): summarise(found) for row, found in flips.items()}


def is_wanted(row: Row, side: Side, number: int, options: argparse.Namespace) -> bool:
    """Whether a row has its turn in a round; the first one warms up what costs little. The other
    side is spared what it is slow to get rid of.
    """
    if row.partitions >= MANY and side.name != "ours" and number > MANY_ROUNDS:
        return False
    if row.data_mib < LARGE_MIB:
        return bool(number) or not row.data_mib
    return 0 < number <= (options.large if side.name == "ours" else 1)


def summarise(found: Mapping[str, Sequence[Flip]]) -> Result:
    result: Result = {
        name: {
            "call_ms": round(median([each.call_s for each in flips]) * 1000, 1),
            "silence_ms": round(median([each.silence_s for each in flips]) * 1000, 1),
            "flips": len(flips),
        }
        for name, flips in found.items()
        if flips
    }
    if len(result) == 2:
        ours, theirs = result["ours"], result["theirs"]
        for figure in ("call_ms", "silence_ms"):
            result[f"{figure}_ratio"] = round(theirs[figure] / ours[figure], 2)
    return result


def find_laws(document: Result) -> Result:
    """How the command's time grows: with data, and with partitions as against their number."""

    def call_ms(row: Row) -> float | None:
        return document.get(str(row), {}).get("ours", {}).get("call_ms")

    laws: Result = {}
    empty = call_ms(EMPTY)
    for size in (256, 1024, 10240):
        full = call_ms(Row(8, data_mib=size))
        if empty and full:
            laws[f"{size} MiB : empty"] = round(full / empty, 2)
    for few, many in ((1, 8), (8, 64), (64, 512)):
        less, more = call_ms(Row(few)), call_ms(Row(many))
        if less and more:
            laws[f"{many} : {few} partitions"] = round(more / less, 2)
    return laws


def show(document: Result) -> None:
    columns = ("call_ms", "silence_ms")
    print(
        f"\n{'partitions x data x subs':<24} {'figure':<11} {'ours':>9} {'theirs':>9} {'ratio':>7}"
    )
    for row, result in document.items():
        for figure in columns:
            cells = [result.get(side, {}).get(figure, "") for side in ("ours", "theirs")]
            ratio = result.get(f"{figure}_ratio", "")
            print(f"{row:<24} {figure:<11} {cells[0]:>9} {cells[1]:>9} {ratio:>7}")
    for law, value in find_laws(document).items():
        print(f"{law:<24} {'call_ms':<11} {value:>9}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--full", action="store_true", help="the sizes the project promises")
    parser.add_argument(
        "--row", type=parse_row, nargs="+", metavar="P,MIB,SUBS", help="these rows only"
    )
    parser.add_argument("--no-peer", action="store_true", help="measure Magnetar alone")
    parser.add_argument("--sync", action="store_true", help="let Apache Pulsar sync as well")
    parser.add_argument("--repeat", type=int, default=5, help="rounds; the median counts")
    parser.add_argument("--large", type=int, default=3, help="rounds with topics of 4 GiB and more")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    rows = options.row or (FULL if options.full else SMALL)
    with ExitStack() as stack:
        broker = stack.enter_context(MagnetarBroker())
        sides = [Side("ours", broker.service_url, broker.admin_url, broker.pid)]
        if not options.no_peer:
            peer = stack.enter_context(running_peer(sync=options.sync))
            sides.append(Side("theirs", peer.service_url, peer.admin_url, peer.pid))
        document = measure(sides, rows, options)
        if options.json:
            print(json.dumps({"rows": document, "laws": find_laws(document)}, indent=2))
        else:
            show(document)


if __name__ == "__main__":
    main()

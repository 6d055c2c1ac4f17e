"""`magnetar-sim SEED`: replay a run to the same step, with its trace, or look for failing seeds."""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from magnetar.runtime.log import configure_logs
from magnetar.testing.simulation.history import Stored
from magnetar.testing.simulation.plan import Focus, parse_focus
from magnetar.testing.simulation.run import Outcome, run
from magnetar.testing.simulation.tally import NAMES

_HASH_SEED: Final = "PYTHONHASHSEED"
_SHOWN_MAX: Final = 10


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is kept of a run when there are many."""

    seed: int
    violations: tuple[str, ...]
    simulated_s: float
    faults: int
    messages: int
    tally: Counter[str]


def judge(
    seed: int, *, on_bookies: bool | None = None, focus: Focus | None = None, pauses: bool = False
) -> Verdict:
    outcome = run(seed, on_bookies=on_bookies, focus=focus, pauses=pauses)
    return Verdict(
        seed,
        outcome.violations,
        outcome.simulated_s,
        outcome.faults,
        outcome.messages,
        outcome.tally,
    )


def explore(
    seeds: range,
    jobs: int,
    *,
    on_bookies: bool | None = None,
    focus: Focus | None = None,
    pauses: bool = False,
) -> Iterator[Verdict]:
    """Run the seeds, some at a time; verdicts come in the order of the seeds."""
    judge_one = partial(judge, on_bookies=on_bookies, focus=focus, pauses=pauses)
    if jobs == 1:
        yield from map(judge_one, seeds)
        return
    with ProcessPoolExecutor(jobs) as pool:
        try:
            yield from pool.map(judge_one, seeds, chunksize=5)
        finally:
            pool.shutdown(cancel_futures=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        "magnetar-sim",
        description="Run a simulated cluster from a seed: several brokers, clients and faults on"
        " one thread with virtual time. The same seed takes the same steps.",
    )
    parser.add_argument("seed", type=int, help="the seed, or the first of several")
    parser.add_argument("--count", type=int, default=1, help="run so many seeds (default: 1)")
    parser.add_argument("--jobs", type=int, default=1, help="processes to run them in (default: 1)")
    ledgers = parser.add_mutually_exclusive_group()
    ledgers.add_argument(
        "--files", action="store_true", help="no seed has bookies: each broker has its own files"
    )
    ledgers.add_argument(
        "--bookies", action="store_true", help="with every seed several brokers share bookies"
    )
    parser.add_argument(
        "--focus",
        type=parse_focus,
        metavar="KIND/READING",
        help="every topic is of this kind and read so, such as classic/key_shared",
    )
    parser.add_argument(
        "--pauses",
        action="store_true",
        help="brokers stand still for longer than their sessions, and nothing else breaks",
    )
    parser.add_argument("--first", action="store_true", help="stop at the first seed that fails")
    parser.add_argument(
        "--trace", type=Path, help="write the whole history of one run to this file"
    )
    parser.add_argument(
        "--metadata", action="store_true", help="show writes of metadata in the trace too"
    )
    parser.add_argument("--logs", action="store_true", help="show the logs of brokers and clients")
    given = parser.parse_args(arguments)
    if given.count < 1 or given.jobs < 1:
        parser.error("--count and --jobs must be at least 1")
    if os.environ.get(_HASH_SEED) != "0" and arguments is None:
        # The order of a set of texts is part of what a seed decides.
        os.environ[_HASH_SEED] = "0"
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    on_bookies = True if given.bookies else False if given.files else None
    configure_logs(level="info" if given.logs else "critical", as_json=False)
    # Each run collects at its end; collections on the way took a third of the processor time.
    gc.freeze()
    gc.disable()
    if given.count == 1:
        outcome = run(given.seed, on_bookies=on_bookies, focus=given.focus, pauses=given.pauses)
        return _replay(outcome, given.trace, shows_metadata=given.metadata)
    seeds = range(given.seed, given.seed + given.count)
    verdicts = explore(
        seeds, given.jobs, on_bookies=on_bookies, focus=given.focus, pauses=given.pauses
    )
    return _explore(verdicts, stops=given.first)


def _replay(outcome: Outcome, trace: Path | None, *, shows_metadata: bool) -> int:
    lines = [
        str(each)
        for each in outcome.history.entries
        if shows_metadata or not isinstance(each.event, Stored)
    ]
    head = [f"seed {outcome.seed}", *_describe(outcome)]
    if trace is not None:
        trace.write_text("\n".join([*head, *lines, *outcome.violations]) + "\n")
    print("\n".join(head))
    for violation in outcome.violations:
        print(violation)
    print(
        f"{outcome.simulated_s:.1f} simulated seconds, {outcome.steps} steps, {outcome.faults}"
        f" faults, {outcome.messages} messages, fingerprint {outcome.fingerprint}:"
        f" {_count(len(outcome.violations), 'violation')}"
    )
    return 1 if outcome.violations else 0


def _describe(outcome: Outcome) -> list[str]:
    plan = outcome.plan
    lines = [
        f"{_count(plan.brokers, 'broker')}, {_count(plan.bookies, 'bookie')}"
        f"{' with copies ' + str(plan.copies) if plan.bookies else ''},"
        f" {plan.busy_s:.0f} busy seconds,"
        f" {'with' if plan.has_faults else 'without'} faults,"
        f" {'with' if plan.has_auto_scale else 'without'} auto-scale"
    ]
    if plan.transfer is not None:
        lines.append(
            f"transactions: {_count(plan.transfer.inputs, 'input')},"
            f" {_count(plan.transfer.workers, 'worker')}"
        )
    for topic in plan.topics:
        readings = ", ".join(f"{name} x {count}" for name, count in topic.readings)
        keys = sum(len(each.keys) for each in topic.producers)
        lines.append(
            f"{topic.name}: {topic.kind}, parts {topic.parts},"
            f" {'deduplicated, ' if topic.has_deduplication else ''}read by {readings};"
            f" {_count(len(topic.producers), 'producer')}, {_count(keys, 'key')}"
        )
    return lines


def _explore(verdicts: Iterator[Verdict], *, stops: bool) -> int:
    simulated_s, faults, messages, failed, ran = 0.0, 0, 0, [], 0
    tally: Counter[str] = Counter()
    for verdict in verdicts:
        ran += 1
        simulated_s += verdict.simulated_s
        faults += verdict.faults
        messages += verdict.messages
        tally += verdict.tally
        if verdict.violations:
            failed.append(verdict.seed)
            if len(failed) <= _SHOWN_MAX:
                print(f"seed {verdict.seed}: {verdict.violations[0]}", flush=True)
            if stops:
                break
    print(
        f"{_count(ran, 'seed')}, {simulated_s / 3600:.1f} simulated hours, {faults} faults,"
        f" {messages} messages: {_count(len(failed), 'seed')} failed"
    )
    print(", ".join(f"{tally[name]} {name}" for name in NAMES))
    if failed:
        print("replay one with: magnetar-sim SEED --trace FILE; failed:", *failed)
    return 1 if failed else 0


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


if __name__ == "__main__":
    sys.exit(main())

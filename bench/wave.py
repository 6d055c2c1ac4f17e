"""In which waves regular topics are migrated: the processor time of that decision, by topics.

Half of the topics have v4 clients, on one machine for ten of them or on two, from a seed. The job
asks about the topics in tasks; the waves are planned by its driver alone.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time

from magnetar.spark.job.wave import Candidate, Readiness, WaveLimit, plan_waves

TOPICS_PER_HOST = 10


def make_candidates(topics: int) -> list[Candidate]:
    chance = random.Random(topics)
    hosts = max(1, topics // TOPICS_PER_HOST)
    found = []
    for number in range(topics):
        held = chance.random() < 0.5
        names = {f"host-{chance.randrange(hosts)}" for _ in range(chance.choice((1, 1, 1, 2)))}
        found.append(
            Candidate(
                f"persistent://public/default/topic-{number:07}",
                Readiness.CLIENTS if held else Readiness.READY,
                chance.randrange(100_000),
                chance.choice((None, 100 * chance.random())),
                frozenset(names if held else ()),
            )
        )
    return found


def measure(topics: int, repeat: int) -> dict[str, float]:
    candidates = make_candidates(topics)
    taken = []
    for _ in range(repeat):
        began = time.process_time()
        waves = plan_waves(candidates, WaveLimit())
        taken.append(time.process_time() - began)
    return {"topics": topics, "waves": len(waves), "cpu_s": round(statistics.median(taken), 3)}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--topics", type=int, nargs="+", default=[25_000, 50_000, 100_000])
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    results = [measure(topics, options.repeat) for topics in options.topics]
    if options.json:
        print(json.dumps(results))
        return
    for row in results:
        print(f"{row['topics']:,} topics: {row['waves']:,} waves, {row['cpu_s']} s of processor")


if __name__ == "__main__":
    main()

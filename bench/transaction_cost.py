"""What transactions cost those who use none: the broker's processor time per entry with
`transactionCoordinatorEnabled` beside that without it, unbatched and batched.

Both brokers run and take turns; the processor times of all rounds are added up.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from contextlib import ExitStack

from bench.cpu_per_entry import WARM_ENTRIES, measure_line
from bench.line import Line
from magnetar.testing import MagnetarBroker

BATCHES = {"unbatched": 1, "batched": 10}


async def measure(
    broker: MagnetarBroker, options: argparse.Namespace, messages: int
) -> list[float]:
    """Seconds of the processor, to produce and to consume."""
    async with Line.open("127.0.0.1", broker.port) as line:
        entries, size = options.entries, options.size * messages
        rows = await measure_line(line, broker.pid, entries, size, messages)
    return [rows["produce"]["cpu_s"], rows["consume"]["cpu_s"]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=100_000, help="of a round (100,000)")
    parser.add_argument("--size", type=int, default=100, help="bytes of a message (100)")
    parser.add_argument("--rounds", type=int, default=4, help="of each kind and side (4)")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found: dict[str, dict[str, float]] = {}
    with ExitStack() as stack:
        sides = [
            stack.enter_context(MagnetarBroker(set={"transactionCoordinatorEnabled": is_on}))
            for is_on in (True, False)
        ]
        for name, messages in BATCHES.items():
            used = [[0.0, 0.0] for _ in sides]
            for number in range(options.rounds):
                for at in (0, 1) if number % 2 == 0 else (1, 0):
                    seconds = asyncio.run(measure(sides[at], options, messages))
                    used[at] = [sum(pair) for pair in zip(used[at], seconds, strict=True)]
            for at, (step, more) in enumerate((("produce", 0), ("consume", WARM_ENTRIES))):
                entries = options.rounds * (options.entries + more)
                on, off = (side[at] * 1e6 / entries for side in used)
                found[f"{step} {name}"] = {"on_us": on, "off_us": off, "ratio": on / off}
    if options.json:
        print(json.dumps(found))
        return
    for name, row in found.items():
        print(f"{name:<20} {row['on_us']:>8.2f} {row['off_us']:>8.2f} us {row['ratio']:>6.3f}")


if __name__ == "__main__":
    main()

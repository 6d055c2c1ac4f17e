"""A guard against slow decay: the broker's processor time per entry, now beside another commit.

Both take turns on this machine, measured by the bench of the present code, and their medians are
compared: entries of one message, and batches. Exits with 1 when the present code costs more than
the limit allows.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.gauge import median

HERE = Path(__file__).parent.parent
LIMIT = 1.05
BACK = 50
"""Commits to go back where no release is known."""


def git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=HERE, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"bench.guard: git {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout.strip()


def find_release() -> str:
    """The newest tag that this commit follows; where there is none, a commit some way back."""
    tags = git("tag", "--merged", "HEAD", "--sort=-creatordate").splitlines()
    if tags:
        return tags[0]
    back = min(BACK, int(git("rev-list", "--count", "--first-parent", "HEAD")) - 1)
    commit = git("rev-parse", "--short", f"HEAD~{back}")
    print(
        f"bench.guard: there is no tag of a release here: compared with HEAD~{back}, which is"
        f" {commit}; python -m bench.guard COMMIT names another",
        file=sys.stderr,
    )
    return commit


@contextmanager
def checkout(commit: str) -> Iterator[Path]:
    """The files of a commit in a directory that goes with the block."""
    with tempfile.TemporaryDirectory(prefix="magnetar-guard-") as folder:
        path = Path(folder) / "checkout"
        git("worktree", "add", "--quiet", "--detach", str(path), commit)
        try:
            yield path
        finally:
            git("worktree", "remove", "--force", str(path))


def measure(path: Path, entries: int) -> dict[str, float]:
    """Microseconds of the broker of a checkout for an entry, produced and consumed, by the bench
    that is here.
    """
    command = [sys.executable, "-m", "bench.cpu_per_entry", "--json", "--entries", str(entries)]
    environment = os.environ | {"PYTHONPATH": str(path / "src")}
    done = subprocess.run(command, cwd=HERE, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"bench.guard: {path}: {done.stderr.strip()}")
    rows = json.loads(done.stdout)
    return {name: float(row["us_per_entry"]) for name, row in rows.items()}


def compare(
    now: Sequence[Mapping[str, float]], base: Sequence[Mapping[str, float]]
) -> dict[str, dict[str, float]]:
    rows = {}
    for name in now[0]:
        ours, theirs = (median([turn[name] for turn in turns]) for turns in (now, base))
        rows[name] = {"now": ours, "base": theirs, "ratio": round(ours / theirs, 3)}
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "commit", nargs="?", help=f"to compare with (default: the last release, else HEAD~{BACK})"
    )
    parser.add_argument("--turns", type=int, default=5, help="of each side (default: 5)")
    parser.add_argument("--entries", type=int, default=100_000, help="of each turn")
    parser.add_argument("--limit", type=float, default=LIMIT, help=f"ratio (default: {LIMIT})")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    commit = options.commit or find_release()
    now, base = [], []
    with checkout(commit) as path:
        for turn in range(options.turns):
            sides = [(now, HERE), (base, path)]
            for taken, place in sides if turn % 2 == 0 else reversed(sides):
                taken.append(measure(place, options.entries))
    rows = compare(now, base)
    if options.json:
        print(json.dumps({"commit": commit, "limit": options.limit, "rows": rows}))
    else:
        print(f"{'broker, per entry':<20} {'now':>10} {commit[:12]:>12} {'ratio':>8}")
        for name, row in rows.items():
            print(f"{name:<20} {row['now']:>7.2f} µs {row['base']:>9.2f} µs {row['ratio']:>8.3f}")
    slow = [name for name, row in rows.items() if row["ratio"] > options.limit]
    if slow:
        print(
            f"slower than {commit} by more than {options.limit}: {', '.join(slow)}", file=sys.stderr
        )
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())

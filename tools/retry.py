"""Run the tests that failed in the last run once more, alone, and name those that then pass.

    python tools/retry.py [PYTEST ARGUMENT ...]

Exit status 0 means that every one of them passed; each is then printed as `flaky: NAME`, which is a
defect of the test or of what it tests. Nothing to run again is a failure: the last run failed for a
reason that no repetition can judge.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

LAST_FAILED = Path(".pytest_cache/v/cache/lastfailed")
# More than this is no flake: the run has failed, and repeating it would only take time.
FAILED_MAX = 10


def load_failed() -> list[str]:
    return sorted(json.loads(LAST_FAILED.read_text())) if LAST_FAILED.exists() else []


def main(arguments: list[str]) -> int:
    failed = load_failed()
    if not 0 < len(failed) <= FAILED_MAX:
        print(
            f"retry: {len(failed)} tests failed; 1 to {FAILED_MAX} are run again", file=sys.stderr
        )
        return 1
    print(f"retry: running {len(failed)} failed tests once more, alone", flush=True)
    code = subprocess.call([sys.executable, "-m", "pytest", "-q", "--last-failed", *arguments])
    for name in sorted(set(failed) - set(load_failed())):
        print(f"flaky: {name}", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

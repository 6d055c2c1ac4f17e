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
# More than this is no flake: the run has failed, and repeating it would only take time. Files
# are counted: a server that does not start fails every test of its file.
FILES_MAX = 10


def load_failed() -> list[str]:
    names = json.loads(LAST_FAILED.read_text()) if LAST_FAILED.exists() else []
    return sorted(map(strip_group, names))


def strip_group(name: str) -> str:
    """Without `@GROUP`, which a run on several workers adds to the names of tests in groups. An @
    before the end of the parameters is theirs.
    """
    at = name.rfind("@")
    return name[:at] if at > name.rfind("]") else name


def main(arguments: list[str]) -> int:
    failed = load_failed()
    files = {name.partition("::")[0] for name in failed}
    if not 0 < len(files) <= FILES_MAX:
        print(
            f"retry: tests of {len(files)} files failed; those of 1 to {FILES_MAX} are run again",
            file=sys.stderr,
        )
        return 1
    outside = [name for name in failed if "::" not in name]
    if outside:
        print(f"retry: not a test, and so not run again: {' '.join(outside)}", file=sys.stderr)
        return 1
    LAST_FAILED.write_text(json.dumps(dict.fromkeys(failed, True)))
    print(f"retry: running {len(failed)} failed tests once more, alone", flush=True)
    code = subprocess.call([sys.executable, "-m", "pytest", "-q", "--last-failed", *arguments])
    for name in sorted(set(failed) - set(load_failed())):
        print(f"flaky: {name}", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

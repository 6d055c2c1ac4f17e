"""What holds for every test: no verdict depends on how long it took; draws can be repeated.

Property tests draw new examples on every run. All of them start from one seed, which a failing run
prints; `--hypothesis-seed=N` draws the same examples again.
"""

from __future__ import annotations

import gc
import os
import secrets
import signal
import sys

import pytest
from hypothesis import HealthCheck, settings

SEED_OPTION = "hypothesis_seed"

settings.register_profile(
    "magnetar", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("magnetar")

# The tests start hundreds of processes. Where the surroundings forbid compiled files, each of them
# would compile the package again, and every worker would rewrite the assertions of every module.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A shell starts background jobs with SIGINT ignored, and programs inherit that; the tests of Ctrl-C
# would wait for ever. In an xdist worker the process that starts it has seen to it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Choose the seed before Hypothesis looks for one, and before workers inherit the options."""
    if config.getoption(SEED_OPTION) is None:
        setattr(config.option, SEED_OPTION, str(secrets.randbits(32)))


def pytest_collection_finish() -> None:
    """Thousands of collected tests stay to the end: no collection of garbage visits them again."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config
) -> None:
    if exitstatus == pytest.ExitCode.TESTS_FAILED:
        seed = config.getoption(SEED_OPTION)
        terminalreporter.write_line(f"drawn from seed {seed}; repeat with --hypothesis-seed={seed}")

"""kill -9 at any moment: what was promised is there, what was not is either whole or absent."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import pytest

from magnetar.app.doctor import examine_directory
from magnetar.testing.broker import BrokerFailed, MagnetarBroker
from tests.crash.mortal import Doom, MortalBroker
from tests.crash.scenario import SETTINGS, Scenario, interrupt_start

ROUNDS = 5
FIRST_STEPS = ("create", "write", "sync", "rename")
INTERRUPTIONS = 8


@pytest.mark.parametrize(("seed", "kind"), [(0, MagnetarBroker), (1, MortalBroker)])
def test_what_was_promised_survives_a_kill_at_any_moment(
    seed: int, kind: type[MagnetarBroker]
) -> None:
    broker = kind(set=SETTINGS)
    try:
        asyncio.run(Scenario(seed, broker).run(ROUNDS))
    except BaseException:
        print(f"seed {seed}")
        print(broker.read_log())
        raise
    finally:
        broker.close()


def test_a_first_start_cut_short_again_and_again_is_followed_by_a_whole_one(tmp_path: Path) -> None:
    random = Random(1)
    broker = MagnetarBroker(data=tmp_path / "data")
    for _ in range(INTERRUPTIONS):
        interrupt_start(broker, random.uniform(0.1, 0.8))
    with broker:
        assert broker.stop() == 0
        assert not examine_directory(broker.data).faults
        broker.start()


@pytest.mark.parametrize("share", [0.0, 0.9])
def test_a_first_start_that_dies_over_its_catalogue_is_followed_by_a_whole_one(
    share: float,
) -> None:
    broker = MortalBroker(set={})
    try:
        for step in FIRST_STEPS:
            broker.doom(Doom(step, "catalogue", 1, share))
            with pytest.raises(BrokerFailed, match="ended with -9"):
                broker.start()
            if step != FIRST_STEPS[-1] or share < 0.5:
                assert not (broker.data / "ledgers" / "catalogue").exists()
        broker.spare()
        broker.start()
        assert broker.stop() == 0
        assert not examine_directory(broker.data).faults
    finally:
        broker.close()

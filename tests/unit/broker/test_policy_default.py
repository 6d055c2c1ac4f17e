from __future__ import annotations

import pytest

from magnetar.broker.policy_default import plan_replication
from magnetar.ledger.store import Replication
from magnetar.model.policy import PersistencePolicies


@pytest.mark.parametrize(
    ("asked", "planned"),
    [
        ((3, 2, 2), Replication(3, 2, 2)),
        ((0, 0, 0), Replication(1, 1, 1)),
        ((1, 3, 2), Replication(3, 3, 2)),
        ((2, 1, 2), Replication(2, 2, 2)),
    ],
)
def test_a_persistence_policy_that_cannot_be_is_planned_with_at_least_what_it_asks(
    asked: tuple[int, int, int], planned: Replication
) -> None:
    ensemble, write, ack = asked
    policy = PersistencePolicies(
        bookkeeperEnsemble=ensemble, bookkeeperWriteQuorum=write, bookkeeperAckQuorum=ack
    )
    assert plan_replication(policy) == planned

from __future__ import annotations

import pytest

from magnetar.rules.connection_limit import ConnectionPlan, plan_connections


@pytest.mark.parametrize(
    ("descriptors", "wanted", "wanted_http", "expected"),
    [
        (256, 0, 2048, ConnectionPlan(128, 64)),
        (1024, 0, 2048, ConnectionPlan(512, 256)),
        (1 << 20, 0, 2048, ConnectionPlan((1 << 20) - 1024 - 2048, 2048)),
        (1 << 20, 100, 10, ConnectionPlan(100, 10)),
        (256, 10_000, 0, ConnectionPlan(128, 64)),
        (2, 0, 2048, ConnectionPlan(1, 1)),
    ],
)
def test_connections_leave_descriptors_to_the_disk(
    descriptors: int, wanted: int, wanted_http: int, expected: ConnectionPlan
) -> None:
    assert plan_connections(descriptors, wanted, wanted_http) == expected

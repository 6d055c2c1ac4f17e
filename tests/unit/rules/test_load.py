from __future__ import annotations

import pytest

from magnetar.model.load import BrokerReport, ResourceUsage
from magnetar.rules.load import is_worth_reporting

BEFORE = BrokerReport(
    cpu=ResourceUsage(usage=50.0, limit=100.0), msgRateIn=100.0, numBundles=1, bundles=("x",)
)


@pytest.mark.parametrize(
    ("after", "is_worth"),
    [
        (BEFORE, False),
        (BrokerReport(cpu=BEFORE.cpu, msgRateIn=105.0, numBundles=1, bundles=("x",)), False),
        (BrokerReport(cpu=BEFORE.cpu, msgRateIn=120.0, numBundles=1, bundles=("x",)), True),
        (BrokerReport(cpu=BEFORE.cpu, msgRateIn=100.0, numBundles=2, bundles=("x", "y")), True),
        (BrokerReport(cpu=BEFORE.cpu, msgRateIn=100.0, numBundles=1, bundles=("y",)), True),
        (
            BrokerReport(
                cpu=BEFORE.cpu, msgRateIn=100.0, numBundles=1, bundles=("x",), lastUpdate=900_000
            ),
            True,
        ),
    ],
)
def test_a_report_is_worth_a_write_when_something_changed_or_the_last_is_old(
    after: BrokerReport, is_worth: bool
) -> None:
    assert is_worth_reporting(BEFORE, after, threshold=0.1, age_ms_max=900_000) == is_worth

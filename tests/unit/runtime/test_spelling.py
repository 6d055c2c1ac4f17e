from __future__ import annotations

from pathlib import Path

import pytest

from magnetar.errors import InvalidConfiguration, PreconditionFailed
from magnetar.runtime.configuration import Configuration


@pytest.mark.parametrize(
    ("written", "value", "name", "expected"),
    [
        ("scalableTopicSplitCooldown", "1m", "scalableTopicSplitCooldownSeconds", 60),
        ("scalableTopicMergeCooldown", "5m", "scalableTopicMergeCooldownSeconds", 300),
        ("scalableTopicMergeWindow", "90 s", "scalableTopicMergeWindowSeconds", 90),
        ("scalableTopicAutoScaleInterval", "1h", "scalableTopicAutoScaleIntervalSeconds", 3600),
        ("scalableTopicLoadReportInterval", 7, "scalableTopicLoadReportIntervalSeconds", 7),
        ("scalableTopicSplitCooldownSeconds", "2m", "scalableTopicSplitCooldownSeconds", 120),
        (
            "scalableTopicSplitBytesRateInThreshold",
            "50MB",
            "scalableTopicSplitBytesRateInThreshold",
            50_000_000,
        ),
        (
            "scalableTopicMergeBytesRateOutThreshold",
            "7000B",
            "scalableTopicMergeBytesRateOutThreshold",
            7_000,
        ),
        (
            "scalableTopicLoadReportRateChangeThreshold",
            "12.5%",
            "scalableTopicLoadReportRateChangeThreshold",
            0.125,
        ),
    ],
)
def test_the_proposals_keys_and_values_are_understood(
    written: str, value: object, name: str, expected: object
) -> None:
    config = Configuration({written: value})
    assert config.get(name) == expected and config.settings == {name: expected}


def test_a_value_that_is_no_duration_is_refused_under_pulsars_name() -> None:
    with pytest.raises(InvalidConfiguration, match="scalableTopicSplitCooldownSeconds: 'soon'"):
        Configuration({"scalableTopicSplitCooldown": "soon"})


def test_one_key_in_two_spellings_is_refused() -> None:
    with pytest.raises(InvalidConfiguration, match="set twice"):
        Configuration({"scalableTopicMergeWindow": "5m", "scalableTopicMergeWindowSeconds": 300})


def test_the_proposals_spelling_works_in_a_file_and_at_run_time(tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    path.write_text("scalableTopicSplitCooldown=2m\n")
    config = Configuration.load(path)
    assert config.scalableTopicSplitCooldownSeconds == 120
    config.update_dynamic("scalableTopicSplitCooldown", "5s")
    assert config.scalableTopicSplitCooldownSeconds == 5
    config.reset_dynamic("scalableTopicSplitCooldown")
    assert config.scalableTopicSplitCooldownSeconds == 120
    with pytest.raises(PreconditionFailed, match="scalableTopicAutoScaleInterval "):
        config.update_dynamic("scalableTopicAutoScaleInterval", "5s")

"""The guides for Spark users do what they say."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from magnetar.testing import MagnetarBroker
from tests.tidy.source import ROOT
from tests.tidy.test_doc import run_page, runnable

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(240)]


@pytest.mark.parametrize("name", ["spark.md", "jobs.md", "learn.md"])
def test_the_examples_of_a_guide_run_in_order(
    name: str,
    spark: SparkSession,
    magnetar_broker: MagnetarBroker,
    environment: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    page = ROOT / "docs" / name
    assert len(runnable(page)) >= 4
    run_page(page, magnetar_broker, tmp_path)

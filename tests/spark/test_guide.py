"""The guide for Spark users does what it says."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from magnetar.testing import MagnetarBroker
from tests.tidy.source import ROOT
from tests.tidy.test_doc import run_page, runnable

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(240)]


def test_the_examples_of_the_guide_run_in_order(
    spark: SparkSession, magnetar_broker: MagnetarBroker, tmp_path: Path
) -> None:
    page = ROOT / "docs" / "spark.md"
    assert len(runnable(page)) >= 4
    run_page(page, magnetar_broker, tmp_path)

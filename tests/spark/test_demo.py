"""The demo, with the session of the tests."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from magnetar.app.demo import SCALABLE, SETTINGS, Story
from magnetar.spark.job import demo_audit
from magnetar.testing import MagnetarBroker

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(240)]


def test_the_whole_story_loses_repeats_and_reorders_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    with MagnetarBroker(set=SETTINGS) as broker:
        story = Story(broker)
        asyncio.run(story.run())
        found = demo_audit.audit(
            spark, broker.service_url, broker.admin_url, SCALABLE, story.sent, tmp_path
        )
    assert found.is_clean and found.messages == sum(story.sent.values())
    assert story.late == 0
    assert max(story.segments) >= 4 and story.segments[-1] == 1

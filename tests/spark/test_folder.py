"""Folders that the driver's JVM reaches, and which those are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from magnetar import ConfigurationError
from magnetar.spark.job.folder import LEASE_MS, HadoopFolder, LocalFolder, find_folder
from tests.spark.standalone import await_true

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(240)]
CONFIGURED = {"HADOOP_CONF_DIR": "/etc/hadoop"}
OTHER = "hdfs://127.0.0.1:1"


def test_a_file_system_that_can_rename_keeps_what_is_whole(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = HadoopFolder(spark, f"file:{tmp_path}")
    assert place.read("x") is None and place.names("folder") == []
    for text in ("a longer text", "ü"):
        assert place.write("x", text) == f"file:{tmp_path}/x"
        assert place.read("x") == text == (tmp_path / "x").read_text()
    assert place.names(".") == ["x"]
    place.remove("x")
    assert place.names(".") == []


def test_a_folder_has_one_writer_at_a_time_and_the_claim_of_a_dead_one_lapses(
    spark: SparkSession, tmp_path: Path
) -> None:
    first, second = (HadoopFolder(spark, f"file:{tmp_path}") for _ in range(2))
    with (
        first.locked(),
        pytest.raises(ConfigurationError, match=r"for 10 minutes, or remove .*/_lock-"),
        second.locked(),
    ):
        pytest.fail("both write")
    assert second.names(".") == [], "no claim is left"
    dead = tmp_path / "_lock-dead"
    for silent_s, is_dead in ((LEASE_MS / 1000 - 60, False), (LEASE_MS / 1000 + 60, True)):
        dead.touch()
        past = dead.stat().st_mtime - silent_s
        os.utime(dead, (past, past))
        if is_dead:
            with second.locked():
                assert not dead.exists()
                second.write("x", "of the one that is alive")
        else:
            with pytest.raises(ConfigurationError, match=r"Another job writes"), second.locked():
                pytest.fail("both write")
            assert dead.exists()


def test_a_claim_is_renewed_and_whose_claim_was_removed_writes_no_more(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = HadoopFolder(spark, f"file:{tmp_path}", renewal_s=0.05)
    with place.locked():
        [claim] = tmp_path.glob("_lock-*")
        os.utime(claim, (0, 0))
        await_true(lambda: claim.stat().st_mtime > 0, lambda: "it was not renewed")
        place.write("x", "mine")
    with place.locked():
        [claim] = tmp_path.glob("_lock-*")
        place.remove(claim.name)  # as another job does that took this one for dead
        with pytest.raises(ConfigurationError, match="the claim of this one was removed"):
            place.write("x", "of one that came back")
    assert place.read("x") == "mine"


def test_a_path_without_a_scheme_is_where_hadoop_was_configured(spark: SparkSession) -> None:
    assert isinstance(find_folder(spark, "/lake", environment=CONFIGURED), LocalFolder)
    configuration = spark._jsc.hadoopConfiguration()
    before = configuration.get("fs.defaultFS")
    configuration.set("fs.defaultFS", OTHER)
    try:
        assert find_folder(spark, "/lake", environment=CONFIGURED).uri == f"{OTHER}/lake"
        spark.conf.set("spark.hadoop.fs.defaultFS", OTHER)
        assert find_folder(spark, "/lake", environment={}).uri == f"{OTHER}/lake"
        assert find_folder(spark, "file:/lake", environment=CONFIGURED).uri == "file:///lake"
    finally:
        spark.conf.unset("spark.hadoop.fs.defaultFS")
        configuration.set("fs.defaultFS", before)

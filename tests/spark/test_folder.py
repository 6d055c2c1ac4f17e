"""Folders that the driver's JVM reaches, and which those are."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from magnetar import ConfigurationError
from magnetar.spark.job.folder import HadoopFolder, LocalFolder, find_folder

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
    with (
        place.locked(),
        pytest.raises(ConfigurationError, match=r"if it was killed, remove .*/_lock"),
        place.locked(),
    ):
        pytest.fail("both write")
    place.remove("x")
    assert place.names(".") == []


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

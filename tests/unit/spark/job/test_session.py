"""With which settings a job's session is made, without starting Spark."""

from __future__ import annotations

import pytest

from magnetar.spark.job.command import format_submit
from magnetar.spark.job.session import choose_settings, find_submitted, join_settings

DELTA = {
    "spark.jars.packages": "io.delta:delta:4",
    "spark.sql.extensions": "io.delta.Extension",
    "spark.sql.catalog.spark_catalog": "DeltaCatalog",
}


@pytest.mark.parametrize("name", ["spark.jars", "spark.jars.packages", "spark.sql.extensions"])
def test_a_list_that_is_given_stands_beside_what_the_job_needs(name: str) -> None:
    assert join_settings({name: "a,b"}, {name: "b, c"}) == {name: "a,b,c"}
    assert join_settings({name: "a"}, {}) == join_settings({}, {name: "a"}) == {name: "a"}
    assert join_settings({name: "a"}, {name: ""}) == {name: "a"}


def test_any_other_setting_that_is_given_replaces_what_the_job_needs() -> None:
    assert join_settings({"x": "1", "y": "2"}, {"x": "3"}) == {"x": "3", "y": "2"}


def test_a_submitted_job_overrides_nothing_of_the_line_that_started_it() -> None:
    own = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    assert choose_settings(DELTA, {}, None) == own | DELTA
    line = DELTA | {"spark.ui.enabled": "true", "spark.jars": "file:/own.jar"}
    line["spark.sql.extensions"] = "other.Extension"
    assert choose_settings(DELTA, {}, line) == {
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.extensions": "io.delta.Extension,other.Extension",
    }
    assert choose_settings(DELTA, own, line)["spark.ui.enabled"] == "false", "the job's own word"


def test_a_program_that_spark_submit_did_not_start_knows_of_no_line() -> None:
    assert find_submitted({}) is None


def test_the_line_of_spark_submit_has_the_packages_of_both() -> None:
    s3 = "org.apache.hadoop:hadoop-aws:3.5.0"
    given = [f"spark.jars.packages={s3}", "spark.jars=/own.jar", "spark.sql.extensions=other.One"]
    line = format_submit("table", {"format": "delta", "conf": given}, "job.py", [])
    assert s3 in line and "/own.jar" in line
    assert "delta-spark_" in line, "from its package or its jar"
    assert "io.delta.sql.DeltaSparkSessionExtension,other.One" in line

"""The line that `magnetar spark submit` prints, run: the session has what was given in it."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from magnetar.cli.main import main
from magnetar.spark.job.command import find_settings
from magnetar.spark.job.session import open_session

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(240)]

GIVEN = {
    "spark.sql.shuffle.partitions": "7",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.session.timeZone": "Asia/Tokyo",
    "spark.ui.showConsoleProgress": "true",
    "spark.sql.catalog.spark_catalog": "a.Catalog",
}
OTHERS = {
    "spark.master": "local[1]",
    "spark.ui.enabled": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension,an.Extension",
}
OUTPUT = "SETTINGS"


def test_a_submitted_job_runs_with_the_settings_of_the_line_and_its_own_where_it_has_none(
    environment: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = GIVEN | {"spark.sql.extensions": "an.Extension"}
    words = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
    words += ["--format", "delta", "--master", "local[1]"]
    assert main(["spark", "submit", "table", "t", "--output", "o", *words]) == 0
    line = shlex.split(capsys.readouterr().out)
    line[0] = str(Path(pyspark.__file__).parent / "bin" / line[0])
    line[line.index("table") - 1 :] = [__file__]
    env = {**os.environ, **environment, "PYSPARK_PYTHON": sys.executable}
    env["SPARK_CONF_DIR"] = str(tmp_path)  # nothing but the line
    done = subprocess.run(line, env=env, capture_output=True, text=True, timeout=200)
    told = [each for each in done.stdout.splitlines() if each.startswith(OUTPUT)]
    assert told, done.stderr[-3000:]
    assert json.loads(told[0].removeprefix(OUTPUT)) == GIVEN | OTHERS


if __name__ == "__main__":
    with open_session("table", needed=find_settings({"format": "delta"})) as session:
        known = dict(session.sparkContext.getConf().getAll())
        found = {name: session.conf.get(name, known.get(name)) for name in (*GIVEN, *OTHERS)}
        print(OUTPUT + json.dumps(found))

"""Jobs as programs: run by the line that `magnetar spark submit` prints, and failing."""

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


@pytest.mark.parametrize(
    ("conf", "reason"),
    [
        ("spark.sql.shuffle.partitions=2", 'No FileSystem for scheme "nosuch"; its file system is'),
        ("spark.driver.extraJavaOptions=-Xmx1g", "Not allowed to specify max heap(Xmx)"),
    ],
    ids=["a file system that is not there", "a JVM that does not start"],
)
def test_why_a_job_failed_is_a_sentence(
    conf: str, reason: str, environment: dict[str, str], tmp_path: Path
) -> None:
    code = f"import sys; from {main.__module__} import main; sys.exit(main(sys.argv[1:]))"
    words = ["spark", "what-if", "nosuch://a", "--output", "nosuch://b", "--conf", conf]
    env = {**os.environ, **environment, "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code, *words], env=env, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(f"magnetar: Spark: {reason}")
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob("magnetar-spark-*")), "the log of the JVM goes with it"


if __name__ == "__main__":
    with open_session("table", needed=find_settings({"format": "delta"})) as session:
        known = dict(session.sparkContext.getConf().getAll())
        found = {name: session.conf.get(name, known.get(name)) for name in (*GIVEN, *OTHERS)}
        print(OUTPUT + json.dumps(found))

"""`magnetar spark`: what it says where something is missing, without starting Spark."""

from __future__ import annotations

import shlex
import subprocess
import sys

import pytest

from magnetar.cli.command import Verb, build_parser
from magnetar.cli.main import main
from magnetar.cli.spark import JOBS, SHARED


@pytest.mark.parametrize("library", ["pyspark", "pyarrow"])
def test_a_missing_library_is_a_sentence_that_says_what_to_install(library: str) -> None:
    code = (
        f"import sys; sys.modules[{library!r}] = None\n"
        "from magnetar.cli.main import main\n"
        "sys.exit(main(['spark', 'what-if', 'history', '--output', 'out']))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert done.returncode == 1
    assert f"needs {library}" in done.stderr and "pip install 'magnetar[spark]'" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
def test_every_job_explains_itself_and_takes_a_master_and_a_place_to_write_to(
    job: Verb, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["spark", job.name, "--help"]) == 0
    shown = capsys.readouterr().out
    assert "--master" in shown
    assert "--output" in shown or job.name == "replay", "it writes to a topic"
    build_parser("spark", job, SHARED)


def test_an_unknown_job_is_answered_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["spark", "what-fi"]) == 2
    assert "Did you mean what-if?" in capsys.readouterr().err
    assert main(["spark"]) == 2
    assert "order-audit" in capsys.readouterr().out


def test_submit_prints_a_line_with_what_the_session_needs_before_the_program(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["t", "--output", "s3a://bucket/a table", "--format", "delta"]
    cluster = ["--master", "spark://host:7077", "--conf", "spark.executor.memory=2g"]
    assert main(["spark", "submit", "table", *words[:1], *cluster, *words[1:]]) == 0
    line = shlex.split(capsys.readouterr().out)
    assert line[:3] == ["spark-submit", "--master", "spark://host:7077"]
    assert "spark.executor.memory=2g" in line
    assert "--packages" in line or "--jars" in line
    program = line.index("table") - 1
    assert line[program].endswith("pyspark_magnetar/job.py")
    assert line[program + 1 :] == ["table", *words]
    helped = subprocess.run([sys.executable, line[program], "table", "--help"], capture_output=True)
    assert helped.returncode == 0 and b"--output" in helped.stdout
    assert main(["spark", "submit", "table", "t"]) == 2, "it lacks an output"
    assert main(["spark", "submit", "tabel"]) == 2

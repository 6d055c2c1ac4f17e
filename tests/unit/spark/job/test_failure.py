"""Why a job failed, in one line for the person who started it."""

from __future__ import annotations

import re

import pytest

from magnetar.spark.job.failure import HADOOP_AWS, explain, find_death
from tests.tidy.source import ROOT

WORKER = """[STREAM_FAILED] Query [id = 1] terminated with exception: Return Message: \
Traceback (most recent call last):
  File "worker.py", line 1, in main
    process()
FileNotFoundError: [Errno 2] No such file

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "task.py", line 2, in read
    raise DataLost(
    ^^^^^^^^^^^^^^^
magnetar.spark.plan.DataLost: Messages were deleted: segment 0. Set failOnDataLoss to false
\tat org.apache.spark.sql.Thing.run(Thing.scala:1)
Caused by: java.lang.Exception: nothing new
"""


def test_the_exception_that_ended_a_worker_is_told() -> None:
    told = "Messages were deleted: segment 0. Set failOnDataLoss to false"
    assert explain(WORKER) == told


def test_an_exception_without_a_sentence_is_named() -> None:
    assert explain("Traceback (most recent call last):\n  File x\nKeyboardInterrupt") == (
        "KeyboardInterrupt"
    )


def test_what_spark_itself_says_is_its_first_line() -> None:
    assert explain("\n[PATH_NOT_FOUND] Path does not exist: x. SQLSTATE: 42K03\n\tat x") == (
        "[PATH_NOT_FOUND] Path does not exist: x. SQLSTATE: 42K03"
    )
    assert explain("") == ""


CALL = "An error occurred while calling o38.getFileSystem.\n: "
AT = "\n\tat org.apache.hadoop.fs.FileSystem.get(FileSystem.java:558)\nCaused by: x.Y: z"
ABOUT_S3 = "java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem"
DENIED = "s3a://lake/x: getFileStatus on s3a://lake/x: Access Denied (Status Code: 403)"


@pytest.mark.parametrize(
    ("thrown", "told", "advice"),
    [
        (
            f"java.lang.RuntimeException: {ABOUT_S3} not found",
            "Class org.apache.hadoop.fs.s3a.S3AFileSystem not found",
            f"s3a:// needs --conf spark.jars.packages={HADOOP_AWS}",
        ),
        (
            'org.apache.hadoop.fs.UnsupportedFileSystemException: No FileSystem for scheme "gs"',
            'No FileSystem for scheme "gs"',
            "is a package for --conf spark.jars.packages",
        ),
        (f"java.nio.file.AccessDeniedException: {DENIED}", DENIED, "the credentials"),
        ("java.nio.file.AccessDeniedException: /root/x", "/root/x", "the credentials"),
        ("java.net.ConnectException: Call failed: a.B: c", "Call failed: a.B: c", ""),
        ("java.lang.NullPointerException", "java.lang.NullPointerException", ""),
    ],
)
def test_what_java_threw_is_its_text_and_what_to_do(thrown: str, told: str, advice: str) -> None:
    reason, _, more = explain(CALL + thrown + AT).partition("; ")
    assert (reason, advice in more, bool(more)) == (told, True, bool(advice))


def test_a_jvm_that_did_not_start_is_explained_by_what_it_printed() -> None:
    printed = (
        ":: USE VERBOSE OR DEBUG MESSAGE LEVEL\n"
        'Exception in thread "main" java.lang.RuntimeException: [unresolved dependency: a#b;1]\n'
        "\tat org.apache.spark.util.MavenUtils$.resolve(MavenUtils.scala:539)"
    )
    assert explain(find_death(printed)) == "[unresolved dependency: a#b;1]"
    heap = "Picked up JAVA_TOOL_OPTIONS: -X\n\nError: Not allowed to specify max heap\nUsage: x"
    assert find_death(heap) == "Not allowed to specify max heap"
    assert find_death("") == ""


def test_the_package_that_is_advised_is_the_one_that_is_tried() -> None:
    pom = (ROOT / "tools" / "spark" / "pom.xml").read_text()
    [version] = re.findall("<hadoop.version>(.*)</hadoop.version>", pom)
    assert HADOOP_AWS.endswith(f":{version}")
    assert HADOOP_AWS in (ROOT / "docs" / "jobs.md").read_text()

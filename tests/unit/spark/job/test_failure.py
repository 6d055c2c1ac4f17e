"""Why a job failed, in one line for the person who started it."""

from __future__ import annotations

from magnetar.spark.job.failure import explain

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

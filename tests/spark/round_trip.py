"""A topic into a table and into another topic at once; then one job after the other.

Run by spark-submit, with the words of its jobs as JSON. What is `followed` goes on until the
program is killed; otherwise everything is brought to its end.
"""

from __future__ import annotations

import json
import sys
import threading
from contextlib import suppress
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from magnetar.cli.command import build_parser
from magnetar.cli.spark import JOBS, SHARED
from magnetar.spark.job.command import COMMANDS
from magnetar.spark.job.session import open_session


def run_job(spark: SparkSession, words: list[str]) -> None:
    (job,) = (each for each in JOBS if each.name == words[0])
    options = vars(build_parser("spark", job, SHARED).parse_args(words[1:]))
    assert COMMANDS[job.name](spark, options, print, print) == 0


def copy(spark: SparkSession, given: dict[str, Any]) -> StreamingQuery:
    frame = (
        spark.readStream.format("magnetar")
        .options(**given["connection"], topic=given["source"], startingOffsets="earliest")
        .option("maxBytesPerTrigger", given["batch_bytes"])
        .load()
        .select("key", "value")
    )
    writer = frame.writeStream.format("magnetar").options(
        **given["connection"], topic=given["copy"], checkpointLocation=given["checkpoint"]
    )
    every = {"processingTime": "1 second"} if given["followed"] else {"availableNow": True}
    return writer.trigger(**every).start()


def run(spark: SparkSession, given: dict[str, Any]) -> None:
    table = threading.Thread(target=run_job, args=(spark, given["table"]))
    table.start()
    while given["followed"]:
        # A query ends when its broker goes; whoever operates it starts it again.
        with suppress(StreamingQueryException):
            copy(spark, given).awaitTermination()
    copy(spark, given).awaitTermination()
    table.join()
    for words in given["jobs"]:
        run_job(spark, words)


if __name__ == "__main__":
    with open_session("round trip") as session:
        run(session, json.loads(sys.argv[1]))

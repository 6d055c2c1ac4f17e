"""What every task of a query shares, and what is told to each."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from magnetar.client.error import AdminError
from magnetar.spark.file import LedgerFiles, parse_files
from magnetar.spark.option import DirectRead, SourceOptions
from magnetar.spark.row import Finish, make_finish
from magnetar.spark.slice import Slice
from magnetar.spark.survey import Survey
from magnetar.spark.task import Reading, column_names
from magnetar.spark.value import ValueReader


@dataclass
class Task(InputPartition):
    """What one Spark task reads."""

    slices: tuple[Slice, ...]
    files: LedgerFiles | None = None


def find_files(survey: Survey, options: SourceOptions) -> LedgerFiles | None:
    """Where the broker's ledgers lie, if it says so; a task sees whether it is on that machine."""
    if options.direct_read is DirectRead.NEVER:
        return None
    try:
        answer: object = survey.admin.brokers.ledger_files()
    except AdminError:
        return None
    # Apache Pulsar takes the path for the name of a cluster, and lists its brokers: none.
    return parse_files(answer) if isinstance(answer, dict) else None


def make_reading(
    options: SourceOptions,
    schema: StructType,
    files: LedgerFiles | None,
    values: ValueReader | None,
) -> tuple[Reading, Finish]:
    names = schema.fieldNames()
    reading = Reading(
        options.broker,
        column_names([*names, "message_id", "schema_version"] if values else names),
        options.fail_on_loss,
        options.bad_value,
        options.batch_rows,
        options.batch_bytes,
        options.window_bytes,
        files,
        options.decryption,
    )
    return reading, make_finish(schema, None if values is None else values.decode)

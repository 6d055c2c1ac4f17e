"""What every task of a query shares, and what each is given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from magnetar import AdminError, AdminNotFound
from magnetar.spark.bookie import BookieRecords, parse_records
from magnetar.spark.file import LedgerFiles, parse_files
from magnetar.spark.option import DirectRead, SourceOptions
from magnetar.spark.pushdown import Test, columns_of, filter_rows, make_wants
from magnetar.spark.row import Finish, make_finish
from magnetar.spark.slice import Slice
from magnetar.spark.survey import Survey
from magnetar.spark.task import Reading, column_names
from magnetar.spark.value import ValueReader

_LEDGERS: Final = 10_000
"""So many are looked up at once; the broker reads the others."""


@dataclass
class Task(InputPartition):
    """What one Spark task reads."""

    slices: tuple[Slice, ...]
    files: LedgerFiles | BookieRecords | None = None


def find_direct(
    survey: Survey, options: SourceOptions, slices: Sequence[Slice]
) -> LedgerFiles | BookieRecords | None:
    """Where the broker's ledgers lie, if it says so: in files, of which a task sees whether they
    are on its machine, or on bookies, of which it sees whether it reaches them.
    """
    if options.direct_read is DirectRead.NEVER:
        return None
    try:
        answer: object = survey.admin.brokers.ledger_files()
        # Apache Pulsar takes the path for the name of a cluster, and lists its brokers: none.
        return parse_files(answer) if isinstance(answer, dict) else None
    except AdminNotFound:
        pass
    except AdminError:
        return None
    ledgers = sorted({span.ledger for each in slices for span in each.spans})
    try:
        return parse_records(survey.admin.brokers.ledger_records({"ledgers": ledgers[:_LEDGERS]}))
    except AdminError:
        return None


def make_reading(
    options: SourceOptions,
    schema: StructType,
    files: LedgerFiles | BookieRecords | None,
    values: ValueReader | None,
    tests: tuple[Test, ...] = (),
) -> tuple[Reading, Finish]:
    """Of the rows those that pass all tests."""
    names = schema.fieldNames()
    needed = column_names([*names, "message_id", "schema_version"] if values else names)
    reading = Reading(
        options.broker,
        tuple(sorted({*needed, *columns_of(tests)})),
        options.fail_on_loss,
        options.bad_value,
        options.batch_rows,
        options.batch_bytes,
        options.window_bytes,
        files,
        options.decryption,
        make_wants(tests),
    )
    finish = make_finish(schema, None if values is None else values.decode)
    if not tests:
        return reading, finish
    return reading, lambda batch, piece: finish(filter_rows(batch, tests), piece)

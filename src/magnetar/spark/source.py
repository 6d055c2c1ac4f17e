"""The data source: `spark.read.format("magnetar")` and `spark.readStream.format("magnetar")`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import BinaryType, StructType

from magnetar.client.error import AdminError
from magnetar.spark.bound import plan_slices, resolve_bound
from magnetar.spark.file import LedgerFiles, parse_files
from magnetar.spark.option import DirectRead, SourceOptions, parse_source
from magnetar.spark.plan import DataLost, explain_loss, find_gap
from magnetar.spark.row import check_schema, make_finish, make_schema
from magnetar.spark.slice import Slice, plan_tasks
from magnetar.spark.survey import Survey
from magnetar.spark.task import Reading, column_names, read_task


@dataclass
class Task(InputPartition):
    """What one Spark task reads."""

    slices: tuple[Slice, ...]


class MagnetarSource(DataSource):
    """Registered under the name `magnetar`."""

    @classmethod
    def name(cls) -> str:
        return "magnetar"

    def schema(self) -> StructType:
        options = parse_source(self.options, is_stream=False)
        return make_schema(options.columns, BinaryType())

    def reader(self, schema: StructType) -> TopicReader:
        check_schema(schema)
        return TopicReader(parse_source(self.options, is_stream=False), schema)


class TopicReader(DataSourceReader):
    """A batch query: everything between two bounds, as it is when the query is planned."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._files: LedgerFiles | None = None

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        slices: list[Slice] = []
        with Survey(options.broker) as survey:
            for name in survey.topics(options.selection):
                slices += _plan_topic(survey, name, options)
            self._files = find_files(survey, options)
        tasks = plan_tasks(
            slices,
            order=options.key_order,
            task_bytes=options.task_bytes,
            tasks_max=options.tasks_max,
        )
        return [Task(each) for each in tasks] or [Task(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Task)
        reading = make_reading(self._options, self._schema, self._files)
        return read_task(reading, partition.slices, make_finish(self._schema, None))


def _plan_topic(survey: Survey, name: str, options: SourceOptions) -> list[Slice]:
    view = survey.view(name)
    layout = survey.layout(name)

    start = resolve_bound(options.start, view, layout, survey.place_before)
    end = resolve_bound(options.end, view, layout, survey.place_before)
    gaps = [find_gap(view, each, start.place(each.id), is_held=False) for each in view.segments]
    if options.fail_on_loss and any(gaps):
        raise DataLost(explain_loss([each for each in gaps if each is not None]))
    return plan_slices(view, start, end)


def find_files(survey: Survey, options: SourceOptions) -> LedgerFiles | None:
    """Where the broker's ledgers lie, if it says so; a task sees whether it is on that machine."""
    if options.direct_read is DirectRead.NEVER:
        return None
    try:
        return parse_files(survey.admin.brokers.ledger_files())
    except AdminError:
        return None


def make_reading(options: SourceOptions, schema: StructType, files: LedgerFiles | None) -> Reading:
    return Reading(
        options.broker,
        column_names(schema.fieldNames()),
        options.fail_on_loss,
        options.bad_value,
        options.batch_rows,
        options.batch_bytes,
        options.window_bytes,
        files,
    )

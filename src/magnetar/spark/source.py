"""The data source: `format("magnetar")` for reading and writing, in batches and in streams."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    Filter,
    InputPartition,
)
from pyspark.sql.types import BinaryType, DataType, StructType

from magnetar.spark.bound import plan_slices, resolve_bound
from magnetar.spark.option import SourceOptions, ValueFormat, parse_source
from magnetar.spark.plan import DataLost, explain_loss, find_gap
from magnetar.spark.pushdown import Test, choose_slices, parse_filters
from magnetar.spark.reading import Task, find_direct, make_reading
from magnetar.spark.row import check_schema, make_schema
from magnetar.spark.sink import TopicStreamWriter, TopicWriter
from magnetar.spark.sink_option import parse_sink
from magnetar.spark.slice import Slice, plan_tasks
from magnetar.spark.small_batch import offer_small_batches
from magnetar.spark.stream import TopicStreamReader
from magnetar.spark.survey import Survey, TopicMissing
from magnetar.spark.task import read_task
from magnetar.spark.value import (
    RegisteredSchema,
    ValueReader,
    choose_schema,
    column_type,
    load_schema,
)


class MagnetarSource(DataSource):
    """Registered under the name `magnetar`."""

    @classmethod
    def name(cls) -> str:
        return "magnetar"

    def schema(self) -> StructType:
        # Whether it is a batch or a stream is not known yet: what differs is checked later.
        options = parse_source(self.options, is_stream=False)
        kind: DataType = BinaryType()
        if options.value_format is ValueFormat.SCHEMA:
            kind = column_type(_find_schema(options))
        return make_schema(options.columns, kind)

    def reader(self, schema: StructType) -> TopicReader:
        options = parse_source(self.options, is_stream=False)
        kind = FilteringReader if options.push_down else TopicReader
        return kind(options, schema, _make_values(options, schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        options = parse_source(self.options, is_stream=True)
        return offer_small_batches(
            TopicStreamReader(options, schema, _make_values(options, schema))
        )

    def writer(self, schema: StructType, overwrite: bool) -> TopicWriter:
        return TopicWriter(parse_sink(self.options, is_stream=False), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> TopicStreamWriter:
        return TopicStreamWriter(parse_sink(self.options, is_stream=True), schema)


def _find_schema(options: SourceOptions) -> RegisteredSchema:
    with Survey(options.broker) as survey:
        names = survey.topics(options.selection)
        return choose_schema({name: load_schema(survey.admin, name) for name in names})


def _make_values(options: SourceOptions, schema: StructType) -> ValueReader | None:
    check_schema(schema)
    if options.value_format is ValueFormat.BYTES or "value" not in schema.fieldNames():
        return None
    wanted = schema["value"].dataType
    return ValueReader(options.broker, _find_schema(options), wanted, options.bad_value)


class TopicReader(DataSourceReader):
    """A batch query: everything between two bounds, as it is when the query is planned."""

    def __init__(
        self, options: SourceOptions, schema: StructType, values: ValueReader | None
    ) -> None:
        self._options = options
        self._schema = schema
        self._values = values
        self._tests: tuple[Test, ...] = ()

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        with Survey(options.broker) as survey:
            slices = choose_slices(_plan_slices(survey, options), self._tests)
            files = find_direct(survey, options, slices)
        tasks = plan_tasks(
            slices,
            order=options.key_order,
            task_bytes=options.task_bytes,
            tasks_max=options.tasks_max,
            tasks_min=options.tasks_min,
        )
        return [Task(each, files) for each in tasks] or [Task(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Task)
        reading, finish = make_reading(
            self._options, self._schema, partition.files, self._values, self._tests
        )
        return read_task(reading, partition.slices, finish)


class FilteringReader(TopicReader):
    """One to which Spark hands filters down. Spark refuses such a reader unless its setting
    spark.sql.python.filterPushdown.enabled is true, hence the option.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        self._tests = parse_filters(filters)
        return filters


def _plan_slices(survey: Survey, options: SourceOptions) -> list[Slice]:
    """Between the bounds of every topic, all of which are looked at before anything is read."""
    looks = {
        bound: survey.look(options.selection, start=given)
        for bound, given in (("start", options.start), ("end", options.end))
        if bound == "end" or given.has_time
    }
    last = looks["end"]
    if last.missing:
        raise TopicMissing(f"There is no topic {last.missing[0]}")
    slices: list[Slice] = []
    for name, view in last.views.items():
        before = looks.get("start", last).views.get(name, view)
        start = resolve_bound(options.start, before, survey.place_before)
        end = resolve_bound(options.end, view, survey.place_before)
        gaps = [find_gap(view, each, start.place(each.id)) for each in view.segments]
        if options.fail_on_loss and any(gaps):
            raise DataLost(explain_loss([each for each in gaps if each is not None]))
        slices += plan_slices(view, start, end)
    return slices

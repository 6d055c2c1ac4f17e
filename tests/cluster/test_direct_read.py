"""Spark tasks read the ledgers of a cluster at its bookies, with and without the broker."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import replace
from typing import Any

import pytest

from magnetar.client.admin import AdminClient
from magnetar.spark.bookie import BookieRecords
from magnetar.spark.reading import Task, make_reading
from magnetar.spark.source import MagnetarSource, TopicReader
from magnetar.spark.task import read_task
from tests.cluster.brokers import BrokerCluster
from tests.spark.feed import fresh, numbers, publish_regular


def _read(reader: TopicReader, task: Task, service_url: str) -> list[dict[str, Any]]:
    """As a worker that finds the broker there."""
    options = reader._options
    changed = replace(options, broker=replace(options.broker, service_url=service_url))
    reading, finish = make_reading(changed, reader._schema, task.files, None)
    return [row for batch in read_task(reading, task.slices, finish) for row in batch.to_pylist()]


def test_sealed_ledgers_are_read_at_bookies_and_the_broker_stands_in(
    brokers: BrokerCluster,
) -> None:
    name, admin_url = fresh(), brokers.running[0].admin_url
    with AdminClient(admin_url) as admin:
        admin.topics.create(f"persistent://{name}")
        publish_regular(brokers.service_url, name, range(300))
        admin.topics.unload(f"persistent://{name}")
        publish_regular(brokers.service_url, name, range(300, 320))
        admin.topics.unload(f"persistent://{name}")
    source = MagnetarSource(
        {"serviceUrl": brokers.service_url, "adminUrl": admin_url, "topic": name}
    )
    reader = source.reader(source.schema())
    tasks = [pickle.loads(pickle.dumps(each)) for each in reader.partitions()]
    assert all(isinstance(each.files, BookieRecords) for each in tasks)
    nowhere = "pulsar://127.0.0.1:1"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows = [row for task in tasks for row in _read(reader, task, nowhere)]
    assert numbers(rows) == list(range(320))
    # Without the records of the bookies' ledgers, the broker is asked, and a sentence says so.
    blind = [replace(task, files=BookieRecords({})) for task in tasks]
    with pytest.warns(RuntimeWarning, match="the broker is asked instead"):
        rows = [row for task in blind for row in _read(reader, task, brokers.service_url)]
    assert numbers(rows) == list(range(320))

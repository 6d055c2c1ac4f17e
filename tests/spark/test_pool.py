"""Connections that outlive a task: borrowed by the next one, not by two at a time."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from magnetar.spark.option import Broker
from magnetar.spark.pool import POOL, LinkPool
from magnetar.spark.sink_option import parse_sink
from magnetar.spark.sink_task import name_task, write_task
from magnetar.testing import MagnetarBroker
from tests.spark.engine import read_batch
from tests.spark.feed import fresh, numbers

NOWHERE = Broker("pulsar://127.0.0.1:1", "http://127.0.0.1:1")


def sockets_of(broker: MagnetarBroker) -> set[str]:
    """Of this process, to the broker's port, by their inodes."""
    port = f":{broker.port:04X}"
    table = [line.split() for line in Path("/proc/self/net/tcp").read_text().splitlines()[1:]]
    established = {row[9] for row in table if row[2].endswith(port) and row[3] == "01"}
    own = {str(each.readlink()) for each in Path("/proc/self/fd").iterdir() if each.is_symlink()}
    return {inode for inode in established if f"socket:[{inode}]" in own}


def test_tasks_go_on_with_the_connections_of_those_before(
    magnetar_broker: MagnetarBroker, connection: dict[str, str]
) -> None:
    POOL.close()
    before = sockets_of(magnetar_broker)
    topic = fresh()
    options = parse_sink(connection | {"topic": f"topic://{topic}"}, is_stream=False)
    seen: list[set[str]] = []
    for batch in range(3):
        rows = pa.RecordBatch.from_pydict({"key": ["a"], "value": [str(batch).encode()]})
        written = write_task(options, None, iter([rows]), name_task("w", 0, batch))
        assert (written.written, written.known) == (1, 0)
        assert numbers(read_batch(connection, topic=topic, directRead="never")) == [
            *range(batch + 1)
        ]
        seen.append(sockets_of(magnetar_broker) - before)
    assert seen[0] and seen[0] == seen[1] == seen[2]
    POOL.close()
    assert sockets_of(magnetar_broker) <= before


def test_what_a_failed_task_had_is_not_given_to_another() -> None:
    kept = len(POOL)
    broken = parse_sink(
        {
            "serviceUrl": NOWHERE.service_url,
            "adminUrl": NOWHERE.admin_url,
            "topic": "topic://public/default/none",
            "operationTimeout": "1s",
        },
        is_stream=False,
    )
    rows = pa.RecordBatch.from_pydict({"key": ["a"], "value": [b"v"]})
    with pytest.raises(Exception, match=r"127\.0\.0\.1"):
        write_task(broken, None, iter([rows]), name_task("w", 0, 0))
    assert len(POOL) == kept


def test_a_link_is_lent_to_one_task_at_a_time_and_few_are_kept() -> None:
    pool = LinkPool()
    links = [pool.borrow(NOWHERE) for _ in range(6)]
    assert len(set(map(id, links))) == 6
    for each in links:
        pool.give_back(each)
    assert len(pool) == 4
    assert pool.borrow(NOWHERE) is links[-1]
    assert pool.borrow(Broker("pulsar://127.0.0.1:2", NOWHERE.admin_url)) not in links
    pool.close()
    assert len(pool) == 0

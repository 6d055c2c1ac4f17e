"""Which ports the processes of a cluster get, and what is remembered of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from magnetar.app.cluster_state import (
    ClusterPorts,
    ClusterRefused,
    Entry,
    State,
    describe_state,
    format_status,
    load_state,
    plan_ports,
    store_state,
)

KNOWN = ClusterPorts(2181, (3181, 3182), ((6650, 8080), (6651, 8081)))


def test_free_ports_are_taken_where_none_are_given() -> None:
    ports = plan_ports(None, bookies=1, brokers=1, first={}, free=[1, 2, 3, 4])
    assert sorted(ports) == [1, 2, 3, 4]


def test_given_ports_count_on() -> None:
    first = {"zookeeper": 2181, "bookie": 3181, "broker": 6650, "web": 8080}
    assert plan_ports(None, bookies=2, brokers=2, first=first, free=[]) == KNOWN


def test_known_ports_stay_and_new_processes_get_new_ones() -> None:
    ports = plan_ports(KNOWN, bookies=3, brokers=3, first={}, free=[9, 8, 7])
    assert ports.bookies[:2] == KNOWN.bookies and ports.brokers[:2] == KNOWN.brokers
    assert sorted(ports)[:3] == [7, 8, 9]


def test_no_bookie_with_data_is_left_out_but_brokers_may_be() -> None:
    ports = plan_ports(KNOWN, bookies=1, brokers=1, first={}, free=[])
    assert ports == ClusterPorts(2181, (3181, 3182), ((6650, 8080),))


STATE = State(
    7,
    KNOWN,
    (
        Entry("zookeeper", 10, "serving", "zookeeper/server.log"),
        Entry("bookie-1", 11, "serving", "bookie-1/server.log"),
        Entry("bookie-2", 0, "dead", "bookie-2/server.log"),
        Entry("broker-1", 12, "serving", "broker-1/server.log"),
        Entry("broker-2", 13, "starting", "broker-2/server.log"),
    ),
)


def test_the_state_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert load_state(tmp_path) is None
    store_state(tmp_path, STATE)
    assert load_state(tmp_path) == STATE


def test_a_damaged_state_is_refused_with_what_it_was_for(tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_bytes(b'{"pid": 7, "por')
    with pytest.raises(ClusterRefused, match=r"damaged.*zoo\.cfg"):
        load_state(tmp_path)


def test_the_document_says_where_everything_serves() -> None:
    document = describe_state(STATE)
    assert document["zookeeper"] == "127.0.0.1:2181"
    assert [bookie["address"] for bookie in document["bookies"]] == [
        "127.0.0.1:3181",
        "127.0.0.1:3182",
    ]
    assert document["brokers"][0] == {
        "name": "broker-1",
        "pid": 12,
        "state": "serving",
        "log": "broker-1/server.log",
        "service": "pulsar://127.0.0.1:6650",
        "admin": "http://127.0.0.1:8080",
    }
    assert document["processes"]["zookeeper"] == 10


def test_the_status_has_a_line_for_each_process() -> None:
    lines = format_status(STATE).splitlines()
    assert [line.split()[:2] for line in lines] == [
        [entry.name, entry.state] for entry in STATE.processes
    ]

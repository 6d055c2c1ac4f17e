"""The broker as a test sees it."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

import pytest

from magnetar.testing import BrokerFailed, MagnetarBroker, running_broker
from magnetar.testing.broker import answers_ready, find_ports, format_setting
from magnetar.testing.plugin import StartBroker


def test_found_ports_differ_and_can_be_bound() -> None:
    ports = find_ports(20)
    assert len(set(ports)) == 20
    for port in ports:
        with socket.socket() as attempt:
            attempt.bind(("127.0.0.1", port))


@pytest.mark.parametrize(
    ("value", "text"), [(True, "true"), (False, "false"), (5, "5"), ("Shared", "Shared")]
)
def test_a_setting_is_spelled_as_the_configuration_reads_it(
    value: str | int | bool, text: str
) -> None:
    assert format_setting(value) == text


def test_a_broker_that_cannot_start_says_why() -> None:
    broker = MagnetarBroker(set={"noSuchKey": 1})
    with pytest.raises(BrokerFailed, match="noSuchKey"):
        broker.start()
    assert not broker.running
    broker.close()


def test_nothing_answers_on_a_free_port() -> None:
    assert not answers_ready(find_ports(1)[0])


def test_a_crash_ends_the_process_and_a_restart_keeps_ports_and_data(
    magnetar_broker_factory: StartBroker,
) -> None:
    broker = magnetar_broker_factory()
    before = (broker.pid, broker.service_url, broker.admin_url)
    broker.crash()
    assert not broker.running
    assert not answers_ready(broker.web_port)
    broker.restart()
    assert answers_ready(broker.web_port)
    assert (broker.service_url, broker.admin_url) == before[1:]
    assert broker.pid != before[0]
    assert any(broker.data.iterdir())


def test_a_stopped_broker_ends_cleanly_and_its_passing_data_goes_with_it() -> None:
    with MagnetarBroker() as broker:
        assert broker.stop() == 0
        assert broker.data.exists()
    assert not broker.data.exists()


def test_data_handed_in_stays(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with MagnetarBroker(data=data) as broker:
        assert broker.data == data
    assert any(data.iterdir())


def test_a_restart_can_add_settings(magnetar_broker_factory: StartBroker) -> None:
    broker = magnetar_broker_factory(maxMessageSize=1000)
    broker.restart(set={"maxTenants": 7})
    command = broker.command()
    assert "maxMessageSize=1000" in command
    assert "maxTenants=7" in command
    assert Path(f"/proc/{broker.pid}/cmdline").read_bytes().split(b"\0")[:-1] == [
        os.fsencode(word) for word in command
    ]


def test_a_broker_runs_inside_the_loop_of_a_test() -> None:
    async def body() -> None:
        async with running_broker() as server:
            assert await asyncio.to_thread(answers_ready, server.web_port)
        assert not await asyncio.to_thread(answers_ready, server.web_port)

    asyncio.run(body())

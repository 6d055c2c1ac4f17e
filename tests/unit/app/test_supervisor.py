"""What a supervisor decides before it starts anything, and when nothing can be started."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path

import pytest

from magnetar.app.directory import DataDirectory, StoreLayout, holding, read_format, widen_spread
from magnetar.app.ledger_number import LedgerNumbers
from magnetar.app.listener import Ports, open_listeners
from magnetar.app.standalone import serving
from magnetar.app.storage import open_joint
from magnetar.app.supervisor import (
    Plan,
    Supervisor,
    check_settings,
    parse_workers,
    plan_keeps,
    plan_worker_ports,
    start,
)
from magnetar.errors import DataDirectoryRefused, InvalidConfiguration
from magnetar.ledger.backends.joint import make_ledger_id, number_above, store_of
from magnetar.metadata.backends.memory import MemoryStore, MemoryTree
from magnetar.metadata.backends.sqlite import SqliteStore
from magnetar.model.position import Term
from magnetar.runtime.clock import SystemClock
from magnetar.runtime.configuration import Configuration


def test_workers_are_a_number_or_one_for_each_core() -> None:
    assert parse_workers("3") == 3
    assert parse_workers("auto") >= 1
    for text in ("0", "-1", "257", "many", ""):
        with pytest.raises(InvalidConfiguration, match="--workers is a number from 1 to 256"):
            parse_workers(text)


@pytest.mark.parametrize(
    "setting", ["metadataStoreUrl=zk://h:1", "advertisedListeners=a:pulsar://h:1"]
)
def test_what_workers_cannot_keep_is_refused(setting: str) -> None:
    with pytest.raises(InvalidConfiguration, match=setting.partition("=")[0]):
        check_settings(Configuration.load(None, [setting], standalone=True))


def test_each_worker_has_four_ports_of_its_own_from_the_first_on() -> None:
    shared = Ports(6650, None, 8080, None)
    assert plan_worker_ports(shared, None, 1) == Ports(0, None, 0, None)
    assert plan_worker_ports(shared, 7000, 0) == Ports(7000, None, 7002, None)
    assert plan_worker_ports(shared, 7000, 1) == Ports(7004, None, 7006, None)


@pytest.mark.parametrize(("count", "workers"), [(1, 1), (4, 4), (4, 3), (4, 1), (7, 2)])
def test_every_store_is_kept_by_one_worker_and_each_worker_has_its_own(
    count: int, workers: int
) -> None:
    keeps = [plan_keeps(count, workers, number) for number in range(workers)]
    assert sorted(store for each in keeps for store in each) == list(range(count))
    assert [each[0] for each in keeps] == list(range(workers))


def test_a_ledger_is_found_by_its_id_and_later_ones_have_higher_ids() -> None:
    ids = [make_ledger_id(number, store) for number, store in ((1, 255), (2, 0), (3, 7))]
    assert ids == sorted(ids) and [store_of(each, 0) for each in ids] == [255, 0, 7]
    assert make_ledger_id(number_above(ids[1]), 0) > ids[1]
    assert store_of(ids[2], first=1 << 40) == 0


def test_a_directory_gets_a_store_for_each_worker_and_keeps_them(tmp_path: Path) -> None:
    with holding(tmp_path / "data", SystemClock()) as directory:
        assert directory.spread == StoreLayout()
        assert widen_spread(directory, 3) == directory.spread == StoreLayout(3, 0)
        assert widen_spread(directory, 2) == StoreLayout(3, 0)
        assert widen_spread(directory, 5) == StoreLayout(5, 0)
        assert read_format(directory.path) is not None
        directory.folder_of(4).mkdir()
        assert [each.name for each in directory.ledger_folders] == ["ledgers", "ledgers-4"]


def test_ids_of_a_directory_with_one_store_stay_apart_from_later_ones(tmp_path: Path) -> None:
    with holding(tmp_path / "data", SystemClock()) as directory:
        directory.ledger_folder.mkdir()
        spread = widen_spread(directory, 2)
        assert spread.count == 2 and store_of(1_000_001, spread.first) == 0


def test_a_broker_alone_refuses_what_workers_have_written(tmp_path: Path) -> None:
    async def body() -> None:
        async with serving(data=tmp_path, port=0, web_port=0):
            pass

    with holding(tmp_path, SystemClock()) as directory:
        widen_spread(directory, 2)
    with pytest.raises(DataDirectoryRefused, match="was written by 2 workers: start it with"):
        asyncio.run(body())


def test_a_wrong_number_of_workers_ends_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert start(data=tmp_path, workers="none", worker_port=None) == 1
    assert "--workers is a number" in capsys.readouterr().err


def test_a_number_of_a_ledger_is_given_once_and_never_below_what_is_there() -> None:
    async def body() -> None:
        tree = MemoryTree(SystemClock())
        numbers = LedgerNumbers(MemoryStore(tree))
        first = [await numbers.take(0) for _ in range(3)]
        assert first == [1, 2, 3]
        assert await numbers.take(5_000) == 5_000
        later = await LedgerNumbers(MemoryStore(tree)).take(0)
        assert later > 5_000

    asyncio.run(body())


def test_stores_of_workers_are_below_the_data_directory() -> None:
    directory = DataDirectory(Path("/data"))
    assert directory.folder_of(0) == directory.ledger_folder == Path("/data/ledgers")
    assert directory.folder_of(2) == Path("/data/ledgers-2")


def test_ledgers_that_a_second_worker_makes_are_found_where_they_are(tmp_path: Path) -> None:
    """Also in a directory whose first ledgers were made by a broker alone."""

    async def body() -> None:
        clock = SystemClock()
        with holding(tmp_path / "data", clock) as directory:
            directory.ledger_folder.mkdir()
            spread = widen_spread(directory, 2)
            store = MemoryStore(MemoryTree(clock))
            settings = Configuration.load(None, (), standalone=True)

            async def ask(name: str, body: bytes) -> bytes:
                raise AssertionError(f"{name} is kept here")

            async with AsyncExitStack() as stack:
                storage, _ = await open_joint(
                    stack,
                    settings,
                    directory,
                    store,
                    number=1,
                    keeps=[1],
                    ask=ask,
                    take_number=LedgerNumbers(store).take,
                    clock=clock,
                )
                writer = await storage.ledgers.create(term=Term(1), properties={})
                assert store_of(writer.id, spread.first) == 1
                assert (await storage.ledgers.describe(writer.id)).last == -1

    asyncio.run(body())


_LIVES_S_MAX = 60.0


@asynccontextmanager
async def supervisor_of(path: Path, command: Sequence[str]) -> AsyncIterator[Supervisor]:
    """Of one worker, whose process `command` begins."""
    settings = Configuration.load(None, (), standalone=True)
    host, ports = "127.0.0.1", Ports(0, None, 0, None)
    async with AsyncExitStack() as stack:
        directory = stack.enter_context(holding(path, SystemClock()))
        widen_spread(directory, 1)
        shared, own = (stack.enter_context(closing(open_listeners(host, ports))) for _ in range(2))
        store = await SqliteStore.open(directory.metadata_file, clock=SystemClock())
        stack.push_async_callback(store.close)
        plan = Plan(directory, settings, 1, host, None, (), "text", "info", command)
        supervisor = Supervisor(plan, store, shared, [own])
        stack.push_async_callback(supervisor.stop)
        yield supervisor


def test_a_worker_is_started_again_though_no_process_could_begin_for_a_while(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lives, program, away = (tmp_path / name for name in ("lives", "program", "away"))
    lives.touch()
    program.write_text(f'#!/bin/sh\necho $$ >> {lives}\nexec {sys.executable} "$@"\n')
    program.chmod(0o755)

    async def life(number: int) -> int:
        while len(lives.read_text().splitlines()) < number:
            await asyncio.sleep(0.05)
        return int(lives.read_text().splitlines()[number - 1])

    async def body() -> None:
        command = (str(program), "-m", "magnetar.app.worker")
        async with (
            supervisor_of(tmp_path / "data", command) as supervisor,
            asyncio.timeout(_LIVES_S_MAX),
        ):
            assert await supervisor.start(asyncio.Event())
            program.rename(away)
            os.kill(await life(1), signal.SIGKILL)
            while caplog.text.count("worker not started, tried again") < 2:
                await asyncio.sleep(0.05)
            away.rename(program)
            await life(2)

    asyncio.run(body())


def test_workers_do_not_start_where_no_process_can_begin_at_all(tmp_path: Path) -> None:
    async def body() -> None:
        async with supervisor_of(tmp_path / "data", [str(tmp_path / "nothing")]) as supervisor:
            with pytest.raises(InvalidConfiguration, match="0 does not start: no process can be"):
                await supervisor.start(asyncio.Event())

    asyncio.run(body())

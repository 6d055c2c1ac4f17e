"""`magnetar cluster`: ZooKeeper, bookies and brokers on one machine, to try a cluster.

One directory holds everything: a directory for each process, and `cluster.json`, which says where
each serves. `magnetar cluster up` runs in the foreground and is the parent of all processes; the
other commands read the file, send signals, and leave a request beside it for what `up` has to do.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Final

import msgspec

from magnetar.app.cluster_state import (
    ZOOKEEPER,
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
from magnetar.errors import DataDirectoryRefused, InvalidConfiguration
from magnetar.testing.broker import HOST, Setting, find_ports
from magnetar.testing.jar import check_java, fetch_jars, find_java
from magnetar.testing.member import ClusterBroker
from magnetar.testing.process import READY_S_MAX, ProcessServer

_LOOK_AGAIN_S: Final = 0.2
_LOCK: Final = "LOCK"
_REQUEST: Final = "start-"
_PORT_S_MAX: Final = 3.0
_START_S_MAX: Final = 2 * READY_S_MAX
_MIB: Final = 1 << 20
# Two copies of each entry, as a broker does by default, or one where there is one bookie.
_COPIES: Final = 2


def run_up(
    data: Path,
    *,
    brokers: int,
    bookies: int,
    first: Mapping[str, int],
    overrides: Sequence[str],
    as_json: bool,
) -> int:
    if bookies < 1 or brokers < 0:
        raise InvalidConfiguration("a cluster has at least one bookie, and no fewer than 0 brokers")
    _load_bookkeeper()
    check_java(find_java())
    with _holding(data):
        fetch_jars(_show_fetched)
        known = load_state(data)
        _end_orphans(data, known)
        count = 1 + bookies + 2 * brokers
        ports = plan_ports(
            known.ports if known else None,
            bookies=bookies,
            brokers=brokers,
            first=first,
            free=find_ports(count),
        )
        _check_free(ports, data)
        cluster = Cluster(data, ports, overrides)
        # SIGTERM ends it as Ctrl-C does: servers are stopped in order, wherever it was.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            cluster.start()
            print(cluster.document() if as_json else cluster.describe(), flush=True)
            while True:
                time.sleep(_LOOK_AGAIN_S)
                cluster.look()
        except KeyboardInterrupt:
            _say("stopping: brokers, then bookies, then ZooKeeper")
            return 0
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            cluster.stop()


class Cluster:
    """The processes of one directory."""

    def __init__(self, data: Path, ports: ClusterPorts, overrides: Sequence[str] = ()) -> None:
        module = _load_bookkeeper()
        self._data = data
        self._ports = ports
        self._zookeeper: ProcessServer = module.ZookeeperServer(
            home=data / ZOOKEEPER, port=ports.zookeeper, is_durable=True
        )
        self._bookies: list[ProcessServer] = [
            module.Bookie(
                self._zookeeper,
                name=f"bookie-{number}",
                home=data / f"bookie-{number}",
                port=port,
                is_synced=True,
                settings={"autoRecoveryDaemonEnabled": True},
            )
            for number, port in enumerate(ports.bookies, 1)
        ]
        copies = min(_COPIES, len(ports.bookies))
        quorums = ("EnsembleSize", "WriteQuorum", "AckQuorum")
        settings: dict[str, Setting] = {f"managedLedgerDefault{each}": copies for each in quorums}
        settings.update(map(_parse_override, overrides))
        self._brokers: list[ProcessServer] = [
            ClusterBroker(
                f"zk://{HOST}:{ports.zookeeper}",
                name=f"broker-{number}",
                home=data / f"broker-{number}",
                port=port,
                web_port=web_port,
                set=settings,
            )
            for number, (port, web_port) in enumerate(ports.brokers, 1)
        ]
        self._states: dict[str, str] = {}

    @property
    def servers(self) -> list[ProcessServer]:
        return [self._zookeeper, *self._bookies, *self._brokers]

    def start(self) -> None:
        for group in ([self._zookeeper], self._bookies, self._brokers):
            for server in group:
                server.launch()
                self._note(server, "starting")
            for server in group:
                server.await_serving(_START_S_MAX)
                self._note(server, "serving")
                _say(f"{server.name} serves {server.address}")
            if group[:1] == [self._zookeeper]:
                _load_bookkeeper().format_cluster(f"{HOST}:{self._ports.zookeeper}")

    def look(self) -> None:
        """Report what died, start what is asked for, and see whether it serves by now."""
        for server in self.servers:
            state = self._states[server.name]
            request = self._data / f"{_REQUEST}{server.name}"
            if state != "dead" and not server.running:
                self._note(server, "dead")
                _say(f"{server.name} {_explain_end(server)}", f"its log: {server.log}")
                _say(f"start it again: {command('start', server.name, self._data)}")
            elif request.exists():
                if state == "dead":
                    server.launch()
                    self._note(server, "starting")
                request.unlink(missing_ok=True)
            elif state == "starting" and server.is_serving:
                self._note(server, "serving")
                _say(f"{server.name} serves {server.address} again")

    def stop(self) -> None:
        for group in (self._brokers, self._bookies, [self._zookeeper]):
            running = [server for server in group if server.running]
            for server in running:
                # A paused process ends when it goes on.
                server.resume()
                server.terminate()
            for server in running:
                server.await_end()
        store_state(self._data, State(0, self._ports, ()))

    def document(self) -> str:
        """What `--json` prints."""
        return msgspec.json.encode(describe_state(self._state())).decode()

    def describe(self) -> str:
        """What is printed for people."""
        state = self._state()
        services = ",".join(f"{HOST}:{port}" for port, _ in state.ports.brokers)
        connect = (
            f"clients connect to pulsar://{services}" if services else "no broker was asked for"
        )
        victim = state.processes[-1].name
        lines = [
            format_status(state),
            "",
            connect,
            f"logs are in {self._data}/NAME/server.log; Ctrl-C stops all",
            f"see what happens without one: {command('kill', victim, self._data)}",
        ]
        return "\n".join(lines)

    def _note(self, server: ProcessServer, state: str) -> None:
        self._states[server.name] = state
        store_state(self._data, self._state())

    def _state(self) -> State:
        processes = (
            Entry(
                server.name,
                server.pid if server.running else 0,
                self._states[server.name],
                str(server.log),
            )
            for server in self.servers
            if server.name in self._states
        )
        return State(os.getpid(), self._ports, tuple(processes))


# ------------------------------------------------------------------ the other commands


def run_status(data: Path, *, as_json: bool) -> int:
    state = _load_running(data)
    print(msgspec.json.encode(describe_state(state)).decode() if as_json else format_status(state))
    return 0


def run_stop(data: Path) -> int:
    """Ask `up` to stop everything, and wait until it has."""
    os.kill(_load_running(data).pid, signal.SIGTERM)
    while _is_held(data):
        time.sleep(_LOOK_AGAIN_S)
    return 0


def run_signal(data: Path, name: str, number: signal.Signals) -> int:
    """Kill, pause or resume one process."""
    entry = _find(_load_running(data), name)
    if not entry.pid:
        raise ClusterRefused(f"{name} does not run; start it: {command('start', name, data)}")
    os.kill(entry.pid, number)
    return 0


def run_start(data: Path, name: str) -> int:
    """Ask `up` to start a process that has ended, and wait until it serves."""
    deadline = time.monotonic() + _START_S_MAX
    if _find(_load_running(data), name).state == "dead":
        (data / f"{_REQUEST}{name}").touch()
    while True:
        entry = _find(_load_running(data), name)
        if entry.state == "serving":
            return 0
        if time.monotonic() > deadline:
            raise ClusterRefused(f"{name} does not serve after {_START_S_MAX:g} s: see {entry.log}")
        time.sleep(_LOOK_AGAIN_S)


def _load_running(data: Path) -> State:
    state = load_state(data)
    if state is None or not _is_held(data):
        raise ClusterRefused(f"no cluster runs on {data}; start one: {command('up', '', data)}")
    return state


def _find(state: State, name: str) -> Entry:
    for entry in state.processes:
        if entry.name == name:
            return entry
    known = ", ".join(entry.name for entry in state.processes)
    raise ClusterRefused(f"no process of the cluster is called {name}: there are {known}")


def command(verb: str, name: str, data: Path) -> str:
    return " ".join(filter(None, ("magnetar cluster", verb, name, f"--data {data}")))


# ------------------------------------------------------------------ around it


@contextmanager
def _holding(data: Path) -> Iterator[None]:
    """Make the directory; one `up` at a time, and the lock goes with the process."""
    try:
        data.mkdir(parents=True, exist_ok=True)
        lock = os.open(data / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise DataDirectoryRefused(f"{data} cannot be used: {error.strerror}") from None
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ClusterRefused(
                f"a cluster runs on {data} already; stop it: {command('stop', '', data)}"
            ) from None
        yield
    finally:
        os.close(lock)


def _is_held(data: Path) -> bool:
    try:
        with (data / _LOCK).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _end_orphans(data: Path, known: State | None) -> None:
    """Processes of an `up` that was killed run on, and hold their ports and directories."""
    for entry in known.processes if known else ():
        if entry.pid and str(data / entry.name) in _command_of(entry.pid):
            _say(f"{entry.name} (pid {entry.pid}) is left of a run that was killed: ending it")
            os.kill(entry.pid, signal.SIGKILL)


def _command_of(pid: int) -> str:
    words = [shutil.which("ps") or "/bin/ps", "-ww", "-o", "args=", "-p", str(pid)]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout


def _check_free(ports: ClusterPorts, data: Path) -> None:
    """A process that was just ended has its port for a moment more."""
    deadline = time.monotonic() + _PORT_S_MAX
    for port in ports:
        while (problem := _try_port(port)) and time.monotonic() < deadline:
            time.sleep(_LOOK_AGAIN_S)
        if problem:
            raise ClusterRefused(
                f"port {port} cannot be used ({problem}); end the process that has it."
                f" The ports of {data} stay as they were first chosen"
            )


def _try_port(port: int) -> str:
    """Why nothing can listen there; empty when something can."""
    with socket.socket() as attempt:
        attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            attempt.bind((HOST, port))
        except OSError as error:
            return str(error.strerror)
    return ""


def _load_bookkeeper() -> ModuleType:
    try:
        from magnetar.testing import bookkeeper
    except ImportError:
        raise InvalidConfiguration(
            "a cluster needs kazoo, the client of ZooKeeper; install magnetar[cluster]"
        ) from None
    return bookkeeper


def _parse_override(text: str) -> tuple[str, str]:
    key, mark, value = text.partition("=")
    if not mark:
        raise InvalidConfiguration(f"--set takes KEY=VALUE, not {text!r}")
    return key, value


def _explain_end(server: ProcessServer) -> str:
    code = server.exit_code
    if code is None or code >= 0:
        return f"ended by itself with {code}"
    return f"was ended by {signal.Signals(-code).name}"


def _say(*sentences: str) -> None:
    for sentence in sentences:
        print(f"cluster: {sentence}", file=sys.stderr, flush=True)


def _show_fetched(done: int, total: int) -> None:
    """One line that counts on a terminal, and one at the end elsewhere."""
    if sys.stderr.isatty() or done == total:
        shown = f"fetched ZooKeeper and BookKeeper, {done / _MIB:.1f} of {total / _MIB:.1f} MiB"
        print(f"\rcluster: {shown}", end="\n" * (done == total), file=sys.stderr, flush=True)

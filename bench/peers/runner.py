"""Runs the measures: against servers that stay, or against one that is made for the measure."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.gauge import peak_mib, rss_mib
from bench.peers.measure import Result
from bench.peers.row import FRESH, NATIVE, OURS, Run
from bench.peers.server import KIT, Magnetar, Server, find_clients, make_kafka, make_nats

REPOSITORY = Path(__file__).parent.parent.parent
IDLE_S = 2.0
"""Before the memory of an idle server is read."""
NATIVE_S = 8.0
RUN_S_MAX = 600.0
LOG = "%"
"""How the lines begin that librdkafka logs."""
MAKERS: dict[str, Callable[[], Server]] = {
    OURS: Magnetar,
    "kafka": make_kafka,
    "kafka-sync": make_kafka,
    "nats": lambda: make_nats(sync=False),
    "nats-sync": lambda: make_nats(sync=True),
}
BULK_SIDES = {OURS: "sdk", "kafka": "kafka", "nats": "nats"}
"""Who fills a server that a measure makes."""


class Failed(Exception):
    """A run that has no result."""


class Runner:
    def __init__(self) -> None:
        self._servers: dict[str, Server] = {}
        self._clients = find_clients()

    def close(self) -> None:
        for server in self._servers.values():
            server.close()

    def run(self, run: Run) -> Result:
        """Its figures, or what went wrong."""
        load = os.getloadavg()[0]
        try:
            if run.measure in FRESH:
                result = self._run_fresh(run)
            elif run.measure in NATIVE:
                result = self._run_native(run)
            else:
                result = self._call(run, self._server(run).address, make_name())
        except (Failed, subprocess.SubprocessError) as problem:
            result = {"error": str(problem)}
        return result | {"load1": round(load, 1)}

    def _server(self, run: Run) -> Server:
        """Whether Kafka syncs is a matter of the topic."""
        name = run.kind if run.kind == "kafka" else run.contender
        if name not in self._servers:
            server = MAKERS[name]()
            self._servers[name] = server
            server.start()
        return self._servers[name]

    def _call(
        self, run: Run, address: str, topic: str, *, measure: str = "", side: str = ""
    ) -> Result:
        side = side or run.side
        python = sys.executable if run.contender == OURS else self._clients
        command = [python, "-m", f"bench.peers.side_{side}", measure or run.measure]
        command += ["--address", address, "--topic", topic]
        command += ["--size", str(run.size), "--count", str(run.count)]
        command += ["--sync"] if run.is_synced and run.kind == "kafka" else []
        return json.loads(_output(command))  # type: ignore[no-any-return]

    # ------------------------------------------------------------------ tools of the peers

    def _run_native(self, run: Run) -> Result:
        address, topic = self._server(run).address, make_name()
        verb = run.measure.removeprefix("native-")
        if run.contender == OURS:
            command = [str(KIT / "pulsar"), "javabench", f"pulsar://{address}", f"{NATIVE_S:g}"]
            command += [str(run.size), "1", "1", *(["consume"] if verb == "consume" else [])]
            return json.loads(_output(command))  # type: ignore[no-any-return]
        self._call(run, address, topic, measure="create")
        if run.kind == "nats":
            command = [str(KIT / "nats"), "bench", f"nats://{address}"]
            words = [topic, str(run.count), str(run.size)]
            if verb == "consume":
                _output([*command, "produce", *words])
            return json.loads(_output([*command, verb, *words]))  # type: ignore[no-any-return]
        kit, count = str(KIT / "kafka"), str(run.count)
        # As many before them, so that its JVM is as warm as that of our Java client.
        warm = count if verb == "produce" else "0"
        words = [address, topic, warm, count, str(run.size), "acks=all", "batch.size=131072"]
        line = _output([kit, "produce", *words])
        if verb == "produce":
            return {"rate_per_s": round(float(line.split(",")[1].split()[0]))}
        line = _output([kit, "consume", address, topic, count])
        return {"rate_per_s": round(float(line.split(",")[9]))}

    # ------------------------------------------------------------------ a server of its own

    def _run_fresh(self, run: Run) -> Result:
        with making(run.contender) as server:
            start_s, address, topic = server.start(), server.address, make_name()
            side = BULK_SIDES[run.kind]
            match run.measure:
                case "life":
                    return self._live(run, server, start_s)
                case "topics":
                    before = rss_mib(server.pid)
                    result = self._call(run, address, topic, measure="topics", side=side)
                    grown_kib = (rss_mib(server.pid) - before) * 1024
                    return result | {"kib_each": round(grown_kib / run.count, 1)}
                case _:
                    if run.contender == OURS:
                        self._call(run, address, topic, measure="hold", side=side)
                    self._call(run, address, topic, measure="produce", side=side)
                    server.crash()
                    ready_s = server.start()
                    first = self._call(run, server.address, topic, measure="first", side=side)
                    if first["messages"] <= run.count:
                        raise Failed(f"LOST: {first['messages']} of {run.count + 1} are there")
                    return first | {
                        "start_s": round(ready_s, 3),
                        "recovery_s": round(ready_s + first["first_s"], 3),
                    }

    def _live(self, run: Run, server: Server, start_s: float) -> Result:
        """Idle, loaded, and what is on disk after it."""
        time.sleep(IDLE_S)
        idle = rss_mib(server.pid)
        before = disk_bytes(server.data)
        side, topic = BULK_SIDES[run.kind], make_name()
        if run.contender == OURS:
            self._call(run, server.address, topic, measure="hold", side=side)
        self._call(run, server.address, topic, measure="produce", side=side)
        loaded = peak_mib(server.pid)
        server.stop()
        stored = disk_bytes(server.data) - before
        return {
            "messages": run.count,
            "start_s": round(start_s, 3),
            "idle_mib": round(idle, 1),
            "loaded_mib": round(loaded, 1),
            "disk_bytes": round(stored / run.count, 1),
        }


@contextmanager
def making(contender: str) -> Iterator[Server]:
    server = MAKERS[contender]()
    try:
        yield server
    finally:
        server.close()


def make_name() -> str:
    return f"bench-{uuid.uuid4().hex[:10]}"


def disk_bytes(folder: Path) -> int:
    """What the files take of the disk, not how long they say they are."""
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())


def _output(command: list[str]) -> str:
    """The last line that a command prints."""
    done = subprocess.run(
        command, cwd=REPOSITORY, capture_output=True, text=True, timeout=RUN_S_MAX
    )
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        said = [line for line in done.stderr.splitlines() if line and not line.startswith(LOG)]
        reason = (said or ["it printed nothing"])[-1]
        raise Failed(f"{' '.join(command[:4])}: {reason}")
    return lines[-1]

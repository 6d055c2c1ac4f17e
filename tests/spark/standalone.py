"""Spark's own cluster and a store that speaks S3, as processes of this machine."""

from __future__ import annotations

import io
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark

from magnetar.testing.broker import HOST, find_ports
from tests.spark.conftest import JAVA_OPTIONS

PATIENCE_S = 240.0
WORKERS = 2
USERS = ("nobody", "daemon")
"""Of every system; Java must find a name for a user."""


def await_true(found: Callable[[], bool], explain: Callable[[], str]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not found():
        assert time.monotonic() < deadline, explain()
        time.sleep(1)


def get(url: str) -> str | None:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return str(answer.read().decode())
    except OSError:
        return None


class Processes(AbstractContextManager["Processes"]):
    """Ended together, with what they started themselves."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._running: list[subprocess.Popen[bytes]] = []

    def start(
        self, name: str, command: Sequence[str], *, env: dict[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        folder = self.home / name
        folder.mkdir(exist_ok=True)
        with (folder / "log").open("ab") as log:
            process = subprocess.Popen(
                command,
                cwd=folder,
                env={**os.environ, **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._running.append(process)
        return process

    def read_log(self, name: str) -> str:
        return (self.home / name / "log").read_text(errors="replace")

    def __exit__(self, *_: object) -> None:
        for each in reversed(self._running):
            kill(each)


def kill(process: subprocess.Popen[bytes]) -> None:
    """With its whole group."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


class StandaloneCluster:
    """A master and two workers with a core each, in directories of their own.

    Where that may be, workers run as users of their own, who can write nothing of the driver's or
    the broker's, and see nothing of the folders in `hidden`, as if they were on another machine.
    """

    def __init__(self, processes: Processes, hidden: Sequence[Path]) -> None:
        self._processes = processes
        self._hidden = hidden
        self._port, self._web_port, *self._worker_ports = find_ports(2 + 2 * WORKERS)
        self._home = Path(pyspark.__file__).parent
        self.url = f"spark://{HOST}:{self._port}"
        self._start()

    def _start(self) -> None:
        self._run("master", "master.Master", "--port", self._port, "--webui-port", self._web_port)
        for number in range(WORKERS):
            port, web_port = self._worker_ports[2 * number : 2 * number + 2]
            self._run(
                f"worker-{number}",
                "worker.Worker",
                *("--port", port, "--webui-port", web_port, "--cores", 1, "--memory", "1g"),
                *("--work-dir", self._processes.home / f"worker-{number}" / "work", self.url),
                hidden=self._hidden,
                user=USERS[number],
            )

    def _run(
        self,
        name: str,
        program: str,
        *words: Any,
        hidden: Sequence[Path] = (),
        user: str | None = None,
    ) -> None:
        command = [str(self._home / "bin" / "spark-class"), f"org.apache.spark.deploy.{program}"]
        command += ["--host", HOST, *map(str, words)]
        folder = self._processes.home / name
        folder.mkdir()
        if user is not None and can_be_others():
            command = [*as_user(user), *command]
            shutil.chown(folder, user)
        if hidden and can_mount():
            mounts = "".join(f"mount -t tmpfs none {each} && " for each in hidden)
            command = ["unshare", "-m", "sh", "-c", f'{mounts}exec "$@"', "sh", *command]
        env = {
            "HOME": str(folder),
            "SPARK_HOME": str(self._home),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": JAVA_OPTIONS,
            "PYSPARK_PYTHON": sys.executable,
        }
        self._processes.start(name, command, env=env)

    def executors(self) -> list[int]:
        found = []
        for each in Path("/proc").iterdir():
            if each.name.isdecimal():
                try:
                    words = (each / "cmdline").read_bytes().decode(errors="replace")
                except OSError:
                    continue  # it has gone meanwhile
                if "CoarseGrainedExecutorBackend" in words and any(
                    f"Worker@{HOST}:{port}" in words for port in self._worker_ports
                ):
                    found.append(int(each.name))
        return found


def as_user(user: str) -> list[str]:
    """Who may write nothing of others, but reach a Python that lies in somebody's home."""
    reach = (f"--{kind}-caps=+dac_read_search" for kind in ("inh", "ambient"))
    return ["setpriv", f"--reuid={user}", "--regid=nogroup", "--clear-groups", *reach]


@cache
def can_be_others() -> bool:
    """Whether processes may be another user's, who can use this Python."""
    python = ["sh", "-c", 'exec "$0" -c "import magnetar.spark.option"', sys.executable]
    return is_possible([*as_user(USERS[0]), *python])


@cache
def can_mount() -> bool:
    """Whether processes may have mounts of their own."""
    return is_possible(["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"])


def is_possible(command: Sequence[str], environment: Mapping[str, str] = os.environ) -> bool:
    """Whether this machine allows a command. What CI runs on must: there nothing is shown of one
    machine for several.
    """
    if shutil.which(command[0]) is None:
        why = "it is not installed"
    else:
        done = subprocess.run(command, capture_output=True, cwd="/", text=True)
        if done.returncode == 0:
            return True
        why = done.stderr.strip()
    assert environment.get("CI") != "true", f"CI cannot do without {shlex.join(command)}: {why}"
    return False


class ObjectStore:
    """moto's S3, with one bucket."""

    BUCKET = "lake"

    def __init__(self, processes: Processes) -> None:
        (port,) = find_ports(1)
        self.url = f"http://{HOST}:{port}"
        processes.start("s3", [sys.executable, "-m", "moto.server", "-p", str(port)])

    def make_bucket(self) -> None:
        await_true(lambda: get(self.url) is not None, lambda: "moto did not start")
        request = urllib.request.Request(f"{self.url}/{self.BUCKET}", method="PUT")
        urllib.request.urlopen(request, timeout=30).close()

    @property
    def settings(self) -> dict[str, str]:
        own = {
            "endpoint": self.url,
            "endpoint.region": "us-east-1",
            "path.style.access": "true",
            "connection.ssl.enabled": "false",
            "access.key": "test",
            "secret.key": "test",
        }
        return {f"spark.hadoop.fs.s3a.{name}": value for name, value in own.items()}

    def count(self, prefix: str, suffix: str) -> int:
        return sum(each.endswith(suffix) for each in self._keys(prefix))

    def read(self, key: str) -> bytes:
        place = f"{self.url}/{self.BUCKET}/{urllib.parse.quote(key)}"
        asked = urllib.request.Request(place, headers={"Authorization": "AWS test:none"})
        with urllib.request.urlopen(asked, timeout=30) as answer:
            return bytes(answer.read())

    def read_table(self, prefix: str) -> pa.Table:
        """Of all Parquet files below a prefix."""
        files = [each for each in self._keys(prefix) if each.endswith(".parquet")]
        return pa.concat_tables(pq.read_table(io.BytesIO(self.read(each))) for each in files)

    def _keys(self, prefix: str) -> list[str]:
        """Up to a thousand."""
        text = get(f"{self.url}/{self.BUCKET}?list-type=2&prefix={prefix}") or ""
        return re.findall("<Key>(.*?)</Key>", text)

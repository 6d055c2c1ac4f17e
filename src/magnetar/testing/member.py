"""A broker of a cluster, in a process of its own: it has no data, which is in bookies."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from magnetar.testing.broker import HOST, Setting, answers_ready, find_ports, format_setting
from magnetar.testing.process import ProcessServer


class ClusterBroker(ProcessServer):
    """`magnetar broker` on a ZooKeeper and the bookies that are registered there."""

    def __init__(
        self,
        metadata: str,
        *,
        name: str = "broker",
        home: Path | None = None,
        port: int | None = None,
        web_port: int | None = None,
        set: Mapping[str, Setting] | None = None,
        arguments: Sequence[str] = (),
    ) -> None:
        super().__init__(name, home)
        free = find_ports(2)
        self.port, self.web_port = port or free[0], web_port or free[1]
        self.metadata = metadata
        self.settings = dict(set or {})
        self._arguments = tuple(arguments)

    @property
    def service_url(self) -> str:
        return f"pulsar://{HOST}:{self.port}"

    @property
    def admin_url(self) -> str:
        return f"http://{HOST}:{self.web_port}"

    @property
    def address(self) -> str:
        return self.service_url

    @property
    def is_serving(self) -> bool:
        return answers_ready(self.web_port)

    def command(self) -> list[str]:
        command = [sys.executable, "-m", "magnetar", "broker", "--data", str(self.home / "data")]
        command += ["--port", str(self.port), "--web-port", str(self.web_port)]
        command += ["--metadata", self.metadata]
        for key, value in self.settings.items():
            command += ["--set", f"{key}={format_setting(value)}"]
        return [*command, *self._arguments]

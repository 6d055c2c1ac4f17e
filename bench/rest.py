"""REST requests per second on one connection, and the broker's processor time for each.

With --against, a checkout of another commit takes turns with this one.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench.gauge import cpu_s, median

TOPIC = "/admin/v2/persistent/public/default/bench"
ROWS: Mapping[str, tuple[str, str, bytes | None]] = {
    "list tenants": ("GET", "/admin/v2/tenants", None),
    "topic stats": ("GET", f"{TOPIC}/stats", None),
    "namespace policies": ("GET", "/admin/v2/namespaces/public/default", None),
    "set a policy": ("POST", f"{TOPIC}/maxConsumers", b"5"),
    "a refusal": ("GET", "/admin/v2/persistent/public/default/absent/stats", None),
}
HERE = Path(__file__).parent.parent


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def serving(checkout: Path) -> Iterator[tuple[int, int]]:
    """A broker of that checkout: its process id and the port of its REST interface."""
    port, web_port = free_port(), free_port()
    with tempfile.TemporaryDirectory() as data:
        command = [sys.executable, "-m", "magnetar", "standalone", "--data", data]
        command += ["--port", str(port), "--web-port", str(web_port)]
        environment = os.environ | {"PYTHONPATH": str(checkout / "src")}
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
        try:
            wait_ready(web_port)
            yield process.pid, web_port
        finally:
            process.terminate()
            process.wait()


def wait_ready(port: int) -> None:
    for _ in range(300):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port)
            connection.request("GET", "/admin/v2/brokers/ready")
            if connection.getresponse().status == 200:
                return
        except OSError:
            time.sleep(0.1)
    raise TimeoutError("the broker is not ready")


def measure(pid: int, port: int, row: str, seconds: float) -> tuple[float, float]:
    """Requests per second, and microseconds of the broker's processor time for each."""
    method, path, body = ROWS[row]
    connection = http.client.HTTPConnection("127.0.0.1", port)
    headers = {"Content-Type": "application/json"} if body is not None else {}
    count, used, began = 0, cpu_s(pid), time.perf_counter()
    while time.perf_counter() - began < seconds:
        for _ in range(20):
            connection.request(method, path, body, headers)
            connection.getresponse().read()
        count += 20
    took = time.perf_counter() - began
    return count / took, (cpu_s(pid) - used) / count * 1e6


def run_turn(checkout: Path, seconds: float) -> dict[str, tuple[float, float]]:
    with serving(checkout) as (pid, port):
        connection = http.client.HTTPConnection("127.0.0.1", port)
        connection.request("PUT", TOPIC, b"{}", {"Content-Type": "application/json"})
        connection.getresponse().read()
        for row in ROWS:
            measure(pid, port, row, 0.2)
        return {row: measure(pid, port, row, seconds) for row in ROWS}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each row and turn (1)")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--against", type=Path, help="the checkout of another commit")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    checkouts = {"now": HERE} | ({"other": options.against} if options.against else {})
    turns: dict[str, list[dict[str, tuple[float, float]]]] = {name: [] for name in checkouts}
    for _ in range(options.turns):
        for name, checkout in checkouts.items():
            turns[name].append(run_turn(checkout, options.seconds))
    rows = {
        row: {
            name: {
                "per_s": median([each[row][0] for each in taken]),
                "cpu_us": median([each[row][1] for each in taken]),
            }
            for name, taken in turns.items()
        }
        for row in ROWS
    }
    if options.json:
        print(json.dumps(rows))
        return
    for row, found in rows.items():
        text = "   ".join(
            f"{name} {each['per_s']:6.0f}/s {each['cpu_us']:6.0f} us"
            for name, each in found.items()
        )
        if "other" in found:
            text += f"   ratio {found['now']['per_s'] / found['other']['per_s']:.2f}"
        print(f"{row:<20} {text}")


if __name__ == "__main__":
    main()

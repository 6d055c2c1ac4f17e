"""What the machine itself can do: syncs of the disk, bytes through the loopback, and who it is."""

from __future__ import annotations

import argparse
import json
import os
import platform
import socket
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from bench.gauge import percentile_ms

Result = dict[str, Any]
PAGE = b"x" * 4096
BUFFER_BYTES = 1 << 20


def measure_syncs(seconds: float = 1.0) -> Result:
    """One page appended and synced, over and over."""
    took = []
    with tempfile.TemporaryFile(dir=Path(tempfile.gettempdir())) as file:
        began = last = time.perf_counter()
        while last - began < seconds:
            os.write(file.fileno(), PAGE)
            os.fdatasync(file.fileno())
            now = time.perf_counter()
            took.append(now - last)
            last = now
    return {
        "syncs_per_s": round(len(took) / (last - began)),
        "p50_ms": round(percentile_ms(took, 0.5), 3),
        "p99_ms": round(percentile_ms(took, 0.99), 3),
    }


def measure_writing(mib: int = 256) -> Result:
    """A file written in pieces of a MiB and synced at its end."""
    with tempfile.TemporaryFile(dir=Path(tempfile.gettempdir())) as file:
        piece = bytes(BUFFER_BYTES)
        began = time.perf_counter()
        for _ in range(mib):
            os.write(file.fileno(), piece)
        os.fdatasync(file.fileno())
        return {"mib_per_s": round(mib / (time.perf_counter() - began))}


def measure_loopback(mib: int = 1024) -> Result:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def send() -> None:
            with socket.create_connection(server.getsockname()) as line:
                piece = bytes(BUFFER_BYTES)
                for _ in range(mib):
                    line.sendall(piece)

        sender = threading.Thread(target=send)
        sender.start()
        line, _ = server.accept()
        with line:
            room, got = bytearray(BUFFER_BYTES), 0
            began = time.perf_counter()
            while count := line.recv_into(room):
                got += count
            seconds = time.perf_counter() - began
        sender.join()
    return {"mib_per_s": round(got / (1 << 20) / seconds)}


def describe_machine() -> Result:
    cpu = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    memory_kib = int(Path("/proc/meminfo").read_text().split()[1])
    return {
        "cores": os.cpu_count(),
        "processor": cpu[0] if cpu else platform.processor(),
        "memory_gib": round(memory_kib / (1 << 20)),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def measure_limits() -> Result:
    return {
        "sync": measure_syncs(),
        "write": measure_writing(),
        "loopback": measure_loopback(),
        "load1": round(os.getloadavg()[0], 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result = {"machine": describe_machine(), "limits": measure_limits()}
    if options.json:
        print(json.dumps(result))
        return
    for group in result.values():
        for name, value in group.items():
            print(f"{name:<12} {value}")


if __name__ == "__main__":
    main()

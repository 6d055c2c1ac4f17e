"""A broker that counts the bytecodes its event loop runs, from SIGUSR1 on: `python -m
bench.bytecode FILE standalone ...`. FILE holds the count, eight bytes that others may read at any
time. The same work runs the same bytecodes, so that a difference of a thousandth shows, on a busy
machine too.
"""

from __future__ import annotations

import mmap
import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any

from magnetar.cli.main import main
from magnetar.testing import MagnetarBroker

_QUIET_S = 0.02


class CountingBroker(MagnetarBroker):
    def command(self) -> list[str]:
        executable, _, _, *arguments = super().command()  # python -m magnetar
        return [executable, "-m", "bench.bytecode", str(self._counter), *arguments]

    @property
    def _counter(self) -> Path:
        return self._home / "bytecodes"

    def count(self) -> None:
        """From now on."""
        os.kill(self.pid, signal.SIGUSR1)
        time.sleep(_QUIET_S)

    def read(self) -> int:
        """So far, when nothing has run for a while."""
        last = -1
        while (found := int.from_bytes(self._counter.read_bytes(), sys.byteorder)) != last:
            last = found
            time.sleep(_QUIET_S)
        return found


def run(counter: Path, arguments: list[str]) -> None:
    counter.write_bytes(bytes(8))
    with counter.open("r+b") as file:
        cell = memoryview(mmap.mmap(file.fileno(), 8)).cast("Q")

        def on_bytecode(frame: FrameType, event: str, argument: Any) -> Any:
            if event == "opcode":
                cell[0] += 1
            return on_bytecode

        def on_call(frame: FrameType, event: str, argument: Any) -> Any:
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
            return on_bytecode

        signal.signal(signal.SIGUSR1, lambda number, frame: sys.settrace(on_call))
        sys.argv = ["magnetar", *arguments]
        main()


if __name__ == "__main__":
    run(Path(sys.argv[1]), sys.argv[2:])

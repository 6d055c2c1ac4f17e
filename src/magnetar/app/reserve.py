"""Room on the disk that is kept for the day the disk is full.

On a full disk a broker could not even write down that it starts, so nothing could be deleted to
make room. A file of the data directory holds some; it is given up when nothing else is left. Until
it can be taken again, entries are refused and what makes room is not.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from magnetar.runtime.log import Logger

_log = Logger(__name__)

_NAME: Final = "RESERVE"
RESERVE_BYTES: Final = 1 << 20
LOW_BYTES: Final = 256 << 10
"""With less room than this the reserve is given up."""


def free_bytes(path: Path) -> int:
    return shutil.disk_usage(path).free


class Reserve:
    """Call `update` now and then; it blocks for a moment."""

    def __init__(self, directory: Path, room: Callable[[Path], int] = free_bytes) -> None:
        self._directory = directory
        self._file = directory / _NAME
        self._room = room
        self.trouble: str | None = None
        """Why entries are refused; None while the reserve is there."""

    def update(self) -> None:
        room = self._room(self._directory)
        if self._file.exists() and room >= LOW_BYTES:
            self._note(None)
        elif self._file.exists():
            self._file.unlink()
            self._note(room)
        elif room < RESERVE_BYTES + 2 * LOW_BYTES or not self._take():
            self._note(room)
        else:
            self._note(None)

    def _take(self) -> bool:
        try:
            descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(descriptor, 0, RESERVE_BYTES)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError:
            self._file.unlink(missing_ok=True)
            return False
        return True

    def _note(self, room: int | None) -> None:
        was = self.trouble
        self.trouble = None
        if room is not None:
            needed = RESERVE_BYTES + 2 * LOW_BYTES
            self.trouble = (
                f"the disk of {self._directory} is full: {room} bytes are left, and {needed} are"
                " needed to go on; delete topics, or make room otherwise"
            )
        if self.trouble is not None and was is None:
            _log.error("disk full, entries are refused", reason=self.trouble)
        elif self.trouble is None and was is not None:
            _log.info("the disk has room again", data=self._directory)

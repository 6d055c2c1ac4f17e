"""`magnetar version`."""

from __future__ import annotations

import platform

from magnetar import __version__
from magnetar.cli.command import Options


def run(options: Options) -> int:
    print(f"magnetar {__version__} (Python {platform.python_version()})")
    return 0

"""`magnetar demo`."""

from __future__ import annotations

import importlib

from magnetar.cli.command import Options


def run(options: Options) -> int:
    # The assembly is the one room above this one, hence the import by name when it is needed.
    demo = importlib.import_module("magnetar.app.demo")
    code: int = demo.run()
    return code

"""`magnetar doctor`."""

from __future__ import annotations

import importlib

from magnetar.cli.command import Options


def run(options: Options) -> int:
    # The assembly is the one room above this one, hence the import by name when it is needed.
    doctor = importlib.import_module("magnetar.app.doctor")
    code: int = doctor.run(options.directory, repair=options.repair)
    return code

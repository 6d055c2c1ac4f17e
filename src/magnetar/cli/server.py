"""The commands that run a broker here or work on its data: standalone, broker, doctor and demo.

The assembly is the one room above this one, hence its imports by name when they are needed.
"""

from __future__ import annotations

import importlib
import sys

from magnetar.cli.command import Options


def run_standalone(options: Options, *, standalone: bool = True) -> int:
    code: int = importlib.import_module("magnetar.app.standalone").run(
        data=options.data,
        port=options.port,
        web_port=options.web_port,
        bind=_bind(options),
        config=options.config,
        overrides=_overrides(options),
        standalone=standalone,
        log_format=options.log_format,
        log_level=options.log_level,
    )
    return code


def run_broker(options: Options) -> int:
    """As standalone, on Pulsar's defaults for a broker, and never on metadata of its own."""
    named = any(each.startswith("metadataStoreUrl=") for each in _overrides(options))
    if not named and options.config is None:
        print(
            "magnetar: a broker shares its metadata store with others: name it with"
            " --metadata zk://host:port/chroot, or metadataStoreUrl in --config;"
            " a broker alone is started by: magnetar standalone",
            file=sys.stderr,
        )
        return 1
    return run_standalone(options, standalone=False)


def run_doctor(options: Options) -> int:
    doctor = importlib.import_module("magnetar.app.doctor")
    code: int = doctor.run(options.directory, repair=options.repair)
    return code


def run_demo(options: Options) -> int:
    code: int = importlib.import_module("magnetar.app.demo").run()
    return code


def _bind(options: Options) -> str | None:
    """Only this machine unless told otherwise; None leaves it to the configuration."""
    overrides = options.set or []
    if options.config is not None or any(each.startswith("bindAddress=") for each in overrides):
        return None if options.bind is None else str(options.bind)
    return options.bind or "127.0.0.1"


def _overrides(options: Options) -> list[str]:
    """What the command line sets, with its shorter spelling of one key."""
    chosen = list(options.set or [])
    if options.metadata:
        chosen.append(f"metadataStoreUrl={options.metadata}")
    return chosen

"""The commands that run a broker here or work on its data: standalone, broker, doctor,
promote, give-back and demo.

The assembly is the one room above this one, hence its imports by name when they are needed.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

from magnetar.cli.command import Options


def _run(module: str, *given: Any, **named: Any) -> int:
    code: int = importlib.import_module(f"magnetar.app.{module}").run(*given, **named)
    return code


def run_standalone(options: Options) -> int:
    return _serve(options, standalone=True)


def _serve(options: Options, *, standalone: bool, **more: str) -> int:
    names = ("data", "port", "web_port", "config", "log_format", "log_level")
    return _run(
        "standalone",
        bind=_bind(options),
        overrides=_overrides(options),
        standalone=standalone,
        **{name: getattr(options, name) for name in names},
        **more,
    )


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
    return _serve(options, standalone=False, ledgers=options.ledgers)


def run_doctor(options: Options) -> int:
    return _run("doctor", options.directory, repair=options.repair)


def run_promote(options: Options) -> int:
    names = ("data", "metadata", "cluster", "config")
    chosen = {name: getattr(options, name) for name in names}
    return _run("promote", overrides=list(options.set or []), **chosen)


def run_give_back(options: Options) -> int:
    chosen = {name: getattr(options, name) for name in ("metadata", "config")}
    return _run("give_back", overrides=list(options.set or []), **chosen)


def run_demo(options: Options) -> int:
    return _run("demo")


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

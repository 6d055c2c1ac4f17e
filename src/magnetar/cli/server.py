"""The commands that run a broker here or work on its data: standalone, broker, doctor,
promote, give-back and demo.

The assembly is the one room above this one, hence its imports by name when they are needed.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

from magnetar import ConfigurationError
from magnetar.cli.command import Options


def load_app(module: str) -> ModuleType:
    """The one door to what runs or mends a broker: the libraries behind it come with an extra."""
    try:
        return importlib.import_module(f"magnetar.app.{module}")
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] == "magnetar":
            raise
        raise ConfigurationError(
            f"A broker needs {error.name}, which is not installed;"
            " install it with: pip install 'magnetar[server]'"
        ) from None


def run_app(module: str, *given: Any, function: str = "run", **named: Any) -> int:
    code: int = getattr(load_app(module), function)(*given, **named)
    return code


def run_standalone(options: Options) -> int:
    """The supervisor starts without the libraries of a broker, and says whether it is needed."""
    serving = _serving(options)
    named = {"workers": options.workers, "worker_port": options.worker_port}
    code: int | None = load_app("supervisor").start(**named, **serving)
    return run_app("standalone", **serving) if code is None else code


def _serving(options: Options) -> dict[str, Any]:
    names = ("data", "port", "web_port", "config", "log_format", "log_level")
    chosen = {name: getattr(options, name) for name in names}
    return {"bind": _bind(options), "overrides": _overrides(options), **chosen}


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
    return run_app("standalone", standalone=False, ledgers=options.ledgers, **_serving(options))


def run_doctor(options: Options) -> int:
    return run_app("doctor", options.directory, repair=options.repair)


def run_backup(options: Options) -> int:
    return run_app("backup", options.data, options.target, function="run_backup")


def run_restore(options: Options) -> int:
    return run_app("backup", options.backup, options.data, function="run_restore")


def run_promote(options: Options) -> int:
    names = ("data", "metadata", "cluster", "config")
    chosen = {name: getattr(options, name) for name in names}
    return run_app("promote", overrides=list(options.set or []), **chosen)


def run_give_back(options: Options) -> int:
    chosen = {name: getattr(options, name) for name in ("metadata", "config")}
    return run_app("give_back", overrides=list(options.set or []), **chosen)


def run_demo(options: Options) -> int:
    return run_app("demo")


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

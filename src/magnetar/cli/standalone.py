"""`magnetar standalone`."""

from __future__ import annotations

import importlib

from magnetar.cli.command import Options


def _bind(options: Options) -> str | None:
    """Only this machine unless told otherwise; None leaves it to the configuration."""
    overrides = options.set or []
    if options.config is not None or any(each.startswith("bindAddress=") for each in overrides):
        return None if options.bind is None else str(options.bind)
    return options.bind or "127.0.0.1"


def overrides_of(options: Options) -> list[str]:
    """What the command line sets, with its shorter spelling of one key."""
    chosen = list(options.set or [])
    if options.metadata:
        chosen.append(f"metadataStoreUrl={options.metadata}")
    return chosen


def run(options: Options, *, standalone: bool = True) -> int:
    # The assembly is the one room above this one, hence the import by name when it is needed.
    assembly = importlib.import_module("magnetar.app.standalone")
    code: int = assembly.run(
        data=options.data,
        port=options.port,
        web_port=options.web_port,
        bind=_bind(options),
        config=options.config,
        overrides=overrides_of(options),
        standalone=standalone,
        log_format=options.log_format,
        log_level=options.log_level,
    )
    return code

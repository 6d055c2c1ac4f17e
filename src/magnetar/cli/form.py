"""How one policy is written on the command line: its flags, and the value built from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from magnetar.cli.command import Options, Part, Switch, UsageError


class Form(NamedTuple):
    """`key` names the policy in the admin client; `aliases` are other names of the same verbs."""

    key: str
    what: str
    parts: tuple[Part, ...]
    build: Callable[[Options], Any]
    aliases: tuple[str, ...] = ()


ENABLE: Final = Switch(("-e", "--enable"), "switch it on")
DISABLE: Final = Switch(("-d", "--disable"), "switch it off")


def choose_enabled(options: Options) -> bool:
    if options.enable == options.disable:
        raise UsageError("magnetar: give one of --enable and --disable")
    return bool(options.enable)

"""The `magnetar` command: find the row of the table, run it, turn refusals into one sentence."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Final

from magnetar import __version__
from magnetar.cli.command import Options, UsageError, build_parser, format_rows, unknown
from magnetar.cli.table import COMMANDS
from magnetar.errors import MagnetarError

EXIT_REFUSED: Final = 1
EXIT_USAGE: Final = 2
# What a shell reports for a process that SIGINT or SIGPIPE ended.
EXIT_INTERRUPTED: Final = 130
EXIT_PIPE_CLOSED: Final = 141


def main(words: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; never shows a stack trace for a refusal."""
    try:
        code = _dispatch(list(sys.argv[1:] if words is None else words))
        sys.stdout.flush()
        return code
    except UsageError as error:
        _complain(str(error), error.hint)
        return EXIT_USAGE
    except BrokenPipeError:
        # The reader has gone: what is still buffered goes nowhere, silently.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_PIPE_CLOSED
    except MagnetarError as error:
        _complain(error.sentence, "\n".join(getattr(error, "__notes__", ())))
        return EXIT_REFUSED
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print(_overview())
        return 0 if words else EXIT_USAGE
    if words[0] in ("-V", "--version"):
        print(f"magnetar {__version__}")
        return 0
    command = next((each for each in COMMANDS if each.name == words[0]), None)
    if command is None:
        raise unknown("magnetar", "command", words[0], [each.name for each in COMMANDS])
    module, _, name = command.place.partition(":")
    handler = getattr(importlib.import_module(f"magnetar.cli.{module}"), name)
    code: int
    try:
        if command.parts is None:
            code = handler(words[1:])
        else:
            parser = build_parser(f"magnetar {command.name}", command.help, command.parts)
            code = handler(parser.parse_args(words[1:]))
    except SystemExit as end:  # --help printed its text
        return int(end.code or 0)
    return code


def show_version(options: Options) -> int:
    print(f"magnetar {__version__} (Python {sys.version.split()[0]})")
    return 0


def _overview() -> str:
    return "\n\n".join(
        (
            "usage: magnetar COMMAND [ARGUMENTS]",
            "A Pulsar-protocol messaging system whose topics scale themselves.",
            format_rows((command.name, command.help) for command in COMMANDS),
            "Each command explains itself: magnetar COMMAND --help",
        )
    )


def _complain(sentence: str, hint: str = "") -> None:
    print(sentence if sentence.startswith("magnetar") else f"magnetar: {sentence}", file=sys.stderr)
    if hint:
        print(hint, file=sys.stderr)

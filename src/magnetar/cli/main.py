"""The `magnetar` command: find the row of the table, run it, turn refusals into one sentence."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Final

from magnetar import __version__
from magnetar.cli.command import UsageError, build_parser, format_rows, suggest
from magnetar.cli.table import COMMANDS, Command, find_command
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
    command = find_command(words[0])
    if command is None:
        names = [known.name for known in COMMANDS]
        raise UsageError(
            f"magnetar: no command is called {words[0]!r}.{suggest(words[0], names)}",
            hint="Try: magnetar --help",
        )
    return _run(command, words[1:])


def _run(command: Command, words: list[str]) -> int:
    handler = getattr(importlib.import_module(command.module), command.function)
    code: int
    if command.takes_words:
        code = handler(words)
        return code
    parser = build_parser(f"magnetar {command.name}", command.help, command.parts)
    try:
        code = handler(parser.parse_args(words))
    except SystemExit as end:  # --help printed its text
        return int(end.code or 0)
    return code


def _overview() -> str:
    rows = ((command.name, command.help) for command in COMMANDS)
    return "\n".join(
        (
            "usage: magnetar COMMAND [ARGUMENTS]",
            "",
            "A Pulsar-protocol messaging system whose topics scale themselves.",
            "",
            format_rows(rows),
            "",
            "Each command explains itself: magnetar COMMAND --help",
        )
    )


def _complain(sentence: str, hint: str = "") -> None:
    print(sentence if sentence.startswith("magnetar") else f"magnetar: {sentence}", file=sys.stderr)
    if hint:
        print(hint, file=sys.stderr)

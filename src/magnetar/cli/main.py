"""The `magnetar` command: find the row of the table, run it, turn refusals into one sentence."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Final

from magnetar import __version__
from magnetar.cli.command import Options, UsageError, call, choose
from magnetar.cli.screen import RED, paint
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
    if words and words[0] in ("-V", "--version"):
        print(f"magnetar {__version__}")
        return 0
    try:
        command = choose(
            "magnetar",
            "command",
            ["--help"] if words[:1] == ["help"] else words,
            COMMANDS,
            about="A Pulsar-protocol messaging system whose topics scale themselves.",
            more="Each command explains itself: magnetar COMMAND --help",
        )
        return call("magnetar", command, words[1:])
    except SystemExit as end:  # --help printed its text
        return int(end.code or 0)


def show_version(options: Options) -> int:
    print(f"magnetar {__version__} (Python {sys.version.split()[0]})")
    return 0


def _complain(sentence: str, hint: str = "") -> None:
    text = sentence if sentence.startswith("magnetar") else f"magnetar: {sentence}"
    print(paint(text, RED, sys.stderr), file=sys.stderr)
    if hint:
        print(hint, file=sys.stderr)

"""The declarative table of commands, and the argument parser built from one row of it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, NoReturn, TypeAlias

from magnetar.errors import nearest

Options: TypeAlias = argparse.Namespace


class UsageError(Exception):
    """The command line cannot be understood; the sentence says what to write instead."""

    def __init__(self, sentence: str, *, hint: str = "") -> None:
        super().__init__(sentence)
        self.hint = hint


def _target(names: tuple[str, ...]) -> str:
    """What the parsed value is called: the first long name, as Python spells it."""
    long = next((name for name in names if name.startswith("--")), names[0])
    return long.lstrip("-").replace("-", "_")


class Argument(NamedTuple):
    """A word that stands by its place."""

    name: str
    help: str
    parse: Callable[[str], Any] = str
    optional: bool = False
    default: Any = None


NAMESPACE = Argument("namespace", "tenant/namespace")
TOPIC = Argument("topic", "full name, tenant/namespace/topic, or a topic of public/default")


class Flag(NamedTuple):
    """An option with a value."""

    names: tuple[str, ...]
    help: str
    parse: Callable[[str], Any] = str
    required: bool = False
    default: Any = None
    choices: tuple[str, ...] = ()
    many: bool = False
    variable: str | None = None

    @property
    def target(self) -> str:
        return _target(self.names)


class Switch(NamedTuple):
    """An option without a value; `keyword` renames the result where the name is taken."""

    names: tuple[str, ...]
    help: str
    keyword: str = ""

    @property
    def target(self) -> str:
        return self.keyword or _target(self.names)


Part: TypeAlias = Argument | Flag | Switch


ENABLE = Switch(("-e", "--enable"), "switch it on")
DISABLE = Switch(("-d", "--disable"), "switch it off")


def choose_enabled(options: Options) -> bool:
    if options.enable == options.disable:
        raise UsageError("magnetar: give one of --enable and --disable")
    return bool(options.enable)


class Verb(NamedTuple):
    """One command of a group: `run` gets the admin client and the parsed options."""

    name: str
    help: str
    parts: tuple[Part, ...]
    run: Callable[[Any, Options], Any]
    aliases: tuple[str, ...] = ()
    shows: bool = True
    """Whether the result is printed; a verb that changes something prints nothing."""

    def is_called(self, word: str) -> bool:
        return word == self.name or word in self.aliases


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{self.prog}: {message}", hint=f"Try: {self.prog} --help")


def _add(parser: argparse._ActionsContainer, part: Part) -> None:
    match part:
        case Argument(name, help, parse, optional, default):
            extra: dict[str, Any] = {"nargs": "?", "default": default} if optional else {}
            metavar = name.upper().replace("_", "-")
            parser.add_argument(name, help=_escape(help), type=parse, metavar=metavar, **extra)
        case Switch(names, help, _):
            parser.add_argument(*names, help=_escape(help), action="store_true", dest=part.target)
        case Flag(names, help, parse, required, default, choices, many, variable):
            parser.add_argument(
                *names,
                help=_escape(help),
                dest=part.target,
                type=parse,
                required=required,
                default=default,
                choices=choices or None,
                action="append" if many else "store",
                metavar=variable or (None if choices else part.target.upper().replace("_", "-")),
            )


def _escape(help: str) -> str:
    return help.replace("%", "%%")


def build_parser(
    program: str, help: str, parts: Iterable[Part], shared: Iterable[Part] = ()
) -> argparse.ArgumentParser:
    """Parser of one command alone: the table is large and start-up must stay short."""
    parser = _Parser(prog=program, description=help, allow_abbrev=False)
    for part in parts:
        _add(parser, part)
    group = parser.add_argument_group("common options")
    for part in shared:
        _add(group, part)
    return parser


def suggest(word: str, known: Iterable[str]) -> str:
    """Name the nearest known word, as a sentence to append, or nothing."""
    meant = nearest(word, known)
    return f" Did you mean {meant}?" if meant else ""


def format_rows(rows: Iterable[tuple[str, str]]) -> str:
    """Names on the left, their meaning on the right."""
    listed = list(rows)
    width = max((len(name) for name, _ in listed), default=0)
    return "\n".join(f"  {name.ljust(width)}  {help}" for name, help in listed)

"""The declarative table of commands, and the argument parser built from one row of it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, NoReturn, Protocol, TypeAlias, TypeVar

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


def flag(
    names: str,
    help: str,
    parse: Callable[[str], Any] = str,
    default: Any = None,
    *,
    required: bool = False,
    choices: tuple[str, ...] = (),
    many: bool = False,
    variable: str | None = None,
) -> Flag:
    """Its names are one text, with spaces between them."""
    return Flag(tuple(names.split()), help, parse, required, default, choices, many, variable)


def switch(names: str, help: str) -> Switch:
    return Switch(tuple(names.split()), help)


def choose_enabled(options: Options) -> bool:
    if options.enable == options.disable:
        raise UsageError("magnetar: give one of --enable and --disable")
    return bool(options.enable)


class Verb(NamedTuple):
    """One command of a group: `run` gets the parsed options, in `admin` after the client."""

    name: str
    help: str
    parts: tuple[Part, ...]
    run: Callable[..., Any]
    aliases: tuple[str, ...] = ()
    shows: bool = True
    """Whether the result is printed; a verb that changes something prints nothing."""


class _Row(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def aliases(self) -> tuple[str, ...]: ...


R = TypeVar("R", bound=_Row)


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


def choose(
    program: str, kind: str, words: list[str], rows: Iterable[R], overview: Callable[[], str]
) -> R:
    """The row that the first word names.

    Without a word, or with --help, the overview is printed, and the program ends as it does after
    the help of a parser.
    """
    if not words or words[0] in ("-h", "--help"):
        print(overview())
        raise SystemExit(0 if words else 2)
    known = []
    for row in rows:
        if words[0] == row.name or words[0] in row.aliases:
            return row
        known.append(row.name)
    raise unknown(program, kind, words[0], known)


def unknown(
    program: str, kind: str, word: str, known: Iterable[str], hint: str = "--help"
) -> UsageError:
    """The refusal of a word; it names the nearest that is known."""
    meant = nearest(word, known)
    suggestion = f" Did you mean {meant}?" if meant else ""
    return UsageError(
        f"{program}: no {kind} is called {word!r}.{suggestion}", hint=f"Try: {program} {hint}"
    )


def format_rows(rows: Iterable[tuple[str, str]]) -> str:
    """Names on the left, their meaning on the right."""
    listed = list(rows)
    width = max((len(name) for name, _ in listed), default=0)
    return "\n".join(f"  {name.ljust(width)}  {help}" for name, help in listed)

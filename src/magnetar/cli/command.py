"""The declarative table of commands, and the argument parser built from one row of it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias

from magnetar.errors import nearest

Options: TypeAlias = argparse.Namespace
_HELP: Final = ("-h", "--help")


class UsageError(Exception):
    """The command line cannot be understood; the sentence says what to write instead."""

    def __init__(self, sentence: str, *, hint: str = "") -> None:
        super().__init__(sentence)
        self.hint = hint


class Argument(NamedTuple):
    """An option, or a word that stands by its place if its name has no dash."""

    spelling: str
    """Its names, with spaces between them."""
    help: str
    parse: Callable[[str], Any] | None = str
    """None for an option without a value."""
    default: Any = None
    """A text is parsed like one that was given."""
    required: bool = False
    choices: tuple[str, ...] = ()
    many: bool = False
    variable: str = ""
    example: str = ""
    """What stands for the value in the example of the command."""
    in_example: bool = False
    """Whether the example has it although it may be left out."""
    alone: Any = None
    """What an option is worth that is given without its value, if it may be."""
    stores: tuple[str, str] | None = None
    """The value that it gives to another option, if it is short for that one."""

    @property
    def names(self) -> list[str]:
        return self.spelling.split()

    @property
    def is_option(self) -> bool:
        return self.spelling.startswith("-")

    @property
    def target(self) -> str:
        """What the parsed value is called: the first long name, as Python spells it."""
        names = self.names
        long = next((name for name in names if name.startswith("--")), names[0])
        return long.lstrip("-").replace("-", "_")


def word(name: str, help: str, example: str) -> Argument:
    return Argument(name, help, required=True, example=example)


def switch(names: str, help: str) -> Argument:
    return Argument(names, help, None)


def choice(names: str, help: str, *choices: str, default: str = "") -> Argument:
    """The first unless another is the default or given."""
    return Argument(names, help, default=default or choices[0], choices=choices)


def pairs(
    names: str, help: str, parse: Callable[[str], Any] = str, of: str = "KEY=VALUE"
) -> Argument:
    """May be given again."""
    return Argument(names, help, parse, many=True, variable=of)


NAMESPACE: Final = word("namespace", "tenant/namespace", "acme/shop")
TOPIC: Final = word(
    "topic", "full name, tenant/namespace/topic, or a topic of public/default", "acme/shop/orders"
)


class Verb(NamedTuple):
    """One command: `run` gets the parsed options, in `admin` after the client."""

    name: str
    help: str
    arguments: tuple[Argument, ...]
    run: Callable[..., Any]
    aliases: tuple[str, ...] = ()
    shows: bool = True
    """Whether the result is printed; a verb that changes something prints nothing."""
    is_group: bool = False
    """Whether it has commands of its own, and the rest of the line names one of them."""
    only_looks: bool = False
    """Whether it changes nothing, and may be repeated to follow what it shows."""
    examples: tuple[str, ...] = ()
    """What may follow its name, if that is more than what it cannot be called without."""


class _Formatter(argparse.HelpFormatter):
    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """Examples stand on lines of their own, as they are typed."""
        sentence, *examples = text.split("\n")
        return "\n".join((super()._fill_text(sentence, width, indent), *examples))


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{self.prog}: {message}", hint=f"Try: {self.prog} --help")


def build_parser(
    program: str, verb: Verb, shared: Iterable[Argument] = ()
) -> argparse.ArgumentParser:
    """Parser of one command alone: the table is large and start-up must stay short.

    All stand in groups, to which argparse adds without measuring the terminal each time.
    """
    arguments = verb.arguments
    examples = [
        f"  {program} {words}".rstrip() for words in verb.examples or (_example(arguments),)
    ]
    about = "\n".join((verb.help, "", f"example{'s' * (len(examples) > 1)}:", *examples))
    parser = _Parser(
        prog=program,
        description=about,
        formatter_class=_Formatter,
        allow_abbrev=False,
        add_help=False,
    )
    words = parser.add_argument_group("positional arguments")
    options = parser.add_argument_group("options")
    options.add_argument(*_HELP, action="help", help="show this help message and exit")
    for argument in arguments:
        _add(options if argument.is_option else words, argument)
    common = parser.add_argument_group("common options")
    for argument in shared:
        _add(common, argument)
    return parser


def _example(arguments: Iterable[Argument]) -> str:
    """A command with everything that it needs."""
    words = [
        " ".join(filter(None, (argument.names[-1] if argument.is_option else "", argument.example)))
        for argument in arguments
        if argument.required or argument.in_example
    ]
    return " ".join(words)


def _add(parser: argparse._ArgumentGroup, argument: Argument) -> None:
    named: dict[str, Any] = {"dest": argument.target} if argument.is_option else {}
    if argument.stores is not None:
        named |= {"dest": argument.stores[0], "action": "store_const", "const": argument.stores[1]}
    elif argument.parse is None:
        named["action"] = "store_true"
    else:
        shown = None if argument.choices else argument.target.upper().replace("_", "-")
        named |= {
            "type": argument.parse,
            "default": argument.default,
            "choices": argument.choices or None,
            "metavar": argument.variable or shown,
        }
        if argument.is_option:
            named |= {
                "action": "append" if argument.many else "store",
                "required": argument.required,
            }
            if argument.alone is not None:
                named |= {"nargs": "?", "const": argument.alone}
        else:
            named["nargs"] = None if argument.required else "?"
    parser.add_argument(*argument.names, help=argument.help.replace("%", "%%"), **named)


def choose(
    program: str,
    kind: str,
    words: list[str],
    verbs: Iterable[Verb],
    *,
    usage: str = "",
    about: str = "",
    more: str = "",
) -> Verb:
    """The verb that the first word names.

    Without a word, or with --help, all verbs are printed, with what is said before and after them,
    and the program ends as it does after the help of a parser.
    """
    if not words or words[0] in _HELP:
        usage = usage or f"usage: {program} {kind.upper()} [ARGUMENTS]"
        listed = format_rows((verb.name, verb.help) for verb in verbs)
        print("\n\n".join(filter(None, (usage, about, listed, more))))
        raise SystemExit(0 if words else 2)
    known = []
    for verb in verbs:
        if words[0] == verb.name or words[0] in verb.aliases:
            return verb
        known.append(verb.name)
    raise unknown(program, kind, words[0], known)


def call(program: str, verb: Verb, words: list[str], shared: Iterable[Argument] = ()) -> int:
    """Run a verb with the words that follow it; what it returns is the exit code."""
    if verb.is_group:
        return verb.run(words) or 0
    parser = build_parser(f"{program} {verb.name}", verb, shared)
    return verb.run(parser.parse_args(words)) or 0


def unknown(
    program: str, kind: str, word: str, known: Iterable[str], hint: str = "--help"
) -> UsageError:
    """The refusal of a word; it names the nearest that is known."""
    meant = nearest(word, known)
    suggestion = f" Did you mean {meant}?" if meant else ""
    return UsageError(
        f"{program}: no {kind} is called {word!r}.{suggestion}", hint=f"Try: {program} {hint}"
    )


def read_file(path: Path, program: str = "magnetar") -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{program}: cannot read {path}: {error.strerror}") from None


def format_rows(rows: Iterable[tuple[str, str]]) -> str:
    """Names on the left, their meaning on the right."""
    listed = list(rows)
    width = max((len(name) for name, _ in listed), default=0)
    return "\n".join(f"  {name.ljust(width)}  {help}" for name, help in listed)

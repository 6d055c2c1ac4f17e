"""Commands made from rows of the table of operations."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from magnetar.cli.command import Argument, Flag, Options, Part, Switch, Verb
from magnetar.cli.value import (
    join,
    parse_datetime_ms,
    parse_duration_ms,
    parse_duration_s,
    parse_hash,
    parse_list,
    parse_pair,
    parse_pairs,
    parse_size,
)
from magnetar.client.admin.value import StoredEntry
from magnetar.client.error import AdminNotFound, ConfigurationError
from magnetar.client.message_id import MessageId, parse_message_id
from magnetar.operation.row import Kind, Operation, Parameter, Place, Reader, Result


def _parse_id(text: str) -> MessageId:
    try:
        return parse_message_id(text)
    except ConfigurationError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not earliest, latest or a message id such as 12:3"
        ) from None


def _whole(value: int, unit: int) -> int:
    return value if value < 0 else value // unit


_READERS: Final[Mapping[Reader, Callable[[str], Any]]] = {
    Reader.SIZE: parse_size,
    Reader.DURATION_S: parse_duration_s,
    Reader.DURATION_MS: parse_duration_ms,
    Reader.HASH: parse_hash,
    Reader.PAIRS: parse_pairs,
    Reader.DATETIME_MS: parse_datetime_ms,
    Reader.DURATION_MIN: lambda text: _whole(parse_duration_s(text), 60),
    Reader.SIZE_MB: lambda text: _whole(parse_size(text), 2**20),
    Reader.FRACTION: float,
    Reader.CONSTANT: str,
    Reader.FILE: Path,
}
_KINDS: Final[Mapping[Kind, Callable[[str], Any]]] = {
    Kind.NUMBER: int,
    Kind.NAMES: parse_list,
    Kind.PROPERTIES: parse_pair,
    Kind.MESSAGE_ID: _parse_id,
}


class Form(NamedTuple):
    """The flags of a command from which the body of its call is built."""

    parts: tuple[Part, ...]
    build: Callable[[Options], Any]


Own: TypeAlias = Mapping[str, Callable[[Any, Options], Any] | Form]
"""By the name of an operation, what its command does if that is more than to call the client's
method, or prints what it gets in another form.
"""


def derive_verbs(operations: Iterable[Operation], group: str, own: Own) -> Iterator[Verb]:
    """The commands of a group, in the order of the rows."""
    for operation in operations:
        for verb in operation.verbs:
            if (verb.group or operation.noun.replace("_", "-")) == group:
                parts = tuple(derive_part(each) for each in operation.parameters if each.help)
                run = own.get(operation.name) or _caller(operation)
                if isinstance(run, Form):
                    parts, run = (*parts, *run.parts), _caller(operation, run)
                yield Verb(
                    verb.name,
                    verb.help,
                    parts,
                    run,
                    verb.aliases,
                    shows=operation.result is not Result.NOTHING and not verb.is_silent,
                )


def derive_part(parameter: Parameter) -> Part:
    if parameter.kind is Kind.FLAG:
        return Switch(parameter.flags, parameter.help)
    parse = _READERS[parameter.reader] if parameter.reader else _KINDS.get(parameter.kind, str)
    if not parameter.flags:
        optional = not parameter.is_required
        return Argument(parameter.name, parameter.help, parse, optional)
    return Flag(
        parameter.flags,
        parameter.help,
        parse,
        required=parameter.is_required and not parameter.preset,
        default=parameter.preset or None,
        choices=parameter.choices,
        many=parameter.many,
        variable=parameter.variable or None,
    )


def _caller(operation: Operation, form: Form | None = None) -> Callable[[Any, Options], Any]:
    """Calls the client's method of the same name; what is not given is left to its defaults."""

    def run(admin: Any, options: Options) -> Any:
        given = {
            each.name: _value(each, getattr(options, each.option))
            for each in operation.parameters
            if each.help and not (each.is_ignored and each.place is Place.LOCAL)
        }
        if form is not None:
            (body,) = (each for each in operation.parameters if each.place is Place.BODY)
            given[body.name] = form.build(options)
        method = getattr(getattr(admin, operation.noun), operation.verb)
        found = method(**{name: value for name, value in given.items() if value is not None})
        return show_entry(found) if operation.result is Result.ENTRY else found

    return run


def show_entry(entry: StoredEntry) -> dict[str, Any]:
    return {"id": entry.id, **entry.headers, "data": entry.data}


def peek(fetch: Callable[[int], StoredEntry], count: int) -> list[dict[str, Any]]:
    """So many entries of a backlog, or as many as it has."""
    found: list[dict[str, Any]] = []
    for place in range(1, count + 1):
        try:
            found.append(show_entry(fetch(place)))
        except AdminNotFound as error:
            if not error.reason.startswith("Message not found"):
                raise
            break
    return found


def _value(parameter: Parameter, given: Any) -> Any:
    if parameter.kind is Kind.FLAG:
        return given or None
    if given is None or not parameter.many:
        return given
    joined = (
        given if parameter.reader is None and parameter.kind is Kind.PROPERTIES else join(given)
    )
    return dict(joined) if parameter.kind is Kind.PROPERTIES else joined

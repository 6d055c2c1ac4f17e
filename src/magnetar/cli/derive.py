"""Commands made from rows of the table of operations."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from magnetar import AdminNotFound, ConfigurationError, MessageId
from magnetar.cli import moment, value
from magnetar.cli.command import Argument, Options, Verb
from magnetar.cli.example import example_of
from magnetar.cli.value import join, parse_list, parse_pair
from magnetar.operation.row import (
    COUNT,
    READ_COMMITTED,
    Kind,
    Operation,
    Parameter,
    Place,
    Reader,
    Result,
)

if TYPE_CHECKING:
    from magnetar.client.admin.value import StoredEntry


def _parse_id(text: str) -> MessageId:
    try:
        return MessageId.parse(text)
    except ConfigurationError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not earliest, latest or a message id such as 12:3"
        ) from None


_PARSERS: Final = vars(value) | vars(moment)
_READERS: Final[Mapping[Reader, Callable[[str], Any]]] = {
    each: _PARSERS[f"parse_{each.value}"] for each in Reader
}
_KINDS: Final[Mapping[Kind, Callable[[str], Any] | None]] = {
    Kind.NUMBER: int,
    Kind.FLAG: None,
    Kind.NAMES: parse_list,
    Kind.PROPERTIES: parse_pair,
    Kind.MESSAGE_ID: _parse_id,
}


Run: TypeAlias = Callable[[Any, Options], Any]


class Own(NamedTuple):
    """What a command does that is not derived from its row."""

    run: Run | None = None
    """All of it, where that is more than one call of the client."""
    build: Run | None = None
    """The body of the call, from options that are not arguments of the client's method."""
    arguments: tuple[Argument, ...] = ()
    """Options beside those of the row."""
    show: Callable[[Any], Any] | None = None
    """The result as a table shows it; JSON shows it as it is."""


_NOTHING: Final = Own()


def derive_verbs(
    operations: Iterable[Operation], group: str, written: Mapping[str, Own]
) -> Iterator[Verb]:
    """The commands of a group, in the order of the rows; `written` are named like operations."""
    for operation in operations:
        for verb in operation.verbs:
            if (verb.group or operation.noun.replace("_", "-")) == group:
                own = written.get(operation.name, _NOTHING)
                arguments = (derive_argument(each) for each in operation.parameters if each.help)
                yield Verb(
                    verb.name,
                    verb.help,
                    (*arguments, *own.arguments),
                    own.run or _caller(operation, own),
                    verb.aliases,
                    shows=operation.result is not Result.NOTHING and not verb.is_silent,
                    only_looks=operation.only_looks,
                )


def derive_argument(parameter: Parameter) -> Argument:
    reader = parameter.reader
    return Argument(
        " ".join(parameter.flags) or parameter.name,
        parameter.help,
        _READERS[reader] if reader else _KINDS.get(parameter.kind, str),
        parameter.preset or None,
        parameter.is_required and not parameter.preset,
        parameter.choices,
        parameter.many,
        parameter.variable,
        example_of(parameter) if parameter.is_required and not parameter.preset else "",
    )


def _caller(operation: Operation, own: Own) -> Run:
    """Calls the client's method of the same name; what is not given is left to its defaults."""
    is_peek = COUNT in operation.parameters
    asked = [
        each
        for each in operation.parameters
        if each.help
        and not (each.place is Place.LOCAL and (own.build or is_peek or each.is_ignored))
    ]

    def run(admin: Any, options: Options) -> Any:
        found = {each.name: _value(each, getattr(options, each.option)) for each in asked}
        given = {name: each for name, each in found.items() if each is not None}
        if own.build is not None:
            (body,) = (each for each in operation.parameters if each.place is Place.BODY)
            given[body.name] = own.build(admin, options)
        method = partial(getattr(getattr(admin, operation.noun), operation.verb), **given)
        if is_peek:
            is_committed = options.transaction_isolation_level == READ_COMMITTED
            return _peek(method, options.count, is_committed=is_committed)
        result = method()
        if operation.result is Result.ENTRY:
            return _show_entry(result)
        return result if own.show is None or options.output == "json" else own.show(result)

    return run


def _show_entry(entry: StoredEntry) -> dict[str, Any]:
    return {"id": entry.id, **entry.headers, "data": entry.data}


def _peek(
    fetch: Callable[..., StoredEntry], count: int, *, is_committed: bool
) -> list[dict[str, Any]]:
    """So many entries of a backlog, or as many as it has; those that readers do not get are left
    out if `is_committed`.
    """
    found: list[dict[str, Any]] = []
    for place in itertools.count(1):
        if len(found) == count:
            break
        try:
            entry = fetch(place=place)
            if is_committed and entry.headers.get("txn-uncommitted") == "true":
                break  # and so is all that follows
            if not (is_committed and entry.headers.get("txn-aborted") == "true"):
                found.append(_show_entry(entry))
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
    is_pair = parameter.kind is Kind.PROPERTIES
    joined = given if is_pair and parameter.reader is None else join(given)
    return dict(joined) if is_pair else joined

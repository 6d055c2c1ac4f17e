"""From rows of the table of operations to routes: what is read of a request, and what is answered.

The row says where a parameter stands; its type is that of the function which carries the operation
out.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import reduce
from operator import or_
from types import NoneType
from typing import Final, TypeAlias

from magnetar.admin.entry import entry_response
from magnetar.admin.live import LiveStreams
from magnetar.admin.request import Call
from magnetar.admin.response import NOTE, Response, list_response, text_response
from magnetar.admin.route import Body, Handler, Route, spread
from magnetar.broker.administration.registry import (
    FUNCTIONS,
    Function,
    Listing,
    Live,
    Note,
    Transport,
)
from magnetar.broker.administration.topic import SeenEntry
from magnetar.broker.administration.topic_part import PER_PARTITION, on_each_partition
from magnetar.broker.administration.web import Administration
from magnetar.errors import BadRequest
from magnetar.model.caller import Caller
from magnetar.model.name import NamespaceName, TopicDomain, TopicName
from magnetar.model.segment import SegmentName, parse_descriptor
from magnetar.operation.row import (
    JSON,
    REQUIRED,
    TEXT_PLAIN,
    Default,
    Kind,
    Operation,
    Parameter,
    Place,
    Result,
)

Read: TypeAlias = Callable[[Call], object]

_SENT: Final = (Place.PATH, Place.QUERY, Place.BODY)
_QUERY_KINDS: Final[Mapping[Kind, type[bool] | type[int] | type[str]]] = {
    Kind.FLAG: bool,
    Kind.NUMBER: int,
}
_OF_CALLER: Final[Mapping[object, Read]] = {
    Caller: lambda call: call.caller,
    Transport: lambda call: Transport(call.is_tls, call.has_relay),
}
"""What needs no parameter in the row."""
_BY_TYPE: Final[Mapping[object, Read]] = {
    TopicName: lambda call: call.topic,
    TopicDomain: lambda call: call.domain,
    NamespaceName: lambda call: call.namespace,
    SegmentName: lambda call: SegmentName(call.topic, *parse_descriptor(call.text("descriptor"))),
}
"""What several components of a path say together."""


def make_routes(
    operations: Iterable[Operation], functions: Mapping[str, Function] = FUNCTIONS
) -> Iterator[Route]:
    streams = LiveStreams()
    for operation in operations:
        if operation.need is not None:
            yield from _routes_of(operation, functions[operation.name], streams)


def _routes_of(operation: Operation, function: Function, streams: LiveStreams) -> Iterator[Route]:
    types = dict(function.__annotations__)
    result = types.pop("return")
    sent = [each for each in operation.parameters if each.place in _SENT]
    reads = {each.name: _reader(each, types[each.name]) for each in sent if not each.is_ignored}
    reads |= {name: _OF_CALLER[kind] for name, kind in types.items() if kind in _OF_CALLER}
    lacking = types.keys() - reads.keys() - _optional(function)
    assert not lacking, f"{operation.name}: {sorted(lacking)}"
    if operation.produces[0] != JSON or operation.result is Result.NOTHING or result is Live:
        result = None
    if operation.name in PER_PARTITION:
        function = on_each_partition(operation.name, function)
    handler = _handler(operation, function, reads, streams)
    body = next((_body(p, types[p.name]) for p in sent if p.place is Place.BODY), None)
    for row in spread(operation):
        yield Route(row, handler, types, body, list[str] if result is Listing else result)


def _optional(function: Function) -> frozenset[str]:
    """Parameters that not every operation of the function has."""
    parameters = inspect.signature(function).parameters.values()
    return frozenset(each.name for each in parameters if each.default is not each.empty)


def _handler(
    operation: Operation, function: Function, reads: Mapping[str, Read], streams: LiveStreams
) -> Handler:
    async def handle(api: Administration, call: Call) -> object:
        answer = await function(api.owners, **{name: read(call) for name, read in reads.items()})
        if isinstance(answer, Listing):
            return await list_response(answer, call)
        if isinstance(answer, Live):
            return await streams.answer(answer, call, lambda: api.owners.closing)
        if isinstance(answer, Note):
            return Response(operation.answer_status, headers=((NOTE, answer.text),))
        if operation.result is Result.ENTRY:
            return entry_response(typing.cast(SeenEntry, answer))
        if operation.produces[0] == TEXT_PLAIN and answer is not None:
            return text_response(str(answer))
        return answer

    return handle


def _body(parameter: Parameter, kind: object) -> Body:
    parts = typing.get_args(kind)
    if NoneType not in parts:
        return Body(parameter, kind, is_required=True)
    schema = reduce(or_, (part for part in parts if part is not NoneType))
    return Body(parameter, schema, is_required=False)


# Parameters
def _reader(parameter: Parameter, kind: object) -> Read:
    match parameter.place:
        case Place.PATH:
            return _path_reader(parameter, kind)
        case Place.QUERY:
            return _query_reader(parameter, kind)
        case _:
            return lambda call: call.payload


def _path_reader(parameter: Parameter, kind: object) -> Read:
    name = parameter.wire_name
    if parameter.default is None:
        read = _path_reader(parameter._replace(default=REQUIRED), kind)
        return lambda call: read(call) if name in call.parts else None
    if kind in _BY_TYPE:
        return _BY_TYPE[kind]
    if name == "subscription":
        return lambda call: call.subscription
    if parameter.kind is Kind.NUMBER:
        return lambda call: call.integer(name)
    return lambda call: call.text(name)


def _query_reader(parameter: Parameter, kind: object) -> Read:
    name, default, missing = parameter.wire_name, default_of(parameter), parameter.missing
    if parameter.policy:
        return lambda call: call.policy_value(name, kind)
    if kind is bool:
        return lambda call: call.flag(name, bool(default))
    if kind == tuple[str, ...]:
        return lambda call: call.values(name)
    is_number, header = query_kind(parameter, kind) is int, parameter.header

    def read(call: Call) -> object:
        found = call.number(name) if is_number else call.query(name)
        if found == "" and not parameter.is_required:
            found = None
        if found is None and header:
            found = call.headers.get(header)
        if missing and found in (None, ""):
            raise BadRequest(missing)
        return default if found is None else found

    return read


def query_kind(parameter: Parameter, kind: object) -> type[bool] | type[int] | type[str]:
    """A function may read a number from its text itself."""
    is_text = str in (kind, *typing.get_args(kind))
    return str if is_text else _QUERY_KINDS.get(parameter.kind, str)


def default_of(parameter: Parameter) -> Default:
    """What stands for a parameter of the query that is not sent."""
    if parameter.absent is not None:
        return parameter.absent
    return None if parameter.default is REQUIRED else parameter.default

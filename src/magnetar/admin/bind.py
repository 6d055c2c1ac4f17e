"""From rows of the table of operations to routes: what is read of a request, and what is answered.

The row says where a parameter stands; its type is that of the function which carries the operation
out.
"""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import reduce
from operator import or_
from types import MappingProxyType, NoneType, SimpleNamespace
from typing import Final, TypeAlias

from magnetar.admin.entry import entry_response
from magnetar.admin.listing import FORMAT, list_response
from magnetar.admin.request import Call
from magnetar.admin.response import NOTE, Response, text_response
from magnetar.admin.route import Body, Handler, Query, Route, expand
from magnetar.broker.administration.registry import FUNCTIONS, Function, Listing, Note
from magnetar.broker.administration.web import Administration
from magnetar.errors import BadRequest
from magnetar.model.caller import Caller
from magnetar.model.name import NamespaceName, TopicDomain, TopicName
from magnetar.model.position import Position
from magnetar.model.segment import SegmentName, parse_descriptor
from magnetar.operation.row import (
    JSON,
    NDJSON,
    REQUIRED,
    TEXT_PLAIN,
    Kind,
    Operation,
    Parameter,
    Place,
    Result,
)

_SENT: Final = (Place.PATH, Place.QUERY, Place.BODY)
Read: TypeAlias = Callable[[Call], object]

_QUERY_KINDS: Final[Mapping[Kind, type[bool] | type[int] | type[str]]] = {
    Kind.FLAG: bool,
    Kind.NUMBER: int,
}


def make_routes(
    operations: Iterable[Operation], functions: Mapping[str, Function] = FUNCTIONS
) -> Iterator[Route]:
    for operation in operations:
        if operation.need is not None:
            yield from _routes_of(operation, functions[operation.name])


def _routes_of(operation: Operation, function: Function) -> Iterator[Route]:
    types = _types_of(function)
    sent = [each for each in operation.parameters if each.place in _SENT]
    reads = {each.name: _reader(each, types[each.name]) for each in sent if not each.is_ignored}
    reads |= {name: _CONTEXT[kind] for name, kind in types.items() if kind in _CONTEXT}
    lacking = types.keys() - reads.keys() - _optional(function)
    assert not lacking, f"{operation.name}: {sorted(lacking)}"
    assert operation.need is not None, f"{operation.name} is for nobody"
    domain = operation.domain
    for index, path in enumerate((operation.path, *operation.also)):
        route = Route(
            method=operation.method,
            path=path,
            operation=operation.name + (f".{index + 1}" if index else ""),
            handler=_handler(operation, function, reads),
            need=operation.need,
            status=operation.answer_status,
            body=next((_body(p, types[p.name]) for p in sent if p.place is Place.BODY), None),
            query=tuple(_queries(operation, sent, types)),
            produces=operation.produces[0],
            or_produces=operation.produces[1:],
            fixed=MappingProxyType({} if domain is None else {"domain": domain.value}),
            result=_result_of(operation, function),
            for_owner=operation.for_owner,
            summary=operation.doc.partition("\n")[0],
        )
        yield from expand(route, operation.domains)


def _queries(
    operation: Operation, sent: Iterable[Parameter], types: Mapping[str, object]
) -> Iterator[Query]:
    for each in sent:
        if each.place is Place.QUERY:
            kind = _query_kind(each, types.get(each.name))
            yield Query(each.wire_name, kind, _default(each))
    if NDJSON in operation.produces:
        yield FORMAT


def _optional(function: Function) -> frozenset[str]:
    """Parameters that not every operation of the function has."""
    parameters = inspect.signature(function).parameters.values()
    return frozenset(each.name for each in parameters if each.default is not each.empty)


def _types_of(function: Function) -> dict[str, object]:
    """Of all parameters but the first, which is the broker."""
    annotations = dict(function.__annotations__)
    annotations.pop("return")
    annotations.pop("service")
    return _evaluate(function, annotations)


def _result_of(operation: Operation, function: Function) -> object:
    if operation.produces[0] != JSON or operation.result is Result.NOTHING:
        return None
    found = _evaluate(function, {"return": function.__annotations__["return"]})["return"]
    return list[str] if found is Listing else found


def _evaluate(function: Function, annotations: dict[str, str]) -> dict[str, object]:
    holder = SimpleNamespace(__annotations__=annotations)
    names = vars(sys.modules[function.__module__])
    return typing.get_type_hints(holder, names, include_extras=True)


def _handler(operation: Operation, function: Function, reads: Mapping[str, Read]) -> Handler:
    async def handle(api: Administration, call: Call) -> object:
        answer = await function(api.service, **{name: read(call) for name, read in reads.items()})
        if isinstance(answer, Listing):
            return await list_response(answer, call)
        if isinstance(answer, Note):
            return Response(operation.answer_status, headers=((NOTE, answer.text),))
        if operation.result is Result.ENTRY:
            return entry_response(*typing.cast(tuple[Position, bytes], answer))
        if operation.produces[0] == TEXT_PLAIN and answer is not None:
            return text_response(str(answer))
        return answer

    return handle


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
    if kind is TopicName:
        return lambda call: call.topic
    if kind is TopicDomain:
        return lambda call: call.domain
    if kind is NamespaceName:
        return lambda call: call.namespace
    if kind is SegmentName:
        return lambda call: SegmentName(call.topic, *parse_descriptor(call.text("descriptor")))
    if name == "subscription":
        return lambda call: call.subscription
    if parameter.kind is Kind.NUMBER:
        return lambda call: call.integer(name)
    return lambda call: call.text(name)


def _query_reader(parameter: Parameter, kind: object) -> Read:
    name, default, missing = parameter.wire_name, _default(parameter), parameter.missing
    if parameter.policy:
        return lambda call: call.policy_value(name, kind)
    if kind is bool:
        return lambda call: call.flag(name, bool(default))
    if kind == tuple[str, ...]:
        return lambda call: call.values(name)
    is_number, header = _query_kind(parameter, kind) is int, parameter.header

    def read(call: Call) -> object:
        found = call.number(name) if is_number else call.query(name)
        if found == "" and not parameter.is_required:
            found = None
        if found is None and header:
            found = call.request.headers.get(header)
        if missing and found in (None, ""):
            raise BadRequest(missing)
        return default if found is None else found

    return read


def _query_kind(parameter: Parameter, kind: object) -> type[bool] | type[int] | type[str]:
    """A function may read a number from its text itself."""
    is_text = str in (kind, *typing.get_args(kind))
    return str if is_text else _QUERY_KINDS.get(parameter.kind, str)


def _default(parameter: Parameter) -> str | int | bool | None:
    if parameter.absent is not None:
        return parameter.absent
    return None if parameter.default is REQUIRED else parameter.default


def _body(parameter: Parameter, kind: object) -> Body:
    parts = typing.get_args(kind)
    is_required = NoneType not in parts
    schema = kind if is_required else reduce(or_, (p for p in parts if p is not NoneType))
    body = Body(
        schema,
        is_required,
        media_types=parameter.media_types,
        policy=parameter.policy,
        text_limit=parameter.text_limit,
    )
    return replace(body, missing=parameter.missing) if parameter.missing else body


_CONTEXT: Final[Mapping[object, Read]] = {Caller: lambda call: call.request.caller}
"""What a function may ask for beside the parameters of its row."""

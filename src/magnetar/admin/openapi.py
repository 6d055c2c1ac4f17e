"""The OpenAPI description, made from the table of routes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Final, get_origin

import msgspec

from magnetar.admin.bind import default_of, query_kind
from magnetar.admin.response import FORMAT
from magnetar.admin.route import Route
from magnetar.model.document import decode_json
from magnetar.operation.row import JSON, NDJSON, Default, Kind, Operation, Place, Result

_EXAMPLES: Final[Mapping[str, str | int]] = {
    "tenant": "public",
    "namespace": "default",
    "topic": "orders",
    "subscription": "billing",
    "role": "analyst",
    "cluster": "standalone",
    "bundle": "0x00000000_0x40000000",
    "segment": 0,
    "key": "maxConnections",
}
_KINDS: Final = {bool: "boolean", int: "integer", str: "string"}
_PLAIN: Final[Mapping[str, object]] = {"boolean": True, "number": 1.5}
_NUMBER: Final = 10
_REF: Final = "#/components/schemas/{name}"


class Refusal(msgspec.Struct):
    """Why a request was not carried out."""

    reason: str


def describe(routes: Iterable[Route], *, version: str) -> dict[str, Any]:
    """The whole document, OpenAPI 3.1."""
    routes = list(routes)
    bodies = [route.body.schema for route in routes if route.body is not None]
    results = [route.result for route in routes if route.result is not None]
    types = {str(each): _described(each) for each in (Refusal, *bodies, *results)}
    schemas, components = msgspec.json.schema_components(types.values(), ref_template=_REF)
    by_type = dict(zip(types, schemas, strict=True))
    media = {name: _media(schema, components) for name, schema in by_type.items()}
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.row.path, {})[route.row.method.lower()] = _operation(route, media)
    document = {
        "openapi": "3.1.0",
        "info": {"title": "Magnetar admin", "version": version, "license": {"name": "Apache-2.0"}},
        "paths": paths,
        "components": {"schemas": components},
    }
    # Only what JSON knows: schemas hold defaults that are tuples.
    described: dict[str, Any] = decode_json(msgspec.json.encode(document))
    return described


def _described(kind: Any) -> Any:
    """What is kept as it was sent may be annotated with the record that it fits."""
    annotation = kind.__metadata__[0] if get_origin(kind) is Annotated else None
    return annotation if isinstance(annotation, type(msgspec.Struct)) else kind


def _media(schema: Mapping[str, Any], components: Mapping[str, Any]) -> dict[str, Any]:
    """A schema with an example, but for an object of which nothing is known."""
    example = example_of(schema, components)
    return {"schema": schema} | ({} if example == {} else {"example": example})


def example_of(schema: Mapping[str, Any], components: Mapping[str, Any], name: str = "text") -> Any:
    """A value that fits: a default where there is one; a text is its name."""
    if "$ref" in schema:
        return example_of(components[schema["$ref"].rpartition("/")[2]], components, name)
    if schema.get("default") is not None:
        return schema["default"]
    if "enum" in schema:
        return schema["enum"][0]
    if "anyOf" in schema:
        return example_of(schema["anyOf"][0], components, name)
    match schema.get("type"):
        case "object":
            return _example_object(schema, components)
        case "array":
            return [example_of(schema.get("items", {}), components, name)]
        case "integer":
            return max(schema.get("minimum", 0), min(_NUMBER, schema.get("maximum", _NUMBER)))
        case "string":
            return str(_EXAMPLES.get(name, name))
        case kind:
            return _PLAIN.get(kind or "", {})


def _example_object(schema: Mapping[str, Any], components: Mapping[str, Any]) -> dict[str, Any]:
    fields = schema.get("properties", {})
    of_any_name = schema.get("additionalProperties")
    if not fields and isinstance(of_any_name, Mapping):
        return {"name": example_of(of_any_name, components)}
    needed = schema.get("required", [name for name in fields if fields[name].get("default")])
    return {name: example_of(fields[name], components, name) for name in needed or fields}


def _operation(route: Route, media: Mapping[str, Any]) -> dict[str, Any]:
    row = route.row
    summary, _, description = row.doc.partition("\n")
    operation: dict[str, Any] = {
        "operationId": row.name,
        "summary": summary,
        "tags": [row.noun],
        "x-permission": str(row.need),
        "parameters": [*_path_parameters(row), *_query_parameters(route)],
        "responses": _responses(row, media.get(str(route.result), {})),
    }
    if row.is_internal:
        operation["x-internal"] = True
    if description:
        operation["description"] = description.strip()
    if route.body is not None:
        content = dict.fromkeys(route.body.row.media_types, media[str(route.body.schema)])
        operation["requestBody"] = {"required": route.body.is_required, "content": content}
    return operation


def _path_parameters(row: Operation) -> Iterator[dict[str, Any]]:
    numbers = [each.wire_name for each in row.parameters if each.kind is Kind.NUMBER]
    for name in re.findall(r"\{(\w+)\}", row.path):
        schema: dict[str, Any] = {"type": "string", "minLength": 1}
        if name in numbers:
            schema = {"type": "integer", "format": "int64"}
        described = {"name": name, "in": "path", "required": True, "schema": schema}
        yield described | ({"example": _EXAMPLES[name]} if name in _EXAMPLES else {})


def _query_parameters(route: Route) -> Iterator[dict[str, Any]]:
    for each in route.row.parameters:
        if each.place is Place.QUERY:
            kind = query_kind(each, route.types.get(each.name))
            yield _query_parameter(each.wire_name, kind, default_of(each))
    if NDJSON in route.row.produces:
        yield _query_parameter(FORMAT, str, None)


def _query_parameter(name: str, kind: type, default: Default) -> dict[str, Any]:
    schema = {"type": _KINDS[kind]} | ({} if default is None else {"default": default})
    return {"name": name, "in": "query", "required": False, "schema": schema}


def _responses(row: Operation, found: Mapping[str, Any]) -> dict[str, Any]:
    refusal = {"schema": {"$ref": _REF.format(name=Refusal.__name__)}}
    responses: dict[str, Any] = {"default": {"description": "Refused", "content": {JSON: refusal}}}
    first, *others = row.produces
    is_read, status = row.method == "GET", str(row.answer_status)
    if status == "204":
        responses[status] = {"description": "Done"}
    else:
        media_types = (first.partition(";")[0], *others)
        content: dict[str, Any] = {each: {} for each in media_types}
        description = "Found" if is_read or first != JSON else "Done"
        responses[status] = {"description": description, "content": content}
        if found:
            content[JSON] = found
    if is_read and (first == JSON or row.result is Result.MAYBE_TEXT):
        responses["204"] = {"description": "Nothing is set"}
    return responses

"""The OpenAPI description, made from the table of routes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from magnetar.admin.response import JSON
from magnetar.admin.route import Body, Query, Route
from magnetar.model.document import decode_json
from magnetar.operation.row import Kind, Place
from magnetar.operation.table import all_operations

_INTEGER_PARTS: Final = frozenset(
    each.wire_name
    for operation in all_operations()
    for each in operation.parameters
    if each.place is Place.PATH and each.kind is Kind.NUMBER
)
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
_REFUSAL: Final = "Refusal"
_REF: Final = "#/components/schemas/{name}"


class Refusal(msgspec.Struct):
    """Why a request was not carried out."""

    reason: str


def describe(routes: Iterable[Route], *, version: str) -> dict[str, Any]:
    """The whole document, OpenAPI 3.1."""
    rows = list(routes)
    bodies = [row.body.schema for row in rows if row.body is not None]
    results = [row.result for row in rows if row.result is not None]
    types = list({str(each): each for each in (Refusal, *bodies, *results)}.values())
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    by_type = {str(each): schema for each, schema in zip(types, schemas, strict=True)}
    paths: dict[str, dict[str, Any]] = {}
    for row in rows:
        paths.setdefault(row.path, {})[row.method.lower()] = _operation(row, by_type)
    document = {
        "openapi": "3.1.0",
        "info": {"title": "Magnetar admin", "version": version, "license": {"name": "Apache-2.0"}},
        "paths": paths,
        "components": {"schemas": components},
    }
    # Only what JSON knows: schemas hold defaults that are tuples.
    described: dict[str, Any] = decode_json(msgspec.json.encode(document))
    return described


def _operation(route: Route, schemas: Mapping[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.operation,
        "summary": route.summary,
        "tags": [route.area],
        "x-permission": str(route.need),
        "parameters": [
            *(_path_parameter(name) for name in route.part_names()),
            *(_query_parameter(query) for query in route.query),
        ],
        "responses": _responses(route, schemas.get(str(route.result), {})),
    }
    if route.description:
        operation["description"] = route.description
    if route.body is not None:
        operation["requestBody"] = _request_body(route.body, schemas[str(route.body.schema)])
    return operation


def _path_parameter(name: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string", "minLength": 1}
    if name in _INTEGER_PARTS:
        schema = {"type": "integer", "format": "int64"}
    described = {"name": name, "in": "path", "required": True, "schema": schema}
    return described | ({"example": _EXAMPLES[name]} if name in _EXAMPLES else {})


def _query_parameter(query: Query) -> dict[str, Any]:
    kinds = {bool: "boolean", int: "integer", str: "string"}
    schema: dict[str, Any] = {"type": kinds[query.kind]}
    if query.default is not None:
        schema["default"] = query.default
    return {"name": query.name, "in": "query", "required": False, "schema": schema}


def _request_body(body: Body, schema: Any) -> dict[str, Any]:
    content = {name: {"schema": schema} for name in body.media_types}
    return {"required": body.required, "content": content}


def _responses(route: Route, schema: Mapping[str, Any]) -> dict[str, Any]:
    refusal = {"$ref": _REF.format(name=_REFUSAL)}
    responses: dict[str, Any] = {
        "default": {"description": "Refused", "content": {JSON: {"schema": refusal}}}
    }
    if route.status == 204:
        responses["204"] = {"description": "Done"}
    elif route.method == "GET" or route.produces != JSON:
        media_types = (route.produces.partition(";")[0], *route.or_produces)
        content: dict[str, Any] = {each: {} for each in media_types}
        responses[str(route.status)] = {"description": "Found", "content": content}
    else:
        responses[str(route.status)] = {"description": "Done", "content": {JSON: {}}}
    if schema and route.status != 204:
        responses[str(route.status)]["content"][JSON] = {"schema": schema}
    if route.method == "GET" and route.produces == JSON:
        responses["204"] = {"description": "Nothing is set"}
    return responses

"""Schemas of topics."""

from __future__ import annotations

from typing import Final

from magnetar.model.answer.schema import SchemaAnswer, SchemaCompatibility, SchemaMetadata
from magnetar.model.permission import TOPIC_ADMIN, TOPIC_PRODUCE, TOPIC_READ
from magnetar.operation.row import (
    FORCE,
    REQUIRED,
    TOPIC,
    Answer,
    Kind,
    Result,
    Table,
    Verb,
    body,
    field,
    local,
    path,
)

TABLE: Final = Table(
    "schemas", "/admin/v2/schemas/{tenant}/{namespace}/{topic}", TOPIC, for_owner=True
)
_PAYLOAD: Final = body("payload", Kind.DOCUMENT)._replace(
    missing="A schema payload is required", text_limit="schema_bytes"
)
_FIELDS: Final = (
    field("type", default=REQUIRED),
    field("definition", default=REQUIRED, wire="schema"),
    field("properties", Kind.PROPERTIES),
)
_FILE: Final = local("filename", default=REQUIRED).asked(
    'JSON file with "type", "schema" and "properties"', "-f", "--filename", variable="FILE"
)

TABLE.add(
    "get",
    "GET /schema",
    TOPIC_READ,
    "The topic's latest schema, or one of its versions.",
    path("version", "an older version", "-v", "--version", kind=Kind.NUMBER, default=None),
    local("all_version", Kind.FLAG).asked("all versions", "-a", "--all-version"),
    result=Answer(SchemaAnswer),
    also=("/schema/{version}",),
    cli=Verb("get", "show the schema of a topic"),
)
TABLE.add(
    "get_all",
    "GET /schemas",
    TOPIC_READ,
    "All versions of the topic's schema.",
    result=Result.VERSIONS,
)
TABLE.add(
    "upload",
    "POST /schema",
    TOPIC_PRODUCE,
    "Add a schema if it is compatible.",
    _PAYLOAD,
    *_FIELDS,
    _FILE,
    result=Result.VERSION,
    cli=Verb("upload", "register a schema"),
    status=200,
)
TABLE.add(
    "delete",
    "DELETE /schema",
    TOPIC_ADMIN,
    "Mark the topic's schema as deleted, or remove it when forced.",
    FORCE.asked("and forget all versions", "-f", "--force"),
    result=Result.VERSION,
    cli=Verb("delete", "delete the schema of a topic", is_silent=True),
    status=200,
)
TABLE.add(
    "check",
    "POST /compatibility",
    TOPIC_ADMIN,
    "Whether a schema could be added.",
    _PAYLOAD,
    *_FIELDS,
    _FILE,
    result=Answer(SchemaCompatibility),
    cli=Verb("compatibility", "ask whether a schema would be accepted"),
    status=200,
)
TABLE.add(
    "find_version",
    "POST /version",
    TOPIC_READ,
    "The version a schema is stored under, or -1.",
    _PAYLOAD,
    *_FIELDS,
    result=Result.VERSION,
    status=200,
)
TABLE.add(
    "metadata",
    "GET /metadata",
    TOPIC_READ,
    "Where the versions of the topic's schema are stored.",
    result=Answer(SchemaMetadata),
    cli=Verb("metadata", "show how the schema is stored"),
)

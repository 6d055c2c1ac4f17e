"""Schemas of topics."""

from typing import TypedDict


class SchemaAnswer(TypedDict):
    version: int
    type: str
    timestamp: int
    data: str
    properties: dict[str, str]


class SchemaAnswers(TypedDict):
    getSchemaResponses: list[SchemaAnswer]


class SchemaLedger(TypedDict):
    ledgerId: int
    entryId: int
    version: int


class SchemaMetadata(TypedDict):
    info: SchemaLedger
    index: list[SchemaLedger]


class SchemaVersion(TypedDict):
    version: int


class StoredSchemaVersion(TypedDict):
    version: SchemaVersion


class SchemaCompatibility(TypedDict):
    compatibility: bool
    schemaCompatibilityStrategy: str

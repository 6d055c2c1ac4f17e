"""Schemas of topics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from magnetar.client.admin.name import format_bare
from magnetar.client.admin.operation import SchemaOperations
from magnetar.client.admin.transport import Document, Documents


class AsyncSchemaAdmin(SchemaOperations):
    async def get(self, topic: str, *, version: int | None = None) -> Document:
        rest = ("schema",) if version is None else ("schema", version)
        found: Document = await self._transport.get(_path(topic, *rest))
        return found

    async def get_all(self, topic: str) -> Documents:
        found = await self._transport.get(_path(topic, "schemas"))
        versions: Documents = found["getSchemaResponses"]
        return versions

    async def upload(
        self, topic: str, *, type: str, definition: str, properties: Mapping[str, str] | None = None
    ) -> int:
        """Register a schema and return its version."""
        body = _body(type, definition, properties)
        found = await self._transport.post(_path(topic, "schema"), body)
        return _version(found)

    async def delete(self, topic: str, *, force: bool = False) -> int:
        return _version(await self._transport.delete(_path(topic, "schema"), {"force": force}))

    async def check(
        self, topic: str, *, type: str, definition: str, properties: Mapping[str, str] | None = None
    ) -> Document:
        """Whether the schema would be accepted, and under which strategy."""
        body = _body(type, definition, properties)
        found: Document = await self._transport.post(_path(topic, "compatibility"), body)
        return found

    async def find_version(
        self, topic: str, *, type: str, definition: str, properties: Mapping[str, str] | None = None
    ) -> int:
        body = _body(type, definition, properties)
        return _version(await self._transport.post(_path(topic, "version"), body))


def _path(topic: str, *rest: str | int) -> str:
    return f"admin/v2/schemas/{format_bare(topic, *rest)}"


def _body(type: str, definition: str, properties: Mapping[str, str] | None) -> Document:
    return {"type": type, "schema": definition, "properties": dict(properties or {})}


def _version(found: Mapping[str, Any]) -> int:
    """The number, which some answers wrap once more."""
    version = found["version"]
    return int(version["version"] if isinstance(version, dict) else version)

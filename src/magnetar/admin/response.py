"""What a client is told."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

import msgspec

from magnetar.model.document import format_document

JSON: Final = "application/json"
NDJSON: Final = "application/x-ndjson"
TEXT: Final = "text/plain; charset=utf-8"
HTML: Final = "text/html; charset=utf-8"
BYTES: Final = "application/octet-stream"
NOTE: Final = "x-magnetar-note"
SUBJECT: Final = "x-magnetar-subject"
"""What the reason of a refusal, in Pulsar's own words, leaves out."""
"""The header of a sentence about the answer, for people."""


@dataclass(frozen=True, slots=True)
class Response:
    status: int
    body: bytes = b""
    content_type: str | None = None
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Stream:
    """An answer made while it is read, so that it is never whole in memory."""

    chunks: AsyncIterator[bytes]
    content_type: str


def json_response(value: object, status: int = HTTPStatus.OK) -> Response:
    return Response(status, msgspec.json.encode(format_document(value)), JSON)


def text_response(text: str, content_type: str = TEXT) -> Response:
    return Response(HTTPStatus.OK, text.encode(), content_type)


def refusal(status: int, reason: str, headers: tuple[tuple[str, str], ...] = ()) -> Response:
    return Response(status, msgspec.json.encode({"reason": reason}), JSON, headers)

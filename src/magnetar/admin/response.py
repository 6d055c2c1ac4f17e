"""What a client is told."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

import msgspec

from magnetar.model.document import format_document

JSON: Final = "application/json"
TEXT: Final = "text/plain; charset=utf-8"
HTML: Final = "text/html; charset=utf-8"
BYTES: Final = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class Response:
    status: int
    body: bytes = b""
    content_type: str | None = None
    headers: tuple[tuple[str, str], ...] = ()


def json_response(value: object, status: int = HTTPStatus.OK) -> Response:
    return Response(status, msgspec.json.encode(format_document(value)), JSON)


def text_response(text: str, content_type: str = TEXT) -> Response:
    return Response(HTTPStatus.OK, text.encode(), content_type)


def refusal(status: int, reason: str, headers: tuple[tuple[str, str], ...] = ()) -> Response:
    return Response(status, msgspec.json.encode({"reason": reason}), JSON, headers)

"""Responses to HTTP requests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

import msgspec

from magnetar.admin.request import Call
from magnetar.broker.administration.registry import Listing
from magnetar.errors import BadRequest
from magnetar.model.document import format_document
from magnetar.operation.row import JSON, NDJSON, TEXT_PLAIN

NOTE: Final = "x-magnetar-note"
"""The header of a sentence about the answer, for people."""
SUBJECT: Final = "x-magnetar-subject"
"""What the reason of a refusal, in Pulsar's own words, leaves out."""
FORMAT: Final = "format"
"""The parameter that asks for a list as one array or as lines."""
_FORMATS: Final = ("json", "ndjson")
_encoder: Final = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True)
class Response:
    status: int
    body: bytes | AsyncIterator[bytes] = b""
    """One that is made while it is read is never whole in memory."""
    content_type: str | None = None
    headers: tuple[tuple[str, str], ...] = ()


def json_response(value: object, status: int = HTTPStatus.OK) -> Response:
    body = _encoder.encode(value)
    if b"null" in body:  # perhaps in a text: a field without a value is left out
        body = _encoder.encode(format_document(value))
    return Response(status, body, JSON)


def text_response(text: str, content_type: str = TEXT_PLAIN) -> Response:
    return Response(HTTPStatus.OK, text.encode(), content_type)


def refusal(status: int, reason: str, headers: tuple[tuple[str, str], ...] = ()) -> Response:
    return Response(status, _encoder.encode({"reason": reason}), JSON, headers)


async def list_response(listing: Listing, call: Call) -> Response:
    """Names as the client asks for them: one JSON array, or a line for each."""
    if not _wants_lines(call):
        return json_response(await listing.names())
    runs = listing.runs()
    first = await anext(runs, None)  # found before the answer begins: it may still be a refusal

    async def lines() -> AsyncIterator[bytes]:
        if first:
            yield _encoder.encode_lines(first)
        async for run in runs:
            yield _encoder.encode_lines(run)

    return Response(HTTPStatus.OK, lines(), NDJSON)


def _wants_lines(call: Call) -> bool:
    asked = call.query(FORMAT)
    if not asked:
        return NDJSON in call.headers.get("accept", "").lower()
    if asked.lower() not in _FORMATS:
        raise BadRequest(f"{FORMAT} is one of {', '.join(_FORMATS)}, not {asked!r}")
    return asked.lower() == "ndjson"

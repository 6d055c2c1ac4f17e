"""Lists of names as a client wants them: one JSON array, a page of it, or a line for each."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Final

import msgspec

from magnetar.admin.request import Call
from magnetar.admin.response import NDJSON, Stream
from magnetar.admin.route import Query
from magnetar.broker.administration.registry import Listing
from magnetar.errors import BadRequest

FORMAT: Final = Query("format", str)

_FORMATS: Final = ("json", "ndjson")
_encoder: Final = msgspec.json.Encoder()


async def list_response(listing: Listing, call: Call) -> object:
    if _wants_lines(call):
        return await _stream(listing.runs())
    return await listing.names()


def _wants_lines(call: Call) -> bool:
    asked = call.query("format")
    if not asked:
        return NDJSON in call.request.headers.get("accept", "").lower()
    if asked.lower() not in _FORMATS:
        raise BadRequest(f"format is one of {', '.join(_FORMATS)}, not {asked!r}")
    return asked.lower() == "ndjson"


async def _stream(runs: AsyncIterator[Sequence[str]]) -> Stream:
    """The first names are found before the answer begins: until then it may be a refusal."""
    first = await anext(runs, None)

    async def lines() -> AsyncIterator[bytes]:
        if first:
            yield _encoder.encode_lines(first)
        async for run in runs:
            yield _encoder.encode_lines(run)

    return Stream(lines(), NDJSON)

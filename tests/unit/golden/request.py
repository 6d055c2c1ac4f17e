"""One step of the script over REST."""

from __future__ import annotations

from typing import Final, NamedTuple

V2: Final = "/admin/v2"
PUBLISH: Final = "PUBLISH"


class Request(NamedTuple):
    """`PUBLISH` stands for a producer: its path is a topic and its body the payload."""

    method: str
    path: str
    body: str | None = None
    header: str = ""
    """One in the place of the usual one, as `name: value`."""

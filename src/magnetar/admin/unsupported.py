"""Calls that are known and not served: each says so instead of pretending there is no such path."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Final, NamedTuple

from magnetar.admin.request import Call
from magnetar.admin.response import NOTE, Response, refusal
from magnetar.admin.route import Route, spread
from magnetar.broker.administration.web import Administration
from magnetar.model import permission
from magnetar.operation.row import Operation

_NEEDS: Final = {
    str(need): need for need in vars(permission).values() if isinstance(need, permission.Need)
}
_DEPTH_MAX: Final = 7


class Row(NamedTuple):
    feature: str
    need: str
    methods: str
    path: str
    sentence: str

    async def refuse(self, api: Administration, call: Call) -> Response:
        reason = f"{self.feature}: not supported by this broker"
        return refusal(HTTPStatus.NOT_IMPLEMENTED, reason, ((NOTE, self.sentence),))


def load_rows() -> Iterator[Row]:
    for line in Path(__file__).with_suffix(".tsv").read_text("utf-8").splitlines()[1:]:
        yield Row(*line.split("\t"))


def unsupported_routes() -> Iterator[Route]:
    """A path that ends in `/**` stands for all below it, as deep as calls of Pulsar are."""
    for row in load_rows():
        root, tree, _ = row.path.partition("/**")
        doc, need = f"{row.feature}: not supported.\n{row.sentence}", _NEEDS[row.need]
        for depth in range(_DEPTH_MAX if tree else 1):
            path = root + "".join(f"/{{part{index}}}" for index in range(depth))
            for method in row.methods.split():
                name = f"unsupported.{method.lower()}{path}"
                operation = Operation(name, doc, method, path, need, status=501)
                yield from (Route(each, row.refuse) for each in spread(operation))

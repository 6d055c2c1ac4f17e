"""Calls that brokers of a cluster make at each other. The admin client leaves them out."""

from __future__ import annotations

from typing import Final

from magnetar.model.permission import SUPER_USER
from magnetar.operation.row import Kind, Result, Table, body, path

TABLE: Final = Table("broker_calls", "/admin/v2/broker-calls", is_internal=True)

TABLE.add(
    "answer",
    "POST /{call}",
    SUPER_USER,
    "Carry out what another broker asks of the owner of a topic.",
    path("call"),
    body("request", Kind.DOCUMENT)._replace(text_limit="schema_bytes"),
    result=Result.DOCUMENT,
    status=200,
)

"""Values of the admin REST API that are neither text nor JSON objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from magnetar.client.admin.transport import Answer
from magnetar.client.message_id import MessageId


class StoredEntry(NamedTuple):
    """An entry as the broker keeps it: a batch comes whole, and may be compressed."""

    id: str
    headers: Mapping[str, str]
    data: bytes


def decode_entry(answer: Answer) -> StoredEntry:
    prefix = "x-pulsar-"
    headers = {
        key.removeprefix(prefix): value
        for key, value in answer.headers.items()
        if key.startswith(prefix)
    }
    return StoredEntry(headers.pop("message-id", ""), headers, answer.body)


def decode_id(data: Mapping[str, Any]) -> MessageId:
    return MessageId(
        int(data["ledgerId"]),
        int(data["entryId"]),
        int(data.get("partitionIndex", -1)),
        int(data.get("batchIndex", -1)),
    )


def decode_ids(data: Mapping[str, Mapping[str, Any]]) -> dict[int, MessageId]:
    """Of partitions, by their index."""
    return {int(index): decode_id(each) for index, each in data.items()}


def encode_id(id: MessageId, *, excluded: bool = False) -> dict[str, Any]:
    return {
        "ledgerId": id.ledger_id,
        "entryId": id.entry_id,
        "partitionIndex": id.partition,
        "batchIndex": id.batch_index,
        "excluded": excluded,
    }

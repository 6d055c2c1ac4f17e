"""Values of the admin REST API that are neither text nor JSON objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

from magnetar.client.admin.transport import Answer, Documents
from magnetar.client.message_id import MessageId

Version: TypeAlias = int
Versions: TypeAlias = Documents


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


def decode_version(data: Mapping[str, Any]) -> Version:
    """The number, which some answers wrap once more."""
    version = data["version"]
    return int(version["version"] if isinstance(version, dict) else version)


def decode_versions(data: Mapping[str, Versions]) -> Versions:
    return data["getSchemaResponses"]


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


def encode_id(id: MessageId) -> dict[str, Any]:
    return {
        "ledgerId": id.ledger_id,
        "entryId": id.entry_id,
        "partitionIndex": id.partition,
        "batchIndex": id.batch_index,
        "excluded": False,
    }

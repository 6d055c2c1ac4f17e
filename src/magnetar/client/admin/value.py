"""Values of the admin REST API that are neither text nor JSON objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

from magnetar.client.admin.transport import Answer, Documents, format_path
from magnetar.client.error import ConfigurationError
from magnetar.client.message_id import MessageId
from magnetar.errors import InvalidName
from magnetar.model.name import TopicName, parse_namespace, parse_topic


def check_topic(topic: str) -> TopicName:
    try:
        return parse_topic(topic)
    except InvalidName as error:
        raise ConfigurationError(error.sentence) from None


def format_namespace(namespace: str, *rest: str | int) -> str:
    try:
        name = parse_namespace(namespace)
    except InvalidName as error:
        raise ConfigurationError(error.sentence) from None
    return format_path(name.tenant, name.local, *rest)


def format_topic(topic: str, *rest: str | int) -> str:
    """`domain/tenant/namespace/local/rest…`, the local name as one component."""
    name = check_topic(topic)
    return format_path(name.domain.value, *_parts(name), *rest)


def format_bare(topic: str, *rest: str | int) -> str:
    """Without the domain, as in the paths of schemas and scalable topics."""
    return format_path(*_parts(check_topic(topic)), *rest)


def _parts(name: TopicName) -> tuple[str, str, str]:
    return (name.namespace.tenant, name.namespace.local, name.local)


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

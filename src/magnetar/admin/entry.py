"""One stored entry as HTTP: the payload as the body, its metadata as headers that tools parse."""

from __future__ import annotations

import base64
import json
from http import HTTPStatus
from typing import Final

from magnetar.admin.response import Response
from magnetar.broker.administration.log_info import format_time
from magnetar.broker.administration.topic import SeenEntry
from magnetar.errors import NotFound, ProtocolViolation
from magnetar.operation.row import BYTES
from magnetar.wire.command import CompressionType, MessageMetadata
from magnetar.wire.compression import decompress
from magnetar.wire.entry import decode_broker_block, decode_entry

_PAYLOAD_BYTES_MAX: Final = 64 * 1024 * 1024
# Fields passed on as they are, under the header of the same name.
_PLAIN_FIELDS: Final = (
    "producer_name",
    "sequence_id",
    "replicated_from",
    "partition_key",
    "uncompressed_size",
    "encryption_algo",
    "marker_type",
    "txnid_least_bits",
    "txnid_most_bits",
    "highest_sequence_id",
    "uuid",
    "num_chunks_from_msg",
    "total_chunk_msg_size",
    "chunk_id",
)
_FLAG_FIELDS: Final = ("null_value", "partition_key_b64_encoded", "null_partition_key")
_TIME_FIELDS: Final = ("publish_time", "event_time", "deliver_at_time")
_BYTES_FIELDS: Final = ("encryption_param", "schema_version", "ordering_key")


def entry_response(seen: SeenEntry) -> Response:
    """The whole entry, a batch undivided, decompressed unless it is encrypted."""
    position, entry = seen.position, seen.data
    try:
        metadata, payload = decode_entry(entry)
        if not metadata.encryption_keys:
            payload = decompress(
                metadata.compression,
                payload,
                metadata.uncompressed_size,
                bytes_max=_PAYLOAD_BYTES_MAX,
            )
        broker = decode_broker_block(entry)
    except ProtocolViolation as error:
        raise NotFound(f"The entry {position} cannot be read: {error.sentence}") from None
    headers = {"X-Pulsar-Message-ID": str(position), **_describe(metadata, len(entry))}
    if broker is not None:
        if broker.HasField("broker_timestamp"):
            time = format_time(broker.broker_timestamp)
            headers["X-Pulsar-Broker-Entry-METADATA-timestamp"] = time
        if broker.HasField("index"):
            headers["X-Pulsar-Broker-Entry-METADATA-index"] = str(broker.index)
    if seen.is_aborted or metadata.HasField("txnid_least_bits"):
        headers["X-Pulsar-txn-aborted"] = _tell(seen.is_aborted)
    headers["X-Pulsar-txn-uncommitted"] = _tell(seen.is_uncommitted)
    return Response(HTTPStatus.OK, payload, BYTES, tuple(headers.items()))


def _describe(metadata: MessageMetadata, entry_bytes: int) -> dict[str, str]:
    properties = {each.key: each.value for each in metadata.properties}
    headers = {"X-Pulsar-PROPERTY": json.dumps(properties)}
    for name in _TIME_FIELDS:
        if metadata.HasField(name):
            headers[_header(name)] = format_time(getattr(metadata, name))
    if metadata.HasField("num_messages_in_batch"):
        headers["X-Pulsar-num-batch-message"] = str(metadata.num_messages_in_batch)
        headers["X-Pulsar-batch-size"] = str(entry_bytes - metadata.ByteSize())
    for name in _PLAIN_FIELDS:
        if metadata.HasField(name):
            headers[_header(name)] = str(getattr(metadata, name))
    for name in _FLAG_FIELDS:
        if metadata.HasField(name):
            headers[_header(name)] = _tell(getattr(metadata, name))
    for name in _BYTES_FIELDS:
        if metadata.HasField(name):
            text = base64.b64encode(getattr(metadata, name)).decode("ascii")
            headers[f"X-Pulsar-Base64-{name.replace('_', '-')}"] = text
    if metadata.HasField("compression"):
        headers["X-Pulsar-compression"] = CompressionType.Name(metadata.compression)
    if metadata.replicate_to:
        headers["X-Pulsar-replicated-to"] = str(list(metadata.replicate_to))
    headers["X-Pulsar-Is-Encrypted"] = _tell(bool(metadata.encryption_keys))
    return headers


def _tell(is_true: bool) -> str:
    return "true" if is_true else "false"


def _header(field: str) -> str:
    return "X-Pulsar-" + field.replace("_", "-")

"""How a command is refused: by the response of its own kind, if the protocol has one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from google.protobuf.message import Message

from magnetar.errors import BrokerError, TransactionsDisabled, fault_of
from magnetar.wire.command import (
    BaseCommand,
    CommandAckResponse,
    CommandAddPartitionToTxnResponse,
    CommandAddSubscriptionToTxnResponse,
    CommandConsumerStatsResponse,
    CommandEndTxnOnPartitionResponse,
    CommandEndTxnOnSubscriptionResponse,
    CommandEndTxnResponse,
    CommandGetOrCreateSchemaResponse,
    CommandGetSchemaResponse,
    CommandLookupTopicResponse,
    CommandNewTxnResponse,
    CommandPartitionedTopicMetadataResponse,
    CommandScalableTopicSubscribeResponse,
    CommandScalableTopicUpdate,
    CommandTcClientConnectResponse,
    CommandWatchScalableTopicsUpdate,
    CommandWatchTcAssignmentsUpdate,
    ServerError,
    body_of,
    error,
    make_command,
)

_RESPONSES: Final[Mapping[int, type[Message]]] = {
    BaseCommand.LOOKUP: CommandLookupTopicResponse,
    BaseCommand.PARTITIONED_METADATA: CommandPartitionedTopicMetadataResponse,
    BaseCommand.GET_SCHEMA: CommandGetSchemaResponse,
    BaseCommand.GET_OR_CREATE_SCHEMA: CommandGetOrCreateSchemaResponse,
    BaseCommand.CONSUMER_STATS: CommandConsumerStatsResponse,
    BaseCommand.ACK: CommandAckResponse,
    BaseCommand.SCALABLE_TOPIC_LOOKUP: CommandScalableTopicUpdate,
    BaseCommand.SCALABLE_TOPIC_SUBSCRIBE: CommandScalableTopicSubscribeResponse,
    BaseCommand.WATCH_SCALABLE_TOPICS: CommandWatchScalableTopicsUpdate,
    BaseCommand.NEW_TXN: CommandNewTxnResponse,
    BaseCommand.ADD_PARTITION_TO_TXN: CommandAddPartitionToTxnResponse,
    BaseCommand.ADD_SUBSCRIPTION_TO_TXN: CommandAddSubscriptionToTxnResponse,
    BaseCommand.END_TXN: CommandEndTxnResponse,
    BaseCommand.END_TXN_ON_PARTITION: CommandEndTxnOnPartitionResponse,
    BaseCommand.END_TXN_ON_SUBSCRIPTION: CommandEndTxnOnSubscriptionResponse,
    BaseCommand.TC_CLIENT_CONNECT_REQUEST: CommandTcClientConnectResponse,
    BaseCommand.WATCH_TC_ASSIGNMENTS: CommandWatchTcAssignmentsUpdate,
}
_IDS: Final = ("request_id", "consumer_id", "session_id", "watch_id")
_TRANSACTION_IDS: Final = ("txnid_most_bits", "txnid_least_bits")
"""Clients find the coordinator that an answer is from by these."""


def encode_refusal(command: BaseCommand, refusal: BrokerError) -> BaseCommand | None:
    """The answer to a refused command; None for one that has no answer."""
    body = body_of(command)
    asked = {field.name for field, _ in body.ListFields()}
    if command.type == BaseCommand.ACK and "request_id" not in asked:
        return None
    code = fault_of(refusal).code
    kind = _RESPONSES.get(command.type)
    if kind is None or (isinstance(refusal, TransactionsDisabled) and "watch_id" not in asked):
        if "request_id" not in asked:
            return None
        return error(body.request_id, code, refusal.sentence)  # type: ignore[attr-defined]
    response = kind()
    names = {field.name for field in kind.DESCRIPTOR.fields}
    for name in names & asked & set(_IDS):
        setattr(response, name, getattr(body, name))
    if isinstance(response, CommandNewTxnResponse):
        response.txnid_most_bits = body.tc_id  # type: ignore[attr-defined]
    elif command.type != BaseCommand.ACK:
        for name in names & set(_TRANSACTION_IDS):
            setattr(response, name, getattr(body, name))
    setattr(response, "error" if "error" in names else "error_code", ServerError.Name(code))
    setattr(response, "message" if "message" in names else "error_message", refusal.sentence)
    if "response" in names:
        response.response = kind.Failed  # type: ignore[attr-defined]
    return make_command(response)

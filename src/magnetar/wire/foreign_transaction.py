"""What transactions of Apache Pulsar's brokers leave in the logs of coordinators, and in those of
the acknowledgements on a subscription.
"""

from __future__ import annotations

from typing import Final

from google.protobuf.message import DecodeError

from magnetar.errors import RecordUnreadable
from magnetar.model.transaction import Acked, Acknowledged, Ended, Status, TransactionId
from magnetar.wire.pb import storage_pb2

_BATCH: Final = b"\x0e\x01\x00\x01"
"""In front of an entry that holds several records."""


def decode_coordinator_entry(entry: bytes) -> list[tuple[TransactionId, Status, int | None]]:
    """Transactions with the state each entered, and of new ones the time until which they may stay
    open, in milliseconds.
    """
    kinds = storage_pb2.TransactionMetadataEntry
    try:
        if entry.startswith(_BATCH):
            whole = storage_pb2.BatchedTransactionMetadataEntry.FromString(entry[len(_BATCH) :])
            records = list(whole.transaction_log)
        else:
            records = [kinds.FromString(entry)]
    except DecodeError:
        raise RecordUnreadable("An entry of a coordinator's log cannot be decoded") from None
    found: list[tuple[TransactionId, Status, int | None]] = []
    for each in records:
        id_ = TransactionId(each.txnid_most_bits, each.txnid_least_bits)
        if each.metadata_op == kinds.NEW:
            found.append((id_, Status.OPEN, each.start_time + each.timeout_ms))
        elif each.metadata_op == kinds.UPDATE:
            found.append((id_, Status(kinds.TxnStatus.Name(each.new_status)), None))
    return found


def decode_pending_ack_entry(entry: bytes, subscription: str) -> list[Acked | Ended]:
    kinds = storage_pb2.PendingAckMetadataEntry
    try:
        if entry.startswith(_BATCH):
            whole = storage_pb2.BatchedPendingAckMetadataEntry.FromString(entry[len(_BATCH) :])
            records = list(whole.pending_ack_log)
        else:
            records = [kinds.FromString(entry)]
    except DecodeError:
        raise RecordUnreadable(
            f"An entry of the acknowledgements in transactions of {subscription} cannot be decoded"
        ) from None
    found: list[Acked | Ended] = []
    for each in records:
        id_ = TransactionId(each.txnid_most_bits, each.txnid_least_bits)
        if each.pending_ack_op == kinds.ACK:
            entries = tuple(
                Acknowledged(ack.ledgerId, ack.entryId, tuple(ack.ack_set) or None, ack.batch_size)
                for ack in each.pending_ack_metadata
            )
            found.append(Acked(id_, subscription, each.ack_type == kinds.Cumulative, entries))
        else:
            found.append(Ended(id_, each.pending_ack_op == kinds.COMMIT))
    return found

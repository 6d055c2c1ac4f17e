"""Transactions: their coordinators, what they have left on topics and subscriptions, their end."""

from __future__ import annotations

from typing import Final

from magnetar.model.answer.transaction import (
    BufferLog,
    BufferStats,
    CoordinatorLog,
    CoordinatorOwner,
    PendingAckLog,
    PendingAckStats,
    PendingAckSums,
    PositionState,
    TransactionAnswer,
    WrittenStats,
)
from magnetar.model.name import TopicDomain
from magnetar.model.permission import AUTHENTICATED, SUPER_USER
from magnetar.operation.row import (
    SUBSCRIPTION,
    TOPIC,
    Answer,
    Form,
    Kind,
    Reader,
    Result,
    Table,
    Verb,
    body,
    flag,
    path,
    query,
)

TABLE: Final = Table("transactions", "/admin/v3/transactions")
_TOPIC_TABLE: Final = Table(
    "transactions",
    "/admin/v3/transactions",
    TOPIC,
    for_owner=True,
    domains=(TopicDomain.SEGMENT,),
    domain=TopicDomain.PERSISTENT,
)
_ON_TOPIC: Final = "{tenant}/{namespace}/{topic}"
_ON_SEGMENT: Final = "{domain}/" + _ON_TOPIC
"""The same of a segment, whose name ends with its descriptor: `orders%2F0000-ffff-0`."""

_COORDINATOR: Final = path(
    "coordinator", "number of the coordinator", "-c", "--coordinator-id", kind=Kind.NUMBER
)
_ONE_COORDINATOR: Final = query("coordinator_id", Kind.NUMBER).asked(
    "number of the coordinator; without one, all", "-c", "--coordinator-id"
)
_MOST: Final = path(
    "most", "most significant bits of the id", "-m", "--most-sig-bits", kind=Kind.NUMBER
)
_LEAST: Final = path(
    "least", "least significant bits of the id", "-l", "--least-sig-bits", kind=Kind.NUMBER
)
_METADATA: Final = flag("metadata").asked(
    "also the ledgers of the journal's record", "-m", "--metadata"
)
_LOW_WATER_MARKS: Final = flag("low_water_marks").asked(
    "also lowWaterMarks, which are empty: topics here keep none", "-l", "--low-water-mark"
)

TABLE.add(
    "coordinators",
    "GET /coordinators",
    AUTHENTICATED,
    "The coordinators of the cluster, and where each runs.",
    result=Answer(CoordinatorOwner, Form.LIST),
    cli=Verb("coordinators-list", "list the coordinators"),
)
TABLE.add(
    "coordinator_stats",
    "GET /coordinatorStats",
    AUTHENTICATED,
    "Of one coordinator, or by number of all.",
    _ONE_COORDINATOR,
    result=Result.DOCUMENT,
    cli=Verb("coordinator-stats", "show what a coordinator has under way"),
)
TABLE.add(
    "coordinator_internal_stats",
    "GET /coordinatorInternalStats/{coordinator}",
    AUTHENTICATED,
    "The journal of a coordinator.",
    _COORDINATOR,
    _METADATA,
    result=Answer(CoordinatorLog),
    cli=Verb("coordinator-internal-stats", "show the journal of a coordinator"),
)
TABLE.add(
    "metadata",
    "GET /transactionMetadata/{most}/{least}",
    AUTHENTICATED,
    "A transaction with its topics and subscriptions.",
    _MOST,
    _LEAST,
    result=Answer(TransactionAnswer),
    cli=Verb("transaction-metadata", "show a transaction with all its parts"),
)
TABLE.add(
    "slow",
    "GET /slowTransactions/{timeout_ms}",
    AUTHENTICATED,
    "Transactions that have not ended for longer than a time, by id.",
    path("timeout_ms", "how long, as 30s or 5m", "-t", "--time", kind=Kind.NUMBER)._replace(
        reader=Reader.DURATION_MS
    ),
    _ONE_COORDINATOR,
    result=Answer(TransactionAnswer, Form.BY_NAME),
    cli=Verb("slow-transactions", "list transactions that are open for long"),
)
TABLE.add(
    "abort",
    "POST /abortTransaction/{most}/{least}",
    SUPER_USER,
    "Abort a transaction; the broker's log and its metadata keep the role of the caller.",
    _MOST,
    _LEAST,
    cli=Verb("abort-transaction", "abort a transaction"),
)
TABLE.add(
    "scale_coordinators",
    "POST /transactionCoordinator/replicas",
    SUPER_USER,
    "Let the cluster have more coordinators.",
    body("replicas", Kind.NUMBER).asked("how many in all", "-r", "--replicas"),
    cli=Verb("scale-transactionCoordinators", "add coordinators"),
)
_TOPIC_TABLE.add(
    "buffer_stats",
    f"GET /transactionBufferStats/{_ON_TOPIC}",
    AUTHENTICATED,
    "What a topic hides of transactions.",
    _LOW_WATER_MARKS,
    flag("segment_stats")._replace(is_ignored=True),
    also=(f"/transactionBufferStats/{_ON_SEGMENT}",),
    result=Answer(BufferStats),
    cli=Verb("transaction-buffer-stats", "show the transactions that write to a topic"),
)
_TOPIC_TABLE.add(
    "buffer_internal_stats",
    f"GET /transactionBufferInternalStats/{_ON_TOPIC}",
    AUTHENTICATED,
    "The journal in which a topic keeps what it knows of transactions.",
    _METADATA,
    also=(f"/transactionBufferInternalStats/{_ON_SEGMENT}",),
    result=Answer(BufferLog),
    cli=Verb("buffer-snapshot-internal-stats", "show the journal of a topic's transactions"),
)
_TOPIC_TABLE.add(
    "in_buffer_stats",
    f"GET /transactionInBufferStats/{_ON_TOPIC}/{{most}}/{{least}}",
    AUTHENTICATED,
    "What one transaction has written to a topic.",
    _MOST,
    _LEAST,
    also=(f"/transactionInBufferStats/{_ON_SEGMENT}/{{most}}/{{least}}",),
    result=Answer(WrittenStats),
    cli=Verb("transaction-in-buffer-stats", "show what a transaction has written to a topic"),
)
_TOPIC_TABLE.add(
    "in_pending_ack_stats",
    f"GET /transactionInPendingAckStats/{_ON_TOPIC}/{{subscription}}/{{most}}/{{least}}",
    AUTHENTICATED,
    "What one transaction acknowledges on a subscription.",
    SUBSCRIPTION,
    _MOST,
    _LEAST,
    also=(f"/transactionInPendingAckStats/{_ON_SEGMENT}/{{subscription}}/{{most}}/{{least}}",),
    result=Answer(PendingAckStats),
    cli=Verb("transaction-in-pending-ack-stats", "show what a transaction acknowledges"),
)
_TOPIC_TABLE.add(
    "pending_ack_stats",
    f"GET /pendingAckStats/{_ON_TOPIC}/{{subscription}}",
    AUTHENTICATED,
    "What transactions acknowledge on a subscription.",
    SUBSCRIPTION,
    _LOW_WATER_MARKS,
    also=(f"/pendingAckStats/{_ON_SEGMENT}/{{subscription}}",),
    result=Answer(PendingAckSums),
    cli=Verb("pending-ack-stats", "show what transactions acknowledge on a subscription"),
)
_TOPIC_TABLE.add(
    "pending_ack_internal_stats",
    f"GET /pendingAckInternalStats/{_ON_TOPIC}/{{subscription}}",
    AUTHENTICATED,
    "The journal that keeps what transactions acknowledge on a subscription.",
    SUBSCRIPTION,
    _METADATA,
    also=(f"/pendingAckInternalStats/{_ON_SEGMENT}/{{subscription}}",),
    result=Answer(PendingAckLog),
    cli=Verb("pending-ack-internal-stats", "show the journal of acknowledgements"),
)
_TOPIC_TABLE.add(
    "position_stats",
    f"GET /positionStatsInPendingAck/{_ON_TOPIC}/{{subscription}}/{{ledger_id}}/{{entry_id}}",
    AUTHENTICATED,
    "Whether a transaction acknowledges an entry, or a message of its batch.",
    SUBSCRIPTION,
    path("ledger_id", "id of the ledger", "-l", "--ledger-id", kind=Kind.NUMBER),
    path("entry_id", "id of the entry", "-e", "--entry-id", kind=Kind.NUMBER),
    query("batch_index", Kind.NUMBER).asked("of a message in a batch", "-b", "--batch-index"),
    also=(f"/positionStatsInPendingAck/{_ON_SEGMENT}/{{subscription}}/{{ledger_id}}/{{entry_id}}",),
    result=Answer(PositionState),
    cli=Verb("position-stats-in-pending-ack", "show whether a transaction holds an entry"),
)
TABLE.rows.extend(_TOPIC_TABLE.rows)

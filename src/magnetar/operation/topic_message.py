"""Messages of a topic: how they are found, read and dropped."""

from __future__ import annotations

from typing import Final

from magnetar.model.answer.log import JobStatus
from magnetar.model.permission import TOPIC_ADMIN, TOPIC_CONSUME
from magnetar.operation.row import (
    BYTES,
    REQUIRED,
    TOPIC,
    Answer,
    Kind,
    Reader,
    Result,
    Table,
    Verb,
    body,
    local,
    path,
    query,
)
from magnetar.operation.topic import ROOT

TABLE: Final = Table("topics", ROOT, TOPIC, for_owner=True)

TABLE.add(
    "last_message_id",
    "GET /lastMessageId",
    TOPIC_CONSUME,
    "The id of the last message.",
    result=Result.MESSAGE_ID,
    cli=Verb("last-message-id", "show the id of the last message"),
)
TABLE.add(
    "message_id_at",
    "GET /messageid/{timestamp}",
    TOPIC_CONSUME,
    "The id of the first message published at or after a time.",
    path("timestamp_ms", kind=Kind.NUMBER, wire="timestamp").asked(
        "such as 2024-01-31T12:00:00Z", "-d", "--datetime", reader=Reader.DATETIME_MS
    ),
    result=Result.MESSAGE_ID,
    cli=Verb("get-message-id", "show the id of the first message at or after a time"),
)
TABLE.compose(
    "message_id_by_index",
    "The id of a message by its index, where brokers count messages.",
    query("index", Kind.NUMBER, REQUIRED).asked("index of the message", "-i", "--index"),
    call="GET /getMessageIdByIndex",
    result=Result.MESSAGE_ID,
    cli=Verb("get-message-id-by-index", "show the id of a message by its index"),
)
TABLE.add(
    "read_entry",
    "GET /ledger/{ledger}/entry/{entry}",
    TOPIC_CONSUME,
    "One entry.",
    path("ledger_id", "its ledger", "-l", "--ledgerId", kind=Kind.NUMBER, wire="ledger"),
    path("entry_id", "its place in the ledger", "-e", "--entryId", kind=Kind.NUMBER, wire="entry"),
    result=Result.ENTRY,
    cli=Verb("get-message-by-id", "show an entry"),
    produces=(BYTES,),
)
TABLE.add(
    "examine",
    "GET /examinemessage",
    TOPIC_CONSUME,
    "The nth entry from the start or the end.",
    query("initial_position", default="latest").asked(
        "count from here (latest)", "-i", "--initialPosition", choices=("earliest", "latest")
    ),
    query("message_position", Kind.NUMBER, 1).asked(
        "how far, from 1 (1)", "-m", "--messagePosition"
    ),
    result=Result.ENTRY,
    cli=Verb("examine-messages", "show an entry counted from the start or the end"),
    produces=(BYTES,),
)
TABLE.add(
    "backlog_size",
    "PUT /backlogSize",
    TOPIC_CONSUME,
    "How many bytes were published after a message id.",
    body("position", Kind.MESSAGE_ID).asked(
        "earliest or ledger:entry (earliest)", "-m", "--messageId", preset="earliest"
    ),
    result=Result.NUMBER,
    cli=Verb("get-backlog-size", "show how many bytes follow a message"),
    status=200,
)
TABLE.add(
    "terminate",
    "POST /terminate",
    TOPIC_ADMIN,
    "Let nothing more be published; the answer is the last message id.",
    result=Result.MESSAGE_ID,
    cli=Verb("terminate", "refuse more messages for good, and show the last id"),
    status=200,
)
TABLE.add(
    "terminate_partitioned",
    "POST /terminate/partitions",
    TOPIC_ADMIN,
    "Let nothing more be published to any partition.",
    result=Result.MESSAGE_IDS,
    cli=Verb("partitioned-terminate", "refuse more messages on every partition for good"),
    status=200,
)
TABLE.add(
    "compact",
    "PUT /compaction",
    TOPIC_ADMIN,
    "Start to compact a topic.",
    cli=Verb("compact", "start a compaction"),
)
TABLE.add(
    "compaction_status",
    "GET /compaction",
    TOPIC_ADMIN,
    "How the last compaction went.",
    result=Answer(JobStatus),
    cli=Verb("compaction-status", "show how the last compaction went"),
)
TABLE.add(
    "offload",
    "PUT /offload",
    TOPIC_ADMIN,
    "Move old data to long-term storage; there is none yet.",
    body("until", Kind.MESSAGE_ID)._replace(missing="messageId is null"),
)
TABLE.compose(
    "offload_beyond",
    "Move whole ledgers until what stays is below a size.",
    local("size_threshold", Kind.NUMBER, REQUIRED).asked(
        "how much stays, such as 10M", "-s", "--size-threshold", reader=Reader.SIZE
    ),
    result=Result.TEXT,
    cli=Verb("offload", "move old ledgers to other storage"),
)
TABLE.add(
    "offload_status",
    "GET /offload",
    TOPIC_ADMIN,
    "How the last offload went.",
    result=Answer(JobStatus),
    cli=Verb("offload-status", "show how the last move went"),
)
TABLE.add(
    "trim",
    "POST /trim",
    TOPIC_ADMIN,
    "Remove what nobody needs any more.",
    cli=Verb("trim-topic", "drop what nobody needs"),
)
TABLE.add(
    "truncate",
    "DELETE /truncate",
    TOPIC_ADMIN,
    "Acknowledge and remove everything.",
    cli=Verb("truncate", "drop everything stored"),
)

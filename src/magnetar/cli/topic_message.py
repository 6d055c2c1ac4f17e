"""The verbs of `magnetar admin topics` that look at stored messages or change what is stored."""

from __future__ import annotations

from typing import Any, Final

from magnetar.cli.command import TOPIC, Flag, Options, Verb
from magnetar.cli.value import parse_datetime_ms, parse_size
from magnetar.client.admin.topic import StoredEntry
from magnetar.client.message_id import MessageId, parse_message_id


def _entry(entry: StoredEntry) -> dict[str, Any]:
    return {"id": entry.id, **entry.headers, "data": entry.data}


def _offload(admin: Any, options: Options) -> str:
    """Move whole ledgers until what stays is below the size."""
    stats = admin.topics.internal_stats(options.topic)
    ledgers = stats["ledgers"]
    if ledgers:
        ledgers[-1]["size"] = stats["currentLedgerSize"]
    kept = 0
    for place in range(len(ledgers) - 1, -1, -1):
        kept += ledgers[place]["size"]
        if kept > options.size_threshold and place < len(ledgers) - 1:
            admin.topics.offload(options.topic, MessageId(ledgers[place + 1]["ledgerId"], 0))
            return f"moving everything before ledger {ledgers[place + 1]['ledgerId']}"
    return "nothing to move"


VERBS: Final = (
    Verb(
        "last-message-id",
        "show the id of the last message",
        (TOPIC,),
        lambda a, o: a.topics.last_message_id(o.topic),
    ),
    Verb(
        "get-message-id",
        "show the id of the first message at or after a time",
        (
            TOPIC,
            Flag(("-d", "--datetime"), "such as 2024-01-31T12:00:00Z", parse_datetime_ms, True),
        ),
        lambda a, o: a.topics.message_id_at(o.topic, o.datetime),
    ),
    Verb(
        "get-message-id-by-index",
        "show the id of a message by its index",
        (TOPIC, Flag(("-i", "--index"), "index of the message", parse=int, required=True)),
        lambda a, o: a.topics.message_id_by_index(o.topic, o.index),
    ),
    Verb(
        "get-message-by-id",
        "show an entry",
        (
            TOPIC,
            Flag(("-l", "--ledgerId"), "its ledger", parse=int, required=True),
            Flag(("-e", "--entryId"), "its place in the ledger", parse=int, required=True),
        ),
        lambda a, o: _entry(a.topics.read_entry(o.topic, o.ledgerId, o.entryId)),
    ),
    Verb(
        "examine-messages",
        "show an entry counted from the start or the end",
        (
            TOPIC,
            Flag(
                ("-i", "--initialPosition"),
                "count from here (latest)",
                choices=("earliest", "latest"),
                default="latest",
            ),
            Flag(("-m", "--messagePosition"), "how far, from 1 (1)", parse=int, default=1),
        ),
        lambda a, o: _entry(
            a.topics.examine(
                o.topic, initial_position=o.initialPosition, message_position=o.messagePosition
            )
        ),
    ),
    Verb(
        "get-backlog-size",
        "show how many bytes follow a message",
        (
            TOPIC,
            Flag(
                ("-m", "--messageId"),
                "earliest or ledger:entry (earliest)",
                parse=parse_message_id,
                default=parse_message_id("earliest"),
            ),
        ),
        lambda a, o: a.topics.backlog_size(o.topic, o.messageId),
    ),
    Verb(
        "terminate",
        "refuse more messages for good, and show the last id",
        (TOPIC,),
        lambda a, o: a.topics.terminate(o.topic),
    ),
    Verb(
        "partitioned-terminate",
        "refuse more messages on every partition for good",
        (TOPIC,),
        lambda a, o: a.topics.terminate_partitioned(o.topic),
    ),
    Verb(
        "compact",
        "start a compaction",
        (TOPIC,),
        lambda a, o: a.topics.compact(o.topic),
        shows=False,
    ),
    Verb(
        "compaction-status",
        "show how the last compaction went",
        (TOPIC,),
        lambda a, o: a.topics.compaction_status(o.topic),
    ),
    Verb(
        "offload",
        "move old ledgers to other storage",
        (
            TOPIC,
            Flag(("-s", "--size-threshold"), "how much stays, such as 10M", parse_size, True),
        ),
        _offload,
    ),
    Verb(
        "offload-status",
        "show how the last move went",
        (TOPIC,),
        lambda a, o: a.topics.offload_status(o.topic),
    ),
    Verb(
        "trim-topic",
        "drop what nobody needs",
        (TOPIC,),
        lambda a, o: a.topics.trim(o.topic),
        shows=False,
    ),
    Verb(
        "truncate",
        "drop everything stored",
        (TOPIC,),
        lambda a, o: a.topics.truncate(o.topic),
        shows=False,
    ),
)

from __future__ import annotations

import pytest

from magnetar.model.position import Position
from magnetar.model.stored_log import CursorInfo, LedgerPart, LogInfo, Offload
from magnetar.rules.foreign import find_foreign_cursor, find_foreign_log, pending_ack_log

START = Position(1, -1)


@pytest.mark.parametrize(
    ("info", "reason"),
    [
        (LogInfo(), None),
        (LogInfo((LedgerPart(3, 1, 1, 1, Offload.COPIED),)), None),
        (LogInfo((LedgerPart(3, 1, 1, 1, Offload.MOVED),)), "ledger 3 was offloaded"),
        (LogInfo(properties={"migrated": "true"}), "migrated"),
        (LogInfo(properties={"migrated": "false", "index": "-1", "owner": "ann"}), None),
        (LogInfo(properties={"index": "60"}), "brokerEntryMetadataInterceptors"),
        (LogInfo(properties={"PULSAR.SHADOW_SOURCE": "x"}), "a shadow of x"),
    ],
)
def test_what_a_log_has_that_only_other_brokers_serve(info: LogInfo, reason: str | None) -> None:
    found = find_foreign_log(info)
    assert found is None if reason is None else found is not None and reason in found


@pytest.mark.parametrize(
    ("name", "info", "reason"),
    [
        ("s", CursorInfo(-1, START), None),
        ("pulsar.repl.east", CursorInfo(-1, START), "replicated to east"),
        ("pulsar.dedup", CursorInfo(-1, START, properties={"p": 4}), None),
        ("s", CursorInfo(-1, START, properties={"pulsar.replicated.subscription": 1}), "other"),
        (
            "s",
            CursorInfo(-1, START, cursor_properties={"#pulsar.internal.delayed.bucket_1_2": "3"}),
            "delayed messages",
        ),
    ],
)
def test_what_a_cursor_has_that_only_other_brokers_serve(
    name: str, info: CursorInfo, reason: str | None
) -> None:
    found = find_foreign_cursor(name, info)
    assert found is None if reason is None else found is not None and reason in found


def test_acknowledgements_in_transactions_stand_beside_their_topic() -> None:
    assert pending_ack_log("orders", "a b/1") == "orders-a+b%2F1__transaction_pending_ack"

from __future__ import annotations

import pytest

from magnetar.errors import LedgerCorrupt
from magnetar.ledger.belonging import (
    LedgerUse,
    UseKind,
    belongs_to_log,
    check_use,
    is_former_compacted,
    is_ours,
    parse_use,
)
from magnetar.ledger.store import LedgerInfo
from magnetar.model.position import EntryId, LedgerId, Term

TOPIC = "persistent://acme/shop/a b~ü"
SEGMENT = "segment://acme/shop/flow/0000-7fff-0"


def made_with(properties: dict[str, str]) -> LedgerInfo:
    return LedgerInfo(LedgerId(1), Term(1), True, EntryId(0), 1, properties)


@pytest.mark.parametrize(
    ("use", "properties"),
    [
        (
            LedgerUse(UseKind.LOG, TOPIC),
            {
                "application": "pulsar",
                "component": "managed-ledger",
                "pulsar/managed-ledger": "acme/shop/persistent/a+b%7E%C3%BC",
                "writer": "magnetar",
            },
        ),
        (
            LedgerUse(UseKind.LOG, SEGMENT, "sub one/2"),
            {
                "application": "pulsar",
                "component": "managed-ledger",
                "pulsar/managed-ledger": "acme/shop/segment/flow/0000-7fff-0",
                "pulsar/cursor": "sub+one%2F2",
                "writer": "magnetar",
            },
        ),
        (
            LedgerUse(UseKind.SCHEMA, "acme/shop/typed"),
            {"application": "pulsar", "component": "schema", "pulsar/schemaId": "acme/shop/typed"},
        ),
        (
            LedgerUse(UseKind.COMPACTED, TOPIC),
            {
                "application": "pulsar",
                "component": "compacted-ledger",
                "pulsar/compactedTopic": TOPIC,
            },
        ),
    ],
)
def test_a_ledger_says_what_it_is_for_as_pulsar_does(
    use: LedgerUse, properties: dict[str, str]
) -> None:
    assert use.format() == properties
    assert parse_use(properties) == use
    check_use(made_with(properties), use)


@pytest.mark.parametrize(
    ("properties", "use"),
    [
        ({"chain": TOPIC}, LedgerUse(UseKind.LOG, TOPIC)),
        ({"chain": TOPIC, "cursor": "s"}, LedgerUse(UseKind.LOG, TOPIC, "s")),
        ({"kind": "compacted", "topic": TOPIC}, LedgerUse(UseKind.COMPACTED, TOPIC)),
        ({}, None),
    ],
)
def test_ledgers_of_former_versions_are_known(
    properties: dict[str, str], use: LedgerUse | None
) -> None:
    assert parse_use(properties) == use
    assert is_former_compacted(properties) == ("topic" in properties)


def test_a_ledger_of_another_log_is_not_used() -> None:
    own = LedgerUse(UseKind.LOG, TOPIC)
    for other in (LedgerUse(UseKind.LOG, SEGMENT), LedgerUse(UseKind.COMPACTED, TOPIC)):
        info = made_with(other.format())
        assert not belongs_to_log(info, TOPIC)
        with pytest.raises(LedgerCorrupt, match="was made for"):
            check_use(info, own)
    cursor = made_with(LedgerUse(UseKind.LOG, TOPIC, "s").format())
    assert belongs_to_log(cursor, TOPIC)
    with pytest.raises(LedgerCorrupt):
        check_use(cursor, own)
    odd = made_with({"pulsar/managed-ledger": "what"})
    assert not belongs_to_log(odd, TOPIC)


def test_a_ledger_of_a_topic_says_which_kind_of_broker_wrote_it() -> None:
    ours = LedgerUse(UseKind.LOG, TOPIC).format()
    assert is_ours(made_with(ours))
    del ours["writer"]
    assert not is_ours(made_with(ours))

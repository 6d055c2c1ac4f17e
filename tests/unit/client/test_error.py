from __future__ import annotations

import pytest

from magnetar.client.error import (
    AdminConflict,
    AdminError,
    AdminNotFound,
    AdminServerFailed,
    NotFoundError,
    PulsarError,
    TransactionConflictError,
    TransactionError,
    UnavailableError,
    decode_refusal,
    decode_status,
)
from magnetar.client.retry import is_passing
from magnetar.errors import WireCode


@pytest.mark.parametrize("code", WireCode)
def test_every_code_of_the_broker_has_an_exception(code: WireCode) -> None:
    error = decode_refusal(code, "why")
    assert isinstance(error, PulsarError)
    assert (error.code, error.sentence) == (code, "why")
    assert decode_refusal(code, "").sentence


def test_a_code_from_the_future_may_pass_by_itself() -> None:
    error = decode_refusal(99, "")
    assert isinstance(error, UnavailableError) and is_passing(error)
    assert not is_passing(decode_refusal(WireCode.TOPIC_NOT_FOUND, ""))
    assert isinstance(decode_refusal(WireCode.TOPIC_NOT_FOUND, ""), NotFoundError)


def test_a_conflict_of_transactions_is_told_from_their_other_troubles() -> None:
    conflict = decode_refusal(WireCode.TRANSACTION_CONFLICT, "")
    assert isinstance(conflict, TransactionConflictError) and isinstance(conflict, TransactionError)
    other = decode_refusal(WireCode.TRANSACTION_NOT_FOUND, "")
    assert not isinstance(other, TransactionConflictError)


@pytest.mark.parametrize(
    ("status", "kind"),
    [(404, AdminNotFound), (409, AdminConflict), (503, AdminServerFailed), (418, AdminError)],
)
def test_a_status_has_its_exception(status: int, kind: type[AdminError]) -> None:
    error = decode_status(status, "why")
    assert type(error) is kind
    assert (error.status, error.reason, error.sentence) == (status, "why", "why")

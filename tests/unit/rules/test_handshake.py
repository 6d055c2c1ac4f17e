"""The states of a connection's credentials, without a socket or a clock."""

from __future__ import annotations

import pytest

from magnetar.errors import ProtocolViolation, Unauthenticated, Unauthorized, WireCode
from magnetar.model.caller import ANONYMOUS, Caller
from magnetar.rules.handshake import (
    Admit,
    Challenge,
    Close,
    Credentials,
    Identity,
    Lend,
    Prove,
    Refuse,
    Stage,
    Stay,
    apply_admission,
    apply_check,
    apply_refusal,
    apply_response,
    check_original,
    choose_judge,
)

ALICE = Caller("alice")
END_MS = 10_000


def admitted(**changes: object) -> Credentials:
    given = {"method": "token", "expires_ms": END_MS, "can_refresh": True, **changes}
    caller = given.pop("caller", ALICE)
    now, step = apply_admission(Credentials(), caller, **given)  # type: ignore[arg-type]
    assert step == Admit() and now.stage is Stage.ADMITTED
    return now


@pytest.mark.parametrize(
    ("method", "anonymous", "expected"),
    [
        ("token", "", Prove("token")),
        ("token", "guest", Prove("token")),
        ("none", "guest", Lend("guest")),
        ("sasl", "guest", Lend("guest")),
        ("", "guest", Lend("guest")),
    ],
)
def test_a_method_that_is_served_is_judged_and_another_is_none(
    method: str, anonymous: str, expected: Lend | Prove
) -> None:
    assert choose_judge(method, ("token", "tls"), anonymous) == expected


def test_without_an_anonymous_role_nobody_is_let_in_unproven() -> None:
    with pytest.raises(Unauthenticated, match="sent no credentials; the broker accepts token,"):
        choose_judge("none", ("token",), "")
    with pytest.raises(Unauthenticated, match=r"sent the method 's{40}'; the broker accepts"):
        choose_judge("s" * 5000, ("token", "tls"), "")


def test_nobody_connects_twice() -> None:
    with pytest.raises(ProtocolViolation, match="second CONNECT"):
        apply_admission(admitted(), ANONYMOUS)


def test_bad_credentials_are_the_end() -> None:
    for before in (Credentials(), admitted()):
        now, step = apply_refusal(before, Unauthenticated("the token has expired"))
        assert (now.stage, step) == (Stage.REFUSED, Refuse())
    _, step = apply_refusal(Credentials(), Unauthorized("Only a proxy may speak for another"))
    assert step == Refuse(WireCode.AUTHORIZATION, "Invalid roles.")


@pytest.mark.parametrize(
    ("caller", "may_repeat", "is_good"),
    [
        (Caller("alice"), False, True),
        (Caller("alice", "bob"), False, False),
        (Caller("alice", "bob"), True, False),
        (Caller("alice", "alice"), False, False),
        (Caller("alice", "alice"), True, True),
        (Caller("proxy", "alice"), False, True),
        (Caller("proxy"), False, False),
        (Caller("proxy", "proxy"), True, False),
        (Caller("proxy", "other"), True, False),
        (Caller("guest", "root", is_anonymous=True), False, False),
    ],
)
def test_only_a_proxy_speaks_for_another_and_it_must(
    caller: Caller, may_repeat: bool, is_good: bool
) -> None:
    try:
        check_original(caller, {"proxy", "other"}, may_repeat=may_repeat)
    except Unauthorized:
        assert not is_good
    else:
        assert is_good


@pytest.mark.parametrize(
    ("now", "at_ms", "expected"),
    [
        (Credentials(), END_MS, Stay()),
        (admitted(), END_MS - 1, Stay()),
        (admitted(expires_ms=None), 10**15, Stay()),
        (admitted(), END_MS, Challenge()),
        (
            admitted(can_refresh=False),
            END_MS,
            Close("its credentials ran out, and the client cannot refresh them"),
        ),
        (
            admitted(caller=Caller("proxy", "alice")),
            END_MS,
            Close("its credentials ran out, and a proxy cannot bring the client's"),
        ),
        (
            admitted(caller=Caller("proxy", "alice"), is_original_proven=True),
            END_MS,
            Challenge(),
        ),
    ],
)
def test_what_has_run_out_is_asked_for_again(
    now: Credentials, at_ms: int, expected: object
) -> None:
    assert apply_check(now, now_ms=at_ms)[1] == expected


def test_whoever_was_asked_has_until_the_next_check() -> None:
    asked, _ = apply_check(admitted(), now_ms=END_MS)
    assert asked.stage is Stage.ASKED
    gone, step = apply_check(asked, now_ms=END_MS + 1)
    assert gone.stage is Stage.REFUSED
    assert step == Close("its credentials ran out and were not refreshed in time")
    assert apply_check(gone, now_ms=END_MS + 2) == (gone, Stay())


def test_fresh_credentials_of_the_same_role_last_until_their_own_end() -> None:
    asked, _ = apply_check(admitted(), now_ms=END_MS)
    fresh, step = apply_response(asked, Identity("alice", 2 * END_MS))
    assert (fresh, step) == (admitted(expires_ms=2 * END_MS), Stay())
    assert apply_check(fresh, now_ms=END_MS)[1] == Stay()


def test_nobody_becomes_somebody_else_while_connected() -> None:
    now, step = apply_response(admitted(), Identity("root"))
    assert now.stage is Stage.REFUSED
    assert step == Close("the role cannot change while connected")


def test_behind_a_proxy_the_clients_own_role_must_stay() -> None:
    proxied = admitted(caller=Caller("proxy", "alice"), is_original_proven=True)
    assert apply_response(proxied, Identity("alice"))[1] == Stay()
    assert isinstance(apply_response(proxied, Identity("proxy"))[1], Close)


def test_fresh_credentials_before_the_first_break_the_protocol() -> None:
    refused, _ = apply_refusal(Credentials(), Unauthenticated("no"))
    for now in (Credentials(), refused):
        with pytest.raises(ProtocolViolation):
            apply_response(now, Identity("alice"))

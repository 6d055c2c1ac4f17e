"""What the claims of a token say."""

from __future__ import annotations

import math

import pytest

from magnetar.errors import Unauthenticated
from magnetar.rules.handshake import Identity
from magnetar.rules.token import TokenPolicy, decide_identity

NOW_MS = 1_000_000
PLAIN = TokenPolicy()


@pytest.mark.parametrize(
    ("claims", "policy", "expected"),
    [
        ({"sub": "alice"}, PLAIN, Identity("alice")),
        ({"sub": "alice", "exp": 1001}, PLAIN, Identity("alice", 1_001_000)),
        ({"sub": "alice", "exp": 1000.5}, PLAIN, Identity("alice", 1_000_500)),
        ({"sub": "alice", "nbf": 1000}, PLAIN, Identity("alice")),
        ({"sub": "x", "who": "bob"}, TokenPolicy(role_claim="who"), Identity("bob")),
        ({"who": ["bob", "eve"]}, TokenPolicy(role_claim="who"), Identity("bob")),
        (
            {"sub": "alice", "exp": 999},
            TokenPolicy(skew_ms=5000),
            Identity("alice", 1_004_000),
        ),
        (
            {"sub": "alice", "aud": "here"},
            TokenPolicy(audience_claim="aud", audience="here"),
            Identity("alice"),
        ),
        (
            {"sub": "alice", "aud": ["there", "here"]},
            TokenPolicy(audience_claim="aud", audience="here"),
            Identity("alice"),
        ),
    ],
)
def test_claims_that_hold_name_a_role(
    claims: dict[str, object], policy: TokenPolicy, expected: Identity
) -> None:
    assert decide_identity(claims, policy, now_ms=NOW_MS) == expected


@pytest.mark.parametrize(
    ("claims", "policy", "sentence"),
    [
        ({"sub": "alice", "exp": 1000}, PLAIN, "expired"),
        ({"sub": "alice", "exp": 0}, PLAIN, "expired"),
        ({"sub": "alice", "exp": -(10**30)}, PLAIN, "not a moment"),
        ({"sub": "alice", "exp": 10**400}, PLAIN, "not a moment"),
        ({"sub": "alice", "exp": 1e308}, PLAIN, "not a moment"),
        ({"sub": "alice", "exp": math.nan}, PLAIN, "not a moment"),
        ({"sub": "alice", "nbf": 1001}, PLAIN, "not valid yet"),
        ({"sub": "alice", "exp": "1001"}, PLAIN, "not a number"),
        ({"sub": "alice", "exp": True}, PLAIN, "not a number"),
        ({"sub": "alice", "exp": math.inf}, PLAIN, "not a moment"),
        ({}, PLAIN, "names no role"),
        ({"sub": ""}, PLAIN, "names no role"),
        ({"sub": 7}, PLAIN, "names no role"),
        ({"sub": []}, PLAIN, "names no role"),
        ({"sub": "a"}, TokenPolicy(audience_claim="aud", audience="here"), "not made for this"),
        (
            {"sub": "a", "aud": ["there"]},
            TokenPolicy(audience_claim="aud", audience="here"),
            "not made for this",
        ),
        (
            {"sub": "a", "aud": {"here": 1}},
            TokenPolicy(audience_claim="aud", audience="here"),
            "not made for this",
        ),
    ],
)
def test_claims_that_do_not_hold_are_refused(
    claims: dict[str, object], policy: TokenPolicy, sentence: str
) -> None:
    with pytest.raises(Unauthenticated, match=sentence):
        decide_identity(claims, policy, now_ms=NOW_MS)

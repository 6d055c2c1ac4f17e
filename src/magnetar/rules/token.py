"""What the claims of a signed token say: who, for whom, until when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from magnetar.errors import Unauthenticated
from magnetar.rules.handshake import Identity

_SECONDS_MAX: Final = 10**12


@dataclass(frozen=True, slots=True)
class TokenPolicy:
    role_claim: str = "sub"
    audience_claim: str = ""
    """Empty: the audience of a token is not checked."""
    audience: str = ""
    skew_ms: int = 0
    """How far the clocks of signer and broker may differ."""


def decide_identity(claims: Mapping[str, Any], policy: TokenPolicy, *, now_ms: int) -> Identity:
    starts_ms = _moment_ms(claims, "nbf")
    if starts_ms is not None and now_ms + policy.skew_ms < starts_ms:
        raise Unauthenticated("the token is not valid yet")
    expires_ms = _moment_ms(claims, "exp")
    if expires_ms is not None and now_ms >= expires_ms + policy.skew_ms:
        raise Unauthenticated("the token has expired")
    if policy.audience_claim:
        _check_audience(claims.get(policy.audience_claim), policy.audience)
    role = claims.get(policy.role_claim)
    if isinstance(role, list):
        role = role[0] if role else None
    if not isinstance(role, str) or not role:
        raise Unauthenticated(f"the token names no role in its claim {policy.role_claim}")
    return Identity(role, None if expires_ms is None else expires_ms + policy.skew_ms)


def _check_audience(found: Any, audience: str) -> None:
    audiences = found if isinstance(found, list) else [found]
    if audience not in audiences:
        raise Unauthenticated("the token was not made for this broker")


def _moment_ms(claims: Mapping[str, Any], name: str) -> int | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Unauthenticated(f"the token's {name} is not a number of seconds")
    if not -_SECONDS_MAX < value < _SECONDS_MAX:  # neither is what a float makes of 1e999
        raise Unauthenticated(f"the token's {name} is not a moment")
    return int(value * 1000)

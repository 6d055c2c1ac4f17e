"""Who may stay connected: the states of a connection's credentials, and what moves them.

START waits for CONNECT. ADMITTED is connected. ASKED was asked for fresh credentials and
has until the next check. REFUSED is over.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, TypeAlias

from magnetar.errors import (
    BrokerError,
    ProtocolViolation,
    TooManyRequests,
    Unauthenticated,
    Unauthorized,
    WireCode,
    fault_of,
)
from magnetar.model.caller import ANONYMOUS, Caller

_SHOWN_MAX: Final = 40
"""Of the name of a method that a client made up."""


class Stage(Enum):
    START = "start"
    ADMITTED = "admitted"
    ASKED = "asked"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Identity:
    """What a credential proved, and until when."""

    role: str
    expires_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Credentials:
    """A connection's credentials over time."""

    stage: Stage = Stage.START
    caller: Caller = ANONYMOUS
    method: str = ""
    """Which provider judged, and will judge fresh ones; empty when none did."""
    expires_ms: int | None = None
    can_refresh: bool = False
    is_original_proven: bool = False
    """Whether fresh credentials are those of whom a proxy speaks for."""


@dataclass(frozen=True, slots=True)
class Admit:
    """Answer CONNECTED."""


@dataclass(frozen=True, slots=True)
class Challenge:
    """Ask for fresh credentials."""


@dataclass(frozen=True, slots=True)
class Stay:
    """Nothing to do."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """Tell the client, then close."""

    code: WireCode = WireCode.AUTHENTICATION
    sentence: str = "Failed to authenticate"


@dataclass(frozen=True, slots=True)
class Close:
    reason: str


Step: TypeAlias = Admit | Challenge | Stay | Refuse | Close
Turn: TypeAlias = tuple[Credentials, Step]


@dataclass(frozen=True, slots=True)
class Lend:
    """No credential is required: grant the anonymous role."""

    role: str


@dataclass(frozen=True, slots=True)
class Prove:
    """Have this method's provider judge what came."""

    method: str


def choose_judge(method: str, methods: Collection[str], anonymous_role: str) -> Lend | Prove:
    """A method without a provider is no credential, as Pulsar reads it."""
    if method in methods:
        return Prove(method)
    if anonymous_role:
        return Lend(anonymous_role)
    sent = (
        f"the method {method[:_SHOWN_MAX]!r}" if method and method != "none" else "no credentials"
    )
    raise Unauthenticated(
        f"The client sent {sent}; the broker accepts {', '.join(methods)}, and no anonymous client"
    )


def apply_admission(
    now: Credentials,
    caller: Caller,
    *,
    method: str = "",
    expires_ms: int | None = None,
    can_refresh: bool = False,
    is_original_proven: bool = False,
) -> Turn:
    """CONNECT, and what it brought is good."""
    if now.stage is not Stage.START:
        raise ProtocolViolation("a second CONNECT")
    admitted = Credentials(
        Stage.ADMITTED, caller, method, expires_ms, can_refresh, is_original_proven
    )
    return admitted, Admit()


def apply_refusal(now: Credentials, refusal: BrokerError) -> Turn:
    """CONNECT or AUTH_RESPONSE, and what it brought is not good; the client learns no more."""
    step = Refuse()
    if isinstance(refusal, Unauthorized):
        step = Refuse(fault_of(refusal).code, "Invalid roles.")
    elif isinstance(refusal, TooManyRequests):  # nothing was judged, and the client may try again
        step = Refuse(fault_of(refusal).code, refusal.sentence)
    return replace(now, stage=Stage.REFUSED), step


def check_original(caller: Caller, proxy_roles: Collection[str], *, may_repeat: bool) -> None:
    """Raise Unauthorized unless only a proxy names an original role, and one that is no proxy's.

    With `may_repeat` a caller may name its own role, as clients do over HTTP.
    """
    original = caller.original_role
    if caller.role in proxy_roles:
        if original is None:
            raise Unauthorized("A proxy must say whom it speaks for")
        if original in proxy_roles:
            raise Unauthorized("A proxy cannot speak for a proxy")
    elif original is not None and not (may_repeat and original == caller.role):
        raise Unauthorized("Only a proxy may speak for another")


def apply_response(now: Credentials, fresh: Identity) -> Turn:
    """AUTH_RESPONSE, asked for or not, and what it brought is good: of the same role, only."""
    if now.stage not in (Stage.ADMITTED, Stage.ASKED):
        raise ProtocolViolation("an AUTH_RESPONSE before CONNECTED")
    known = now.caller.original_role if now.is_original_proven else now.caller.role
    if fresh.role != known:
        return _close(now, "the role cannot change while connected")
    return replace(now, stage=Stage.ADMITTED, expires_ms=fresh.expires_ms), Stay()


def apply_check(now: Credentials, *, now_ms: int) -> Turn:
    """Time has passed: what has run out is asked for again, once."""
    if now.stage in (Stage.START, Stage.REFUSED):
        return now, Stay()
    if now.expires_ms is None or now_ms < now.expires_ms:
        return now, Stay()
    if now.caller.original_role is not None and not now.is_original_proven:
        return _close(now, "its credentials ran out, and a proxy cannot bring the client's")
    if not now.can_refresh:
        return _close(now, "its credentials ran out, and the client cannot refresh them")
    if now.stage is Stage.ASKED:
        return _close(now, "its credentials ran out and were not refreshed in time")
    return replace(now, stage=Stage.ASKED), Challenge()


def _close(now: Credentials, reason: str) -> Turn:
    return replace(now, stage=Stage.REFUSED), Close(reason)

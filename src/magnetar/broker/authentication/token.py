"""Tokens: JWTs that a secret or a private key signed."""

from __future__ import annotations

from typing import Any, Final

from magnetar.broker.authentication.provider import Credential
from magnetar.errors import InvalidConfiguration, Unauthenticated
from magnetar.rules.handshake import Identity
from magnetar.rules.token import TokenPolicy, decide_identity
from magnetar.runtime.configuration import Configuration
from magnetar.runtime.credential import load_credential
from magnetar.wire.jwt import (
    PAIR_ALGORITHMS,
    SecretKey,
    VerifyKey,
    parse_public_key,
    verify_token,
)

_PREFIX: Final = "Bearer "
_SUBJECT: Final = "sub"


class TokenProvider:
    method: Final = "token"

    def __init__(self, key: VerifyKey, policy: TokenPolicy) -> None:
        self._key = key
        self._policy = policy

    def is_slow(self, credential: Credential) -> bool:
        """A signature takes a tenth of a millisecond, with the longest keys one or two."""
        return False

    def authenticate(self, credential: Credential, *, now_ms: int) -> Identity:
        claims: Any = verify_token(_token_of(credential), self._key)
        return decide_identity(claims, self._policy, now_ms=now_ms)


def _token_of(credential: Credential) -> str:
    if credential.data is not None:
        try:
            token = credential.data.decode("ascii").strip()
        except UnicodeDecodeError:
            raise Unauthenticated("the token is not ASCII") from None
    elif credential.header is not None and credential.header.startswith(_PREFIX):
        token = credential.header.removeprefix(_PREFIX).strip()
    else:
        raise Unauthenticated("Invalid HTTP Authorization header")
    if not token:
        raise Unauthenticated("Blank token found")
    return token


def make_token_provider(config: Configuration) -> TokenProvider:
    if config.tokenAudienceClaim and not config.tokenAudience:
        raise InvalidConfiguration("tokenAudienceClaim needs tokenAudience: who this broker is")
    return TokenProvider(
        _load_key(config),
        TokenPolicy(
            role_claim=config.tokenAuthClaim or _SUBJECT,
            audience_claim=config.tokenAudienceClaim,
            audience=config.tokenAudience,
            skew_ms=1000 * config.tokenAllowedClockSkewSeconds,
        ),
    )


def _load_key(config: Configuration) -> VerifyKey:
    if config.tokenSecretKey:
        secret = load_credential("tokenSecretKey", config.tokenSecretKey)
        try:
            return SecretKey(secret)
        except InvalidConfiguration as error:
            raise InvalidConfiguration(f"tokenSecretKey: {error.sentence}") from None
    if not config.tokenPublicKey:
        raise InvalidConfiguration(
            "the token provider needs tokenSecretKey or tokenPublicKey to judge tokens by"
        )
    wanted = config.tokenPublicAlg
    if wanted and wanted not in PAIR_ALGORITHMS:
        known = ", ".join(PAIR_ALGORITHMS)
        raise InvalidConfiguration(f"tokenPublicAlg is one of {known}, not {wanted}")
    try:
        key = parse_public_key(load_credential("tokenPublicKey", config.tokenPublicKey))
    except InvalidConfiguration as error:
        raise InvalidConfiguration(f"tokenPublicKey: {error.sentence}") from None
    if wanted and wanted[:2] != key.algorithms[0][:2]:
        raise InvalidConfiguration(
            f"tokenPublicKey is a key for {', '.join(key.algorithms)}, not for {wanted}"
        )
    return key

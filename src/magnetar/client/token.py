"""Tokens and their keys, made and read where no broker is asked."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from magnetar.errors import InvalidConfiguration
from magnetar.rules.token import TokenPolicy, decide_identity
from magnetar.runtime.credential import load_credential
from magnetar.wire.jwt import (
    PAIR_ALGORITHMS,
    SECRET_ALGORITHMS,
    PublicKey,
    SecretKey,
    SignKey,
    VerifyKey,
    parse_private_key,
    parse_public_key,
    peek_token,
    sign_token,
    verify_token,
)

ALGORITHMS: Final = (*SECRET_ALGORITHMS, *PAIR_ALGORITHMS)
_CURVES: Final = {"ES256": "SECP256R1", "ES384": "SECP384R1", "ES512": "SECP521R1"}
_RSA_BITS: Final = {"RS256": 2048, "RS384": 3072, "RS512": 4096}


class KeyPair(NamedTuple):
    """Both as DER: PKCS 8, and SubjectPublicKeyInfo."""

    private: bytes
    public: bytes


def make_secret_key(algorithm: str = "HS256") -> bytes:
    """As many random bytes as the algorithm can use."""
    if algorithm not in SECRET_ALGORITHMS:
        raise InvalidConfiguration(
            f"a secret key serves {', '.join(SECRET_ALGORITHMS)}, not {algorithm}"
        )
    return secrets.token_bytes(int(algorithm[2:]) // 8)


def make_key_pair(algorithm: str = "RS256") -> KeyPair:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec, rsa
    except ImportError:
        raise InvalidConfiguration(
            "key pairs need another package: pip install 'magnetar[encryption]'"
        ) from None
    key: Any
    if algorithm in _CURVES:
        key = ec.generate_private_key(getattr(ec, _CURVES[algorithm])())
    elif algorithm in _RSA_BITS:
        key = rsa.generate_private_key(public_exponent=65537, key_size=_RSA_BITS[algorithm])
    else:
        raise InvalidConfiguration(
            f"a key pair serves {', '.join(PAIR_ALGORITHMS)}, not {algorithm}"
        )
    encoding = serialization.Encoding.DER
    private = key.private_bytes(
        encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    spki = serialization.PublicFormat.SubjectPublicKeyInfo
    return KeyPair(private, key.public_key().public_bytes(encoding, spki))


def load_sign_key(*, secret_key: str | None, private_key: str | None) -> SignKey:
    """Where the keys are: a path, a file: or data: URL, env:NAME, or base64; exactly one."""
    if (secret_key is None) == (private_key is None):
        raise InvalidConfiguration("one of a secret key and a private key is needed")
    if secret_key is not None:
        return SecretKey(load_credential("the secret key", secret_key))
    assert private_key is not None
    return parse_private_key(load_credential("the private key", private_key))


def load_verify_key(*, secret_key: str | None, public_key: str | None) -> VerifyKey:
    if (secret_key is None) == (public_key is None):
        raise InvalidConfiguration("one of a secret key and a public key is needed")
    if secret_key is not None:
        return SecretKey(load_credential("the secret key", secret_key))
    assert public_key is not None
    return parse_public_key(load_credential("the public key", public_key))


def create_token(
    subject: str,
    key: SignKey,
    *,
    expires_s: int | None = None,
    audience: str | None = None,
    algorithm: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> str:
    """`expires_s` is when, in seconds since 1970; None makes a token that never ends."""
    if not subject:
        raise InvalidConfiguration("a token needs a subject: the role it proves")
    claims: dict[str, Any] = {"sub": subject}
    if expires_s is not None:
        claims["exp"] = expires_s
    if audience is not None:
        claims["aud"] = audience
    return sign_token(claims, key, algorithm=algorithm, header=headers)


def validate_token(token: str, key: SecretKey | PublicKey, *, now_ms: int) -> Mapping[str, Any]:
    """The claims; raise Unauthenticated for a token that a broker with this key would refuse."""
    claims = verify_token(token, key)
    decide_identity(claims, TokenPolicy(), now_ms=now_ms)
    return claims


def read_token(token: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Header and claims as they stand there, proven by nothing."""
    return peek_token(token)

"""Signed tokens (JWT, RFC 7519): made, and read without trusting a byte before its signature.

PyJWT signs and verifies. The key says which algorithms it serves, never the token alone: a public
key is no HMAC secret, and `none` is no algorithm.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from magnetar.errors import InvalidConfiguration, Unauthenticated
from magnetar.model.document import decode_json

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import (
        EllipticCurvePrivateKey,
        EllipticCurvePublicKey,
    )
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
    from jwt.algorithms import Algorithm

Claims: TypeAlias = Mapping[str, Any]

TOKEN_BYTES_MAX: Final = 16 * 1024
SECRET_BYTES_MIN: Final = 32
_RSA_BITS_MIN: Final = 2048
_PART: Final = re.compile(r"[A-Za-z0-9_-]+")
_CURVES: Final = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
_RSA_ALGORITHMS: Final = ("RS256", "RS384", "RS512")
SECRET_ALGORITHMS: Final = ("HS256", "HS384", "HS512")
PAIR_ALGORITHMS: Final = (*_RSA_ALGORITHMS, *_CURVES.values())


@dataclass(frozen=True, slots=True)
class SecretKey:
    """What signs and what verifies, in one."""

    key: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.key) < SECRET_BYTES_MIN:
            raise InvalidConfiguration(f"a secret key has {SECRET_BYTES_MIN} bytes or more")
        library = _library()
        try:
            if b"-----BEGIN" not in self.key:
                _algorithm("HS256").prepare_key(self.key)
                return
        except library.InvalidKeyError:
            pass
        # The public half of a pair is known to others, who could sign with it.
        raise InvalidConfiguration("a secret key is random bytes, not a key in PEM, DER or JWK")

    @property
    def algorithms(self) -> tuple[str, ...]:
        """Those whose digest is no longer than the key."""
        return tuple(name for name in SECRET_ALGORITHMS if 8 * len(self.key) >= int(name[2:]))


@dataclass(frozen=True, slots=True)
class PublicKey:
    key: RSAPublicKey | EllipticCurvePublicKey = field(repr=False)
    algorithms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PrivateKey:
    key: RSAPrivateKey | EllipticCurvePrivateKey = field(repr=False)
    algorithms: tuple[str, ...]


VerifyKey: TypeAlias = SecretKey | PublicKey
SignKey: TypeAlias = SecretKey | PrivateKey


def _library() -> ModuleType:
    """PyJWT, which comes with an extra: clients pass tokens on as they are."""
    try:
        import jwt
    except ImportError:
        raise InvalidConfiguration(
            "signing and checking tokens needs another package: pip install 'magnetar[cli]'"
        ) from None
    return jwt


def _algorithm(name: str) -> Algorithm:
    algorithm: Algorithm = _library().get_algorithm_by_name(name)
    return algorithm


# ---------------------------------------------------------------------- reading


def verify_token(token: str, key: VerifyKey) -> Claims:
    """The claims of a token that this key's owner signed; whether they still hold is not asked."""
    head, body, tail = _split(token)
    algorithm = _check_header(_decode_object(head, "header"))
    signature = _decode_part(tail)
    if algorithm not in key.algorithms:
        if isinstance(key, SecretKey) and algorithm in SECRET_ALGORITHMS:
            raise Unauthenticated(f"the secret key is too short for {algorithm}")
        raise Unauthenticated(f"this key does not serve the algorithm {algorithm!r}")
    if not _algorithm(algorithm).verify(f"{head}.{body}".encode(), key.key, signature):
        raise Unauthenticated("the signature does not match")
    return _decode_object(body, "content")


def peek_token(token: str) -> tuple[Claims, Claims]:
    """Header and claims as they stand there, proven by nothing."""
    head, body, _ = _split(token)
    return _decode_object(head, "header"), _decode_object(body, "content")


def _split(token: str) -> list[str]:
    if len(token) > TOKEN_BYTES_MAX:
        raise Unauthenticated(f"a token has at most {TOKEN_BYTES_MAX} characters")
    parts = token.split(".")
    if len(parts) != 3:
        raise Unauthenticated("a signed token has three parts")
    return parts


def _check_header(header: Claims) -> str:
    algorithm = header.get("alg")
    if not isinstance(algorithm, str):
        raise Unauthenticated("the header names no algorithm")
    for name in ("crit", "zip", "b64"):
        if name in header:
            raise Unauthenticated(f"the header asks for {name}, which is not understood")
    return algorithm


def _decode_object(part: str, what: str) -> Claims:
    try:
        value = decode_json(_decode_part(part))
    except (msgspec.DecodeError, RecursionError):
        raise Unauthenticated(f"the {what} is not JSON") from None
    if not isinstance(value, dict):
        raise Unauthenticated(f"the {what} is not a JSON object")
    return value


def _decode_part(part: str) -> bytes:
    if _PART.fullmatch(part) is None:
        raise Unauthenticated("a part is empty or not base64url")
    try:
        return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
    except binascii.Error:
        raise Unauthenticated("a part is not base64url") from None


# ---------------------------------------------------------------------- making


def sign_token(
    claims: Claims,
    key: SignKey,
    *,
    algorithm: str | None = None,
    header: Mapping[str, str] | None = None,
) -> str:
    """A token; without a wish the strongest algorithm a secret allows, or the key's first."""
    known = key.algorithms
    chosen = algorithm or known[-1 if isinstance(key, SecretKey) else 0]
    if chosen not in known:
        raise InvalidConfiguration(f"this key does not serve {chosen}, only {', '.join(known)}")
    head = _encode_part(msgspec.json.encode({**(header or {}), "alg": chosen}))
    content = f"{head}.{_encode_part(msgspec.json.encode(claims))}"
    return f"{content}.{_encode_part(_algorithm(chosen).sign(content.encode(), key.key))}"


def _encode_part(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


# ---------------------------------------------------------------------- keys


def parse_public_key(data: bytes) -> PublicKey:
    """An RSA or EC key in DER or PEM."""
    key = _load_key("public", data)
    return PublicKey(key, _algorithms_of(key))


def parse_private_key(data: bytes) -> PrivateKey:
    """An RSA or EC key in PKCS 8, DER or PEM, without a password."""
    key = _load_key("private", data, None)
    return PrivateKey(key, _algorithms_of(key))


def _load_key(half: str, data: bytes, *password: None) -> Any:
    """PyJWT reads PEM only; key files of Pulsar's tools are DER."""
    try:
        from cryptography.hazmat.primitives import serialization
    except ImportError:
        raise InvalidConfiguration(
            "RSA and EC keys need another package: pip install 'magnetar[encryption]'"
        ) from None
    form = "pem" if data.lstrip().startswith(b"-----BEGIN") else "der"
    try:
        return getattr(serialization, f"load_{form}_{half}_key")(data, *password)
    except Exception as error:  # the library raises half a dozen kinds for bad bytes
        raise InvalidConfiguration(
            f"the {half} key cannot be read: {type(error).__name__}"
        ) from None


def _algorithms_of(key: Any) -> tuple[str, ...]:
    curve = getattr(getattr(key, "curve", None), "name", None)
    if curve is not None:
        if curve not in _CURVES:
            raise InvalidConfiguration(f"no algorithm of tokens uses the curve {curve}")
        return (_CURVES[curve],)
    if type(key).__name__ not in ("RSAPublicKey", "RSAPrivateKey"):
        raise InvalidConfiguration("a key of tokens is an RSA or an EC key")
    if key.key_size < _RSA_BITS_MIN:
        raise InvalidConfiguration(f"an RSA key has {_RSA_BITS_MIN} bits or more")
    return _RSA_ALGORITHMS

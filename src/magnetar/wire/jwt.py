"""Signed tokens (JWT, RFC 7519): made, and read without trusting a byte before its signature.

The key says which algorithms it serves, never the token alone: a public key is no HMAC secret,
and `none` is no algorithm.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from magnetar.errors import InvalidConfiguration, Unauthenticated

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import (
        EllipticCurvePrivateKey,
        EllipticCurvePublicKey,
    )
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey

Claims: TypeAlias = Mapping[str, Any]

TOKEN_BYTES_MAX: Final = 16 * 1024
SECRET_BYTES_MIN: Final = 32
_RSA_BITS_MIN: Final = 2048
_PART: Final = re.compile(r"[A-Za-z0-9_-]+")
_CURVES: Final = {
    "ES256": ("secp256r1", 32),
    "ES384": ("secp384r1", 48),
    "ES512": ("secp521r1", 66),
}
_HASHES: Final[Mapping[str, Callable[..., Any]]] = {
    "HS256": hashlib.sha256,
    "HS384": hashlib.sha384,
    "HS512": hashlib.sha512,
}
SECRET_ALGORITHMS: Final = tuple(_HASHES)
PAIR_ALGORITHMS: Final = ("RS256", "RS384", "RS512", *_CURVES)
_MISSING: Final = "RSA and EC keys need another package: pip install 'magnetar[encryption]'"


@dataclass(frozen=True, slots=True)
class SecretKey:
    """What signs and what verifies, in one."""

    octets: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.octets) < SECRET_BYTES_MIN:
            raise InvalidConfiguration(f"a secret key has {SECRET_BYTES_MIN} bytes or more")
        if b"-----BEGIN" in self.octets:  # whoever has the public half could sign with it
            raise InvalidConfiguration("a secret key is random bytes, not a key in PEM")


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


# ---------------------------------------------------------------------- reading


def verify_token(token: str, key: VerifyKey) -> Claims:
    """The claims of a token that this key's owner signed; whether they still hold is not asked."""
    if len(token) > TOKEN_BYTES_MAX:
        raise Unauthenticated(f"a token has at most {TOKEN_BYTES_MAX} characters")
    parts = token.split(".")
    if len(parts) != 3:
        raise Unauthenticated("a signed token has three parts")
    head, body, tail = parts
    algorithm = _check_header(_decode_object(head, "header"))
    if not _is_signed(algorithm, key, f"{head}.{body}".encode(), _decode_part(tail)):
        raise Unauthenticated("the signature does not match")
    return _decode_object(body, "content")


def peek_token(token: str) -> tuple[Claims, Claims]:
    """Header and claims as they stand there, proven by nothing."""
    parts = token.split(".")
    if len(token) > TOKEN_BYTES_MAX or len(parts) != 3:
        raise Unauthenticated("a signed token has three parts")
    return _decode_object(parts[0], "header"), _decode_object(parts[1], "content")


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
        value = msgspec.json.decode(_decode_part(part))
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


def _is_signed(algorithm: str, key: VerifyKey, content: bytes, signature: bytes) -> bool:
    match key:
        case SecretKey(octets):
            return hmac.compare_digest(_mac(algorithm, octets, content), signature)
        case PublicKey(public, algorithms):
            if algorithm not in algorithms:
                raise Unauthenticated(f"this key does not serve the algorithm {algorithm!r}")
            return _is_pair_signed(algorithm, public, content, signature)


def _mac(algorithm: str, secret: bytes, content: bytes) -> bytes:
    make = _HASHES.get(algorithm)
    if make is None:
        raise Unauthenticated(f"this key does not serve the algorithm {algorithm!r}")
    if len(secret) < make().digest_size:
        raise Unauthenticated(f"the secret key is too short for {algorithm}")
    return hmac.new(secret, content, make).digest()


def _is_pair_signed(algorithm: str, key: Any, content: bytes, signature: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric import ec, padding
    from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

    digest = _digest(algorithm)
    try:
        if algorithm in _CURVES:
            size = _CURVES[algorithm][1]
            if len(signature) != 2 * size:
                return False
            r, s = signature[:size], signature[size:]
            encoded = encode_dss_signature(int.from_bytes(r, "big"), int.from_bytes(s, "big"))
            key.verify(encoded, content, ec.ECDSA(digest))
        else:
            key.verify(signature, content, padding.PKCS1v15(), digest)
    except InvalidSignature:
        return False
    return True


def _digest(algorithm: str) -> Any:
    from cryptography.hazmat.primitives import hashes

    kinds: Mapping[str, Callable[[], Any]] = {
        "256": hashes.SHA256,
        "384": hashes.SHA384,
        "512": hashes.SHA512,
    }
    return kinds[algorithm[2:]]()


# ---------------------------------------------------------------------- making


def sign_token(
    claims: Claims,
    key: SignKey,
    *,
    algorithm: str | None = None,
    header: Mapping[str, str] | None = None,
) -> str:
    """A token; without a wish the strongest algorithm a secret allows, or the key's first."""
    if isinstance(key, SecretKey):
        known = [name for name, make in _HASHES.items() if len(key.octets) >= make().digest_size]
        chosen = algorithm or known[-1]
    else:
        known = list(key.algorithms)
        chosen = algorithm or known[0]
    if chosen not in known:
        raise InvalidConfiguration(f"this key does not serve {chosen}, only {', '.join(known)}")
    head = _encode_part(msgspec.json.encode({**(header or {}), "alg": chosen}))
    content = f"{head}.{_encode_part(msgspec.json.encode(claims))}"
    if isinstance(key, SecretKey):
        signature = _mac(chosen, key.octets, content.encode())
    else:
        signature = _sign_pair(chosen, key.key, content.encode())
    return f"{content}.{_encode_part(signature)}"


def _encode_part(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _sign_pair(algorithm: str, key: Any, content: bytes) -> bytes:
    from cryptography.hazmat.primitives.asymmetric import ec, padding
    from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

    digest = _digest(algorithm)
    if algorithm not in _CURVES:
        signature: bytes = key.sign(content, padding.PKCS1v15(), digest)
        return signature
    size = _CURVES[algorithm][1]
    r, s = decode_dss_signature(key.sign(content, ec.ECDSA(digest)))
    return r.to_bytes(size, "big") + s.to_bytes(size, "big")


# ---------------------------------------------------------------------- keys


def parse_public_key(data: bytes) -> PublicKey:
    """An RSA or EC key in DER or PEM."""
    try:
        from cryptography.hazmat.primitives import serialization
    except ImportError:
        raise InvalidConfiguration(_MISSING) from None
    try:
        if data.lstrip().startswith(b"-----BEGIN"):
            key: Any = serialization.load_pem_public_key(data)
        else:
            key = serialization.load_der_public_key(data)
    except Exception as error:  # the library raises half a dozen kinds for bad bytes
        raise InvalidConfiguration(
            f"the public key cannot be read: {type(error).__name__}"
        ) from None
    return PublicKey(key, _algorithms_of(key))


def parse_private_key(data: bytes) -> PrivateKey:
    """An RSA or EC key in PKCS 8, DER or PEM, without a password."""
    try:
        from cryptography.hazmat.primitives import serialization
    except ImportError:
        raise InvalidConfiguration(_MISSING) from None
    try:
        if data.lstrip().startswith(b"-----BEGIN"):
            key: Any = serialization.load_pem_private_key(data, None)
        else:
            key = serialization.load_der_private_key(data, None)
    except Exception as error:  # the library raises half a dozen kinds for bad bytes
        raise InvalidConfiguration(
            f"the private key cannot be read: {type(error).__name__}"
        ) from None
    return PrivateKey(key, _algorithms_of(key))


def _algorithms_of(key: Any) -> tuple[str, ...]:
    curve = getattr(getattr(key, "curve", None), "name", None)
    if curve is not None:
        found = tuple(name for name, (known, _) in _CURVES.items() if known == curve)
        if not found:
            raise InvalidConfiguration(f"no algorithm of tokens uses the curve {curve}")
        return found
    if type(key).__name__ not in ("RSAPublicKey", "RSAPrivateKey"):
        raise InvalidConfiguration("a key of tokens is an RSA or an EC key")
    if key.key_size < _RSA_BITS_MIN:
        raise InvalidConfiguration(f"an RSA key has {_RSA_BITS_MIN} bits or more")
    return ("RS256", "RS384", "RS512")

"""Signed tokens: what is taken, and all that is not."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json

import pytest

from magnetar.cli.token import KeyPair, make_key_pair, make_secret_key
from magnetar.errors import InvalidConfiguration, Unauthenticated
from magnetar.wire.jwt import (
    TOKEN_BYTES_MAX,
    SecretKey,
    parse_private_key,
    parse_public_key,
    peek_token,
    sign_token,
    verify_token,
)

SECRET = SecretKey(b"k" * 64)
CLAIMS = {"sub": "alice"}
PAIRS: dict[str, KeyPair] = {}


def pair_of(algorithm: str) -> KeyPair:
    """RSA keys are slow to make: one for all their algorithms."""
    name = "RS256" if algorithm.startswith("RS") else algorithm
    if name not in PAIRS:
        PAIRS[name] = make_key_pair(name)
    return PAIRS[name]


def encode(value: object) -> str:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def forge(header: object, claims: object = CLAIMS, key: bytes = SECRET.key) -> str:
    """Sign anything with HMAC, as somebody would who does not use our code."""
    content = f"{encode(header)}.{encode(claims)}"
    return f"{content}.{encode(hmac.digest(key, content.encode(), hashlib.sha256))}"


@pytest.mark.parametrize("algorithm", ["HS256", "HS384", "HS512"])
def test_a_secret_proves_what_it_signed(algorithm: str) -> None:
    token = sign_token(CLAIMS, SECRET, algorithm=algorithm)
    assert verify_token(token, SECRET) == CLAIMS
    assert peek_token(token)[0]["alg"] == algorithm
    with pytest.raises(Unauthenticated, match="does not match"):
        verify_token(token, SecretKey(b"K" * 64))


@pytest.mark.parametrize("algorithm", ["RS256", "RS384", "RS512", "ES256", "ES384", "ES512"])
def test_a_public_key_proves_what_its_private_half_signed(algorithm: str) -> None:
    pair = pair_of(algorithm)
    key = parse_public_key(pair.public)
    token = sign_token(CLAIMS, parse_private_key(pair.private), algorithm=algorithm)
    assert verify_token(token, key) == CLAIMS
    head, body, tail = token.split(".")
    for changed in (
        f"{head}.{encode({'sub': 'mallory'})}.{tail}",
        f"{head}.{body}.{encode(b'0' * 64)}",
        f"{head}.{body}.{encode(b'0')}",
    ):
        with pytest.raises(Unauthenticated, match="does not match"):
            verify_token(changed, key)


def test_the_token_of_the_standard_is_read() -> None:
    """RFC 7515, appendix A.1."""
    token = (
        "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9"
        ".eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290"
        "Ijp0cnVlfQ"
        ".dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
    )
    key = "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow"
    claims = verify_token(token, SecretKey(base64.urlsafe_b64decode(key + "==")))
    assert claims["iss"] == "joe"


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "", "HS1", "hs256", None, 7])
def test_no_algorithm_but_the_keys_own_is_taken(algorithm: object) -> None:
    header = {"typ": "JWT", "alg": algorithm}
    unsigned = f"{encode(header)}.{encode(CLAIMS)}."
    for token in (unsigned, unsigned + encode(b"x"), forge(header)):
        with pytest.raises(Unauthenticated):
            verify_token(token, SECRET)


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
def test_a_public_key_is_no_secret(algorithm: str) -> None:
    """The classic: whoever knows the public key signs with it as if it were a secret."""
    public = pair_of(algorithm).public
    key = parse_public_key(public)
    pem = b"-----BEGIN PUBLIC KEY-----\n" + base64.encodebytes(public) + b"-----END PUBLIC KEY-----"
    for octets in (public, pem):
        with pytest.raises(Unauthenticated, match="does not serve the algorithm 'HS256'"):
            verify_token(forge({"alg": "HS256"}, key=octets), key)
    with pytest.raises(InvalidConfiguration, match="not a key in PEM"):
        SecretKey(pem)


def test_a_key_serves_its_own_family_only() -> None:
    token = sign_token(CLAIMS, parse_private_key(pair_of("ES256").private))
    with pytest.raises(Unauthenticated, match="does not serve"):
        verify_token(token, parse_public_key(pair_of("RS256").public))
    with pytest.raises(Unauthenticated, match="does not serve"):
        verify_token(token, parse_public_key(pair_of("ES384").public))
    with pytest.raises(Unauthenticated, match="does not serve"):
        verify_token(token, SECRET)


@pytest.mark.parametrize("name", ["crit", "zip", "b64"])
def test_a_header_that_changes_the_rules_is_refused(name: str) -> None:
    with pytest.raises(Unauthenticated, match=f"asks for {name}"):
        verify_token(forge({"alg": "HS256", name: ["x"]}), SECRET)


@pytest.mark.parametrize(
    "token",
    [
        "",
        "..",
        "a.b",
        "a.b.c.d",
        "é.é.é",
        f"{encode([])}.{encode(CLAIMS)}.{encode(b'x')}",
        f"{encode(b'[' * 5000)}.{encode(CLAIMS)}.{encode(b'x')}",
        f"{encode(b'{')}.{encode(CLAIMS)}.{encode(b'x')}",
        forge({"alg": "HS256"}, [1, 2]),
        forge({"alg": "HS256"}, b"\xff\xfe"),
        forge({"alg": "HS256"}, b'{"sub": "\xff"}'),
        forge({"alg": "HS256"}).replace(".", " ."),
        forge({"alg": "HS256"}) + "=",
    ],
)
def test_what_is_no_token_is_refused(token: str) -> None:
    with pytest.raises(Unauthenticated):
        verify_token(token, SECRET)


def test_an_oversized_token_is_refused_before_it_is_read() -> None:
    token = sign_token({"sub": "a" * TOKEN_BYTES_MAX}, SECRET)
    with pytest.raises(Unauthenticated, match="at most"):
        verify_token(token, SECRET)


def test_a_refusal_repeats_nothing_of_the_token() -> None:
    token = sign_token({"sub": "alice", "note": "hunter2"}, SECRET)
    with pytest.raises(Unauthenticated) as refusal:
        verify_token(token, SecretKey(b"x" * 32))
    assert token not in str(refusal.value) and "alice" not in str(refusal.value)
    assert "k" * 8 not in repr(SECRET)


def test_a_weak_key_is_refused() -> None:
    with pytest.raises(InvalidConfiguration, match="32 bytes or more"):
        SecretKey(b"short")
    with pytest.raises(Unauthenticated, match="too short for HS512"):
        verify_token(sign_token(CLAIMS, SECRET, algorithm="HS512"), SecretKey(b"k" * 32))
    with pytest.raises(InvalidConfiguration, match="does not serve HS512"):
        sign_token(CLAIMS, SecretKey(make_secret_key("HS256")), algorithm="HS512")


def test_a_key_of_another_form_is_no_secret() -> None:
    for octets in (pair_of("ES256").public, b'{"kty": "oct", "k": "c2VjcmV0"}  '):
        with pytest.raises(InvalidConfiguration, match="random bytes, not a key"):
            SecretKey(octets)


@pytest.mark.parametrize("data", [b"", b"\x30\x82", b"-----BEGIN PUBLIC KEY-----\nxx\n"])
def test_bytes_that_are_no_key_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidConfiguration, match="cannot be read"):
        parse_public_key(data)
    with pytest.raises(InvalidConfiguration, match="cannot be read"):
        parse_private_key(data)

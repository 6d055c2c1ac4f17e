"""`magnetar tokens`: keys, and the tokens they sign."""

from __future__ import annotations

import base64
import os
import re
import secrets
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from magnetar.cli.command import (
    Argument,
    Options,
    UsageError,
    Verb,
    call,
    choice,
    choose,
    pairs,
    switch,
)
from magnetar.cli.output import format_result
from magnetar.cli.value import parse_duration_s, parse_pair
from magnetar.errors import InvalidConfiguration
from magnetar.rules.token import TokenPolicy, decide_identity
from magnetar.runtime.credential import load_credential, load_text
from magnetar.runtime.wall import now_ms
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
_OWNER_ONLY: Final = 0o600
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


def _create_secret_key(options: Options) -> None:
    key = make_secret_key(options.signature_algorithm)
    data = base64.b64encode(key) if options.base64 else key
    if options.output is None:
        sys.stdout.buffer.write(data + (b"\n" if options.base64 else b""))
        return
    _check_free(options, options.output)
    _write_key(options.output, data, _OWNER_ONLY)


def _create_key_pair(options: Options) -> None:
    private, public = options.output_private_key, options.output_public_key
    if private == public:
        raise UsageError("magnetar tokens: the private and the public key need a file each")
    _check_free(options, private, public)
    pair = make_key_pair(options.signature_algorithm)
    _write_key(private, pair.private, _OWNER_ONLY)
    _write_key(public, pair.public, 0o666)


def _check_free(options: Options, *paths: Path) -> None:
    """A key that is overwritten takes every token that it signed with it."""
    for path in paths:
        if not options.force and os.path.lexists(path):
            raise UsageError(
                f"magnetar tokens: {path} is there already; tokens signed with the key in it"
                " would be void",
                hint="Choose another file, or replace it with --force",
            )


def _write_key(path: Path, data: bytes, mode: int) -> None:
    """In a new file, readable by those whom `mode` names only, from the first byte on."""
    try:
        path.unlink(missing_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
    except OSError as error:
        raise UsageError(f"magnetar tokens: {path}: {error.strerror}") from None


def _create(options: Options) -> None:
    expires_s = None
    if options.expiry_time is not None:
        expires_s = now_ms() // 1000 + options.expiry_time
    key = load_sign_key(secret_key=options.secret_key, private_key=options.private_key)
    token = create_token(
        options.subject,
        key,
        expires_s=expires_s,
        audience=options.audience,
        algorithm=options.signature_algorithm,
        headers=dict(options.headers or ()),
    )
    print(token)


def _validate(options: Options) -> None:
    key = load_verify_key(secret_key=options.secret_key, public_key=options.public_key)
    claims = validate_token(_token_of(options), key, now_ms=now_ms())
    print(format_result(dict(claims), "json"))


def _show(options: Options) -> None:
    header, claims = peek_token(_token_of(options))
    print(format_result({"header": dict(header), "claims": dict(claims)}, "json"))


def _token_of(options: Options) -> str:
    if options.token_file is not None:
        return load_text("--token-file", f"file:{options.token_file}")
    if options.token:
        return load_text("the token", options.token)
    if not options.stdin and sys.stdin.isatty():
        raise UsageError("magnetar tokens: give a token, --token-file, or standard input")
    return sys.stdin.read().strip()


def _parse_expiry(text: str) -> int:
    """From now on, hence without a sign."""
    if not re.fullmatch(r"[0-9]{1,9}[smhdwy]?", text):
        raise ValueError(text)
    return parse_duration_s(text)


_ALGORITHM: Final = "-a --signature-algorithm"
_PLACE: Final = "a file, a file: or data: URL, env:NAME, or base64"
_SECRET: Final = Argument("-sk --secret-key", f"secret key: {_PLACE}")
_FORCE: Final = switch("--force", "replace a file that is there; tokens of its key are void")
_TOKEN: Final = (
    Argument("token", "the token; without it, standard input"),
    Argument(
        "-f --token-file", "read the token from a file", Path, example="token.txt", in_example=True
    ),
    switch("-i --stdin", "read the token from standard input"),
)
VERBS: Final = (
    Verb(
        "create",
        "a token for a role, signed with a secret or a private key",
        (
            Argument(
                "-s --subject", "the role that the token proves", required=True, example="alice"
            ),
            _SECRET._replace(example="secret.key", in_example=True),
            Argument("-pk --private-key", f"private key: {_PLACE}"),
            Argument(
                "-e --expiry-time",
                "when it ends, from now: 30s, 10m, 5h, 1d, 2w, 1y; without it never",
                _parse_expiry,
                variable="DURATION",
            ),
            Argument("--audience", "for whom it is (claim aud)"),
            Argument(_ALGORITHM, "what signs it; the key decides without it", choices=ALGORITHMS),
            pairs("--headers", "a header of the token; may be given again", parse_pair),
        ),
        _create,
    ),
    Verb(
        "validate",
        "whether a broker with this key would take a token; prints its claims",
        (*_TOKEN, _SECRET, Argument("-pk --public-key", f"public key: {_PLACE}")),
        _validate,
    ),
    Verb("show", "what a token says, proven by nothing", _TOKEN, _show),
    Verb(
        "create-secret-key",
        "a key that signs and verifies",
        (
            choice(_ALGORITHM, "what it is for (HS256)", *ALGORITHMS[:3]),
            Argument("-o --output", "file to write, readable by its owner only", Path),
            switch("-b --base64", "write it as base64"),
            _FORCE,
        ),
        _create_secret_key,
    ),
    Verb(
        "create-key-pair",
        "a private key that signs, and a public one that verifies",
        (
            choice(_ALGORITHM, "what they are for (RS256)", *ALGORITHMS[3:]),
            Argument(
                "--output-private-key", "file to write", Path, required=True, example="private.key"
            ),
            Argument(
                "--output-public-key", "file to write", Path, required=True, example="public.key"
            ),
            _FORCE,
        ),
        _create_key_pair,
    ),
)


def run(words: list[str]) -> int:
    return call("magnetar tokens", choose("magnetar tokens", "verb", words, VERBS), words[1:])

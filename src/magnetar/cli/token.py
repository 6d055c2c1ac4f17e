"""`magnetar tokens`: keys, and the tokens they sign."""

from __future__ import annotations

import base64
import os
import re
import sys
from pathlib import Path
from typing import Final

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
from magnetar.client.token import (
    ALGORITHMS,
    create_token,
    load_sign_key,
    load_verify_key,
    make_key_pair,
    make_secret_key,
    read_token,
    validate_token,
)
from magnetar.runtime.credential import load_text
from magnetar.runtime.wall import now_ms

_OWNER_ONLY: Final = 0o600


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
    header, claims = read_token(_token_of(options))
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

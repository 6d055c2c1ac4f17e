"""Providers and the door in front of them."""

from __future__ import annotations

import asyncio
import base64
import threading
from collections import Counter
from pathlib import Path

import pytest

from magnetar.broker.authentication import Authenticator, Credential, make_authenticator
from magnetar.cli.token import create_token, make_key_pair
from magnetar.errors import InvalidConfiguration, TooManyRequests, Unauthenticated, Unauthorized
from magnetar.model.caller import ANONYMOUS, Caller
from magnetar.rules.handshake import Identity
from magnetar.runtime.clock import LoopClock
from magnetar.runtime.configuration import Configuration
from magnetar.wire.jwt import SecretKey, parse_private_key

NOW_MS = 1_700_000_000_000
SECRET = bytes(range(32))
KEY = SecretKey(SECRET)
SECRET_URL = f"data:;base64,{base64.b64encode(SECRET).decode()}"
HTPASSWD = (
    "data:;base64," + base64.b64encode(b"admin:$apr1$FG4AO6aX$KGYPuMoLUou3i6vUkPUUf.\n").decode()
)
CLASS = "org.apache.pulsar.broker.authentication.AuthenticationProvider"


class FixedClock(LoopClock):
    def now_ms(self) -> int:
        return NOW_MS

    def monotonic(self) -> float:
        return 0.0


def build(**settings: object) -> Authenticator:
    config = Configuration(
        {
            "authenticationEnabled": True,
            "authenticationProviders": "token,basic",
            "tokenSecretKey": SECRET_URL,
            "basicAuthConf": HTPASSWD,
            **settings,
        }
    )
    return make_authenticator(config, FixedClock())


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def basic(text: str) -> dict[str, str]:
    return {"authorization": "Basic " + base64.b64encode(text.encode()).decode()}


def prove(door: Authenticator, method: str, credential: Credential) -> Identity:
    return asyncio.run(door.prove(method, credential, "10.0.0.1"))


def authenticate(door: Authenticator, headers: dict[str, str], certificate: str | None) -> Caller:
    return asyncio.run(door.authenticate_http(headers, certificate, "10.0.0.1"))


TOKEN = create_token("alice", KEY)
EXPIRED = create_token("alice", KEY, expires_s=NOW_MS // 1000 - 1)


def test_off_means_everybody_is_nobody() -> None:
    off = make_authenticator(Configuration(), FixedClock())
    assert not off.is_enabled
    assert authenticate(off, bearer("rubbish"), None) is ANONYMOUS


def test_each_method_proves_a_role() -> None:
    door = build(authenticationProviders="tls,token,basic", tlsTrustCertsFilePath="/dev/null")
    assert door.methods == ("tls", "token", "basic")
    assert prove(door, "token", Credential(data=TOKEN.encode())).role == "alice"
    assert prove(door, "basic", Credential(data=b"admin:123456")).role == "admin"
    assert prove(door, "tls", Credential(data=b"", certificate_name="bob")).role == "bob"
    assert authenticate(door, bearer(TOKEN), None) == Caller("alice")
    assert authenticate(door, basic("admin:123456"), None) == Caller("admin")
    assert authenticate(door, {}, "bob") == Caller("bob")


def test_apaches_class_names_are_understood() -> None:
    door = build(authenticationProviders=f"{CLASS}Token,{CLASS}Basic")
    assert door.methods == ("token", "basic")


@pytest.mark.parametrize(
    ("method", "data"),
    [
        ("token", b""),
        ("token", b"rubbish"),
        ("token", b"\xff\xfe"),
        ("token", EXPIRED.encode()),
        ("token", b"a" * 100_000),
        ("basic", b"admin:12345"),
        ("basic", b"admin:"),
        ("basic", b"admin"),
        ("basic", b"admin:123456:7"),
        ("basic", b"\xff:123456"),
        ("basic", b"admin:" + b"1" * 5000),
    ],
)
def test_bad_credentials_are_refused_without_being_repeated(method: str, data: bytes) -> None:
    with pytest.raises(Unauthenticated) as refusal:
        prove(build(), method, Credential(data=data))
    assert len(data) < 3 or data.decode("latin-1") not in refusal.value.sentence


def test_a_password_that_was_right_once_is_not_right_for_another() -> None:
    door = build()
    for _ in range(2):
        assert prove(door, "basic", Credential(data=b"admin:123456")).role == "admin"
        with pytest.raises(Unauthenticated):
            prove(door, "basic", Credential(data=b"admin:1234567"))


def test_a_request_that_names_its_method_is_judged_by_it_alone() -> None:
    door = build(anonymousUserRole="guest")
    named = {"x-pulsar-auth-method-name": "token"}
    assert authenticate(door, {**bearer(TOKEN), **named}, None) == Caller("alice")
    with pytest.raises(Unauthenticated):
        authenticate(door, {**basic("admin:123456"), **named}, None)
    with pytest.raises(Unauthenticated, match="Unsupported authentication method"):
        authenticate(door, {"x-pulsar-auth-method-name": "sasl"}, None)


def test_without_a_method_the_first_that_accepts_counts_and_then_the_anonymous_role() -> None:
    with pytest.raises(Unauthenticated, match="Authentication required"):
        authenticate(build(), bearer(EXPIRED), None)
    guest = build(anonymousUserRole="guest")
    assert authenticate(guest, {}, None) == Caller("guest", is_anonymous=True)
    assert authenticate(guest, bearer(EXPIRED), None).is_anonymous
    with pytest.raises(Unauthenticated, match="method missing"):
        authenticate(build(anonymousUserRole="guest", strictAuthMethod=True), {}, None)


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        (bearer(TOKEN[:-4] + "AAAA"), r"required: token: the signature .*"),
        (bearer(EXPIRED), r"required: token: .*"),
        (basic("admin:wrong"), r"required: basic: Unknown user or invalid password"),
        ({}, r"required: the broker accepts .*token.*, and no such credentials were sent"),
    ],
)
def test_a_refused_request_says_why_and_not_what_was_sent(
    headers: dict[str, str], reason: str
) -> None:
    with pytest.raises(Unauthenticated, match=reason) as refusal:
        authenticate(build(), headers, None)
    for value in headers.values():
        assert value.split()[1] not in refusal.value.sentence


def test_a_proxy_names_whom_it_speaks_for() -> None:
    headers = {**bearer(TOKEN), "x-original-principal": "bob"}
    assert authenticate(build(), headers, None) == Caller("alice", "bob")
    guarded = {"authorizationEnabled": True}
    with pytest.raises(Unauthorized):
        authenticate(build(**guarded), headers, None)
    door = build(**guarded, proxyRoles="alice")
    assert authenticate(door, headers, None) == Caller("alice", "bob")
    with pytest.raises(Unauthorized):
        authenticate(door, bearer(TOKEN), None)


def test_public_keys_and_claims_are_configured_by_pulsars_names(tmp_path: Path) -> None:
    pair = make_key_pair("ES256")
    public = tmp_path / "public.key"
    public.write_bytes(pair.public)
    private = parse_private_key(pair.private)
    settings = {"tokenSecretKey": "", "tokenPublicKey": f"file://{public}"}
    audience = {"tokenAudienceClaim": "aud", "tokenAudience": "here"}
    door = build(**settings, **audience, tokenPublicAlg="ES256")
    for_us = create_token("alice", private, audience="here")
    assert authenticate(door, bearer(for_us), None) == Caller("alice")
    for wrong in (create_token("alice", private), create_token("alice", private, audience="there")):
        with pytest.raises(Unauthenticated):
            authenticate(door, bearer(wrong), None)
    with pytest.raises(InvalidConfiguration, match="key for ES256, not for RS256"):
        build(**settings, tokenPublicAlg="RS256")


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"authenticationProviders": ""}, "needs authenticationProviders"),
        ({"authenticationProviders": "sasl"}, "sasl is not one of tls, token, basic"),
        ({"tokenSecretKey": ""}, "needs tokenSecretKey or tokenPublicKey"),
        ({"tokenSecretKey": "data:,short"}, "tokenSecretKey: a secret key has 32 bytes"),
        ({"tokenSecretKey": "", "tokenPublicKey": "data:,x"}, "tokenPublicKey: .* cannot be read"),
        ({"tokenSecretKey": "", "tokenPublicKey": "data:,x", "tokenPublicAlg": "none"}, "one of"),
        ({"tokenAudienceClaim": "aud"}, "needs tokenAudience"),
        ({"basicAuthConf": ""}, "needs basicAuthConf"),
        ({"basicAuthConf": "data:,admin:plaintext"}, "line 1"),
        ({"authenticationProviders": "tls"}, "needs tlsTrustCertsFilePath"),
        (
            {
                "authenticationProviders": "tls",
                "tlsTrustCertsFilePath": "/dev/null",
                "tlsAllowInsecureConnection": True,
            },
            "anybody could be anyone",
        ),
    ],
)
def test_a_provider_without_anything_to_judge_by_is_refused(
    settings: dict[str, object], sentence: str
) -> None:
    with pytest.raises(InvalidConfiguration, match=sentence):
        build(**settings)


# ---------------------------------------------------------------------- what is slow to judge


class SlowProvider:
    """Judges when it is told to."""

    method = "basic"

    def __init__(self) -> None:
        self.may_end = threading.Event()
        self.under_way: Counter[bytes | None] = Counter()
        self.most: Counter[bytes | None] = Counter()
        self.threads: set[str] = set()

    def is_slow(self, credential: Credential) -> bool:
        return True

    def authenticate(self, credential: Credential, *, now_ms: int) -> Identity:
        name = credential.data
        self.threads.add(threading.current_thread().name)
        self.under_way[name] += 1
        self.most[name] = max(self.most[name], self.under_way[name])
        assert self.may_end.wait(20)
        self.under_way[name] -= 1
        return Identity("alice")


def test_passwords_are_judged_off_the_loop_and_few_at_once_for_one_address() -> None:
    provider = SlowProvider()
    door = Authenticator({"basic": provider}, FixedClock())

    async def main() -> None:
        guesses = [
            asyncio.ensure_future(door.prove("basic", Credential(data=b"guess"), "10.0.0.1"))
            for _ in range(64)
        ]
        await asyncio.sleep(0)
        with pytest.raises(TooManyRequests, match=r"from 10\.0\.0\.1 are under way"):
            await door.prove("basic", Credential(data=b"guess"), "10.0.0.1")
        other = asyncio.ensure_future(door.prove("basic", Credential(data=b"other"), "10.0.0.2"))
        while not provider.under_way[b"other"]:
            await asyncio.sleep(0.001)
        assert provider.under_way[b"guess"] <= 2, "and the loop goes on meanwhile"
        provider.may_end.set()
        assert (await other).role == "alice"
        assert len(await asyncio.gather(*guesses)) == 64
        assert provider.most[b"guess"] == 2
        assert (await door.prove("basic", Credential(), "10.0.0.1")).role == "alice"

    asyncio.run(main())
    door.close()
    assert threading.current_thread().name not in provider.threads


def test_a_password_has_a_length_and_what_is_longer_is_not_judged() -> None:
    door = build()
    with pytest.raises(Unauthenticated, match="longer than the 255 bytes"):
        prove(door, "basic", Credential(data=b"admin:" + b"1" * 256))
    with pytest.raises(Unauthenticated, match="invalid password"):
        prove(door, "basic", Credential(data=b"admin:" + b"1" * 255))
    with pytest.raises(Unauthenticated, match="longer than the 5 bytes"):
        prove(build(maxPasswordLength=5), "basic", Credential(data=b"admin:123456"))

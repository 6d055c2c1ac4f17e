"""The command line over TLS with credentials, from options and from the environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.interop.security.place import PASSWORD, Place, data_url, token_of

WAIT_S = 60


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "magnetar", *words],
        capture_output=True,
        timeout=WAIT_S,
        env=os.environ | environment,
    )


def test_lines_pass_with_a_token_from_a_file(place: Place, topic: str, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(token_of("alice") + "\n")
    trust = str(place.authority.certificate)
    secure = ("--url", place.url_tls, "--token", f"file:{token}", "--tls-trust", trust)
    sent = run("produce", topic, "-m", "hello", *secure)
    assert sent.returncode == 0, sent.stderr
    environment = {"MAGNETAR_URL": place.url_tls, "MAGNETAR_TLS_TRUST": trust}
    environment["MAGNETAR_TOKEN"] = f"file:{token}"
    got = run("consume", topic, "-s", "s", "-p", "earliest", "-n", "1", **environment)
    assert got.stdout == b"hello\n", got.stderr


def test_admin_commands_prove_a_role_in_each_way(place: Place) -> None:
    certificate, key = place.authority.issue("alice")
    common = ("--admin-url", place.admin_url_tls, "--tls-trust", str(place.authority.certificate))
    for proof in (
        ("--token", token_of("alice")),
        ("--basic", f"admin:{PASSWORD}"),
        ("--tls-cert", str(certificate), "--tls-key", str(key)),
    ):
        done = run("admin", *common, *proof, "clusters", "list", "-o", "json")
        assert json.loads(done.stdout) == ["standalone"], done.stderr
    refused = run("admin", *common, "--token", "rubbish", "clusters", "list")
    assert refused.returncode == 1 and b"Authentication required" in refused.stderr
    untrusted = run(
        "admin", "--admin-url", place.admin_url_tls, "--token", token_of("a"), "clusters", "list"
    )
    assert untrusted.returncode == 1 and b"certificate" in untrusted.stderr.lower()
    insecure = run(
        "admin", "--tls-insecure", "--admin-url", place.admin_url_tls, "--token", token_of("a"),
        "clusters", "list",
    )  # fmt: skip
    assert insecure.returncode == 0, insecure.stderr


def test_the_broker_takes_what_the_tool_signs_and_nothing_else(tmp_path: Path) -> None:
    secret, private, public = (str(tmp_path / name) for name in ("secret", "private", "public"))
    assert run("tokens", "create-secret-key", "-o", secret).returncode == 0
    assert Path(secret).stat().st_mode & 0o777 == 0o600
    words = ("--output-private-key", private, "--output-public-key", public)
    assert run("tokens", "create-key-pair", "-a", "ES256", *words).returncode == 0
    assert Path(private).stat().st_mode & 0o777 == 0o600
    for sign, verify in (
        (("--secret-key", secret), ("--secret-key", f"file://{secret}")),
        (("--private-key", private), ("--public-key", data_url(Path(public).read_bytes()))),
    ):
        made = run("tokens", "create", "-s", "alice", "-e", "1h", *sign)
        token = made.stdout.decode().strip()
        assert json.loads(run("tokens", "show", token).stdout)["claims"]["sub"] == "alice"
        assert json.loads(run("tokens", "validate", token, *verify).stdout)["sub"] == "alice"
        late = run("tokens", "create", "-s", "alice", "-e", "0s", *sign).stdout.decode().strip()
        refused = run("tokens", "validate", late, *verify)
        assert refused.returncode == 1 and b"expired" in refused.stderr
    mixed = run("tokens", "validate", token, "--secret-key", secret)
    assert mixed.returncode == 1 and b"does not serve" in mixed.stderr
    assert run("tokens", "forge").returncode == 2

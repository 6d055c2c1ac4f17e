"""What a bare installation says about what it lacks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BLOCK = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {absent!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Absent())
"""
EXTRAS = (
    "cryptography",
    "kazoo",
    "numpy",
    "opentelemetry",
    "pandas",
    "prometheus_client",
    "pyarrow",
    "pyspark",
)


def run_bare(code: str, home: Path) -> subprocess.CompletedProcess[str]:
    script = BLOCK.format(absent=EXTRAS) + code
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, cwd=home
    )


def command(*words: str) -> str:
    return f"from magnetar.cli.main import main; sys.exit(main({list(words)!r}))"


def test_every_public_name_is_there_without_any_extra(tmp_path: Path) -> None:
    code = "from magnetar import *\nprint(OpenTelemetry, PrometheusTelemetry, PemKeys)"
    done = run_bare(code, tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("code", "extra"),
    [
        ("import magnetar.spark", "spark"),
        ("import magnetar.spark.job.order_audit", "spark"),
        (command("spark", "table", "topic", "--output", "here"), "spark"),
        ("import magnetar; magnetar.OpenTelemetry()", "telemetry"),
        ("import magnetar; magnetar.PrometheusTelemetry()", "telemetry"),
        ("import magnetar.client.token as token; token.make_key_pair('RS256')", "encryption"),
        ("import magnetar.wire.jwt as jwt; jwt.parse_public_key(b'')", "encryption"),
        (command("standalone", "--set", "metadataStoreUrl=zk:127.0.0.1:1"), "cluster"),
    ],
)
def test_a_missing_extra_is_named(code: str, extra: str, tmp_path: Path) -> None:
    done = run_bare(code, tmp_path)
    assert done.returncode != 0
    assert f"magnetar[{extra}]" in done.stderr.splitlines()[-1], done.stderr


def test_a_token_of_a_secret_needs_no_extra(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"k" * 32)
    made = run_bare(command("tokens", "create", "--secret-key", "key", "--subject", "a"), tmp_path)
    assert made.returncode == 0, made.stderr
    token = made.stdout.strip()
    read = run_bare(command("tokens", "validate", "--secret-key", "key", token), tmp_path)
    assert '"sub": "a"' in read.stdout, read.stderr

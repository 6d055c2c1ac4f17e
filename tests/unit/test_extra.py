"""What a bare installation says about what it lacks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from magnetar.testing import MagnetarBroker

BLOCK = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {absent!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Absent())
"""
EXTRAS = {
    "cli": {"jwt"},
    "cluster": {"kazoo"},
    "encryption": {"cryptography"},
    "server": {"httptools", "jwt", "re2", "uvicorn", "uvloop"},
    "spark": {"numpy", "pandas", "pyarrow", "pyspark"},
    "telemetry": {"opentelemetry", "prometheus_client"},
}


CLIENT = """
from magnetar import PemKeys, ProducerEncryption, PulsarClient
client = PulsarClient("pulsar://127.0.0.1:1", operation_timeout=0.01)
"""


def run_bare(code: str, home: Path, with_extra: str = "") -> subprocess.CompletedProcess[str]:
    absent = set().union(*EXTRAS.values()) - EXTRAS.get(with_extra, set())
    script = BLOCK.format(absent=sorted(absent)) + code
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
        ("import magnetar.cli.token as token; token.make_key_pair('RS256')", "encryption"),
        ("import magnetar.wire.jwt as jwt; jwt.parse_public_key(b'')", "encryption"),
        ("from magnetar.columns import make_sheet", "spark"),
        ("import magnetar.columns as columns; columns.ColumnDecoder", "spark"),
        (
            CLIENT + "client.checkpoint_consumer('topic://public/default/t', columns=['value'])",
            "spark",
        ),
        (command("standalone", "--data", "here"), "server"),
        (command("cluster", "up", "--data", "here"), "cluster"),
        (command("tokens", "create", "--secret-key", "key", "--subject", "a"), "cli"),
    ],
)
def test_a_missing_extra_is_named(code: str, extra: str, tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"k" * 32)
    done = run_bare(code, tmp_path)
    assert done.returncode != 0
    assert f"magnetar[{extra}]" in done.stderr.splitlines()[-1], done.stderr


def test_a_producer_that_encrypts_names_the_extra(
    magnetar_broker: MagnetarBroker, tmp_path: Path
) -> None:
    code = CLIENT.replace("pulsar://127.0.0.1:1", magnetar_broker.service_url).replace("0.01", "20")
    opening = "client.producer('t', encryption=ProducerEncryption(PemKeys(), ['k']))"
    done = run_bare(code + opening, tmp_path)
    assert done.returncode != 0
    assert "magnetar[encryption]" in done.stderr.splitlines()[-1], done.stderr


def test_a_broker_on_zookeeper_needs_more_than_one_alone(tmp_path: Path) -> None:
    code = command("standalone", "--set", "metadataStoreUrl=zk:127.0.0.1:1")
    done = run_bare(code, tmp_path, with_extra="server")
    assert done.returncode != 0
    assert "magnetar[cluster]" in done.stderr.splitlines()[-1], done.stderr


def test_a_token_of_a_secret_needs_the_extra_of_the_command_line_alone(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"k" * 32)
    words = ("--secret-key", "key", "--subject", "a")
    made = run_bare(command("tokens", "create", *words), tmp_path, with_extra="cli")
    assert made.returncode == 0, made.stderr
    check = command("tokens", "validate", "--secret-key", "key", made.stdout.strip())
    read = run_bare(check, tmp_path, with_extra="cli")
    assert '"sub": "a"' in read.stdout, read.stderr


def test_the_client_and_its_commands_need_no_extra(tmp_path: Path) -> None:
    code = """
import magnetar
with magnetar.PulsarClient("pulsar://127.0.0.1:1", operation_timeout=0.01): pass
magnetar.Admin("http://127.0.0.1:1").close()
"""
    done = run_bare(code + command("admin", "topics", "list", "--help"), tmp_path)
    assert done.returncode == 0, done.stderr

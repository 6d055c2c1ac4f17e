"""An operation is one row and one function, a policy one row and its effect: all else follows."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
ROW = """
TABLE.add(
    "greet",
    "GET /{tenant}/greeting",
    TENANT_ADMIN,
    "A word of welcome for a tenant.",
    TENANT,
    FORCE.asked("louder", "-l", "--louder")._replace(name="is_loud", wire="loud"),
    result=Result.DOCUMENT,
    cli=Verb("greet", "say hello to a tenant"),
)
"""
FUNCTION = """

@carries_out("tenants.greet")
async def greet(tenant: str, is_loud: bool) -> dict[str, str]:
    return {"greeting": f"hello {tenant}" + "!" * is_loud}
"""
START = """
import asyncio, contextlib, io, json, urllib.request
from magnetar import AsyncAdmin, PulsarClient, PulsarError
from magnetar.cli.main import main
from magnetar.client.admin import AdminClient
from magnetar.testing import MagnetarBroker

def printed(*words):
    with contextlib.redirect_stdout(io.StringIO()) as text:
        assert main(list(words)) == 0
    return text.getvalue()

def asked(method, url, body=None):
    content = None if body is None else json.dumps(body).encode()
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(url, content, headers, method=method)
    return json.loads(urllib.request.urlopen(request).read() or "null")
"""
TRIAL = """
async def greet(url):
    async with AsyncAdmin(url) as admin:
        return await admin.tenants.greet("public", is_loud=True)

with MagnetarBroker() as broker, AdminClient(broker.admin_url) as admin:
    url = broker.admin_url
    described = asked("GET", url + "/openapi.json")
    print(json.dumps({
        "rest": asked("GET", url + "/admin/v2/tenants/public/greeting?loud=true"),
        "openapi": described["paths"]["/admin/v2/tenants/{tenant}/greeting"]["get"],
        "blocking": admin.tenants.greet("public"),
        "async": asyncio.run(greet(url)),
        "command": printed("admin", "tenants", "greet", "public", "--louder", "--admin-url", url),
        "help": printed("admin", "tenants", "greet", "--help"),
        "group": printed("admin", "tenants", "--help"),
        "completion": printed("completion", "bash"),
    }))
"""

# The record has a field that no policy of ours uses.
POLICY_ROW = """
    Policy("banned-producers", "names of producers that may not publish",
        At("shadowTopics"),
        options=(Option("-p --producers", Kind.NAMES, help="their names, with commas"),)),
"""
IN_FORCE = """
    banned_producers: tuple[str, ...] | None = None
"""
EFFECT = """
        if producer.name in (self.policy.banned_producers or ()):
            raise NotAllowed(f"{producer.name} may not publish to {self.name}")
"""
POLICY_TRIAL = """
NAME, TOPIC = "banned-producers", "persistent://public/default/t"

async def get(url):
    async with AsyncAdmin(url) as admin:
        return await admin.topic_policies.get(TOPIC, NAME)

def publish(producer):
    with PulsarClient(broker.service_url) as client:
        try:
            client.producer(TOPIC, name=producer).close()
        except PulsarError as refused:
            return str(refused)

with MagnetarBroker() as broker, AdminClient(broker.admin_url) as admin:
    url, words = broker.admin_url, ("admin", "topics")
    admin.topics.create(TOPIC)
    path = url + "/admin/v2/persistent/public/default/t/bannedProducers"
    found = {"before": [asked("GET", path), publish("eve")]}
    asked("POST", path, ["eve"])
    found |= {
        "rest": asked("GET", path),
        "blocking": admin.topic_policies.get(TOPIC, NAME),
        "async": asyncio.run(get(url)),
        "command": printed(*words, f"get-{NAME}", TOPIC, "--admin-url", url),
        "refused": publish("eve"),
        "others": publish("adam"),
    }
    printed(*words, f"set-{NAME}", TOPIC, "-p", "adam,eve", "--admin-url", url)
    found["set by command"] = asked("GET", path)
    admin.topic_policies.remove(TOPIC, NAME)
    found["after"] = [asked("GET", path), publish("eve")]
    print(json.dumps(found | {
        "openapi": asked("GET", url + "/openapi.json")["paths"],
        "help": printed(*words, f"set-{NAME}", "--help"),
        "group": printed(*words, "--help"),
        "completion": printed("completion", "bash"),
    }))
"""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for folder in ("src", "tools", "docs"):
        shutil.copytree(
            ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__")
        )
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def run(copy: Path, *words: str) -> str:
    environment = os.environ | {"PYTHONPATH": str(copy / "src")}
    done = subprocess.run(
        [sys.executable, *words], cwd=copy, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def add(path: Path, text: str, *, before: str = "") -> None:
    """At the end of the file, or before the last line of it that begins so."""
    written = path.read_text()
    index = written.rindex(f"\n{before}") if before else len(written)
    path.write_text(written[:index] + text.rstrip("\n") + written[index:] + "\n" * (not before))


def test_a_row_and_a_function_are_found_in_every_interface(copy: Path) -> None:
    package = copy / "src" / "magnetar"
    add(package / "operation" / "tenant.py", ROW)
    add(package / "broker" / "administration" / "tenant.py", FUNCTION)
    for tool in ("operation", "admin", "reference"):
        run(copy, f"tools/generate_{tool}.py")
    found = json.loads(run(copy, "-c", START + TRIAL))
    assert found["rest"] == found["async"] == {"greeting": "hello public!"}
    assert found["blocking"] == {"greeting": "hello public"}
    assert "hello public!" in found["command"]
    assert found["openapi"]["summary"] == "A word of welcome for a tenant."
    assert [each["name"] for each in found["openapi"]["parameters"]] == ["tenant", "loud"]
    assert found["openapi"]["responses"]["200"]["content"]["application/json"]["schema"]
    assert "--louder" in found["help"] and "say hello to a tenant" in found["group"]
    assert "admin/tenants/greet) echo '--louder" in found["completion"]
    reference = (copy / "docs" / "reference.md").read_text()
    assert "greet(tenant: str, *, is_loud: bool = False) -> Document" in reference
    assert "A word of welcome for a tenant." in reference


def test_a_row_of_a_policy_and_its_effect_are_found_in_every_interface(copy: Path) -> None:
    package = copy / "src" / "magnetar"
    add(package / "operation" / "policy_table.py", POLICY_ROW, before=")\n")
    add(package / "rules" / "policy.py", IN_FORCE, before="    rates_by_subscription: Mapping")
    add(package / "broker" / "topic.py", EFFECT, before="        limit = self.policy.max_producers")
    for tool in ("operation", "admin", "reference"):
        run(copy, f"tools/generate_{tool}.py")
    found = json.loads(run(copy, "-c", START + POLICY_TRIAL))
    assert found["before"] == found["after"] == [None, None]
    assert found["rest"] == found["blocking"] == found["async"] == ["eve"]
    assert "eve" in found["command"]
    assert "eve may not publish" in found["refused"] and found["others"] is None
    assert found["set by command"] == ["adam", "eve"]
    path = "/admin/v2/persistent/{tenant}/{namespace}/{topic}/bannedProducers"
    described = found["openapi"][path]
    assert set(described) == {"get", "post", "delete"}
    schema = described["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert schema == {"type": "array", "items": {"type": "string"}}
    assert "--producers" in found["help"] and "their names, with commas" in found["help"]
    assert "set-banned-producers" in found["group"]
    assert "admin/topics/set-banned-producers) echo '" in found["completion"]
    assert "--producers" in found["completion"]
    reference = (copy / "docs" / "reference.md").read_text()
    (row,) = (line for line in reference.splitlines() if "bannedProducers" in line)
    assert "`banned-producers` (bannedProducers)" in row
    assert "names of producers that may not publish" in row

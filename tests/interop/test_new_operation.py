"""An operation is one row and one function: everything else follows from them."""

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
async def greet(service: Service, tenant: str, is_loud: bool) -> dict[str, str]:
    return {"greeting": f"hello {tenant}" + "!" * is_loud}
"""
TRIAL = """
import asyncio, contextlib, io, json, urllib.request
from magnetar import AsyncAdmin
from magnetar.cli.main import main
from magnetar.client.admin import AdminClient
from magnetar.testing import MagnetarBroker

def printed(*words):
    with contextlib.redirect_stdout(io.StringIO()) as text:
        assert main(list(words)) == 0
    return text.getvalue()

async def greet(url):
    async with AsyncAdmin(url) as admin:
        return await admin.tenants.greet("public", is_loud=True)

with MagnetarBroker() as broker, AdminClient(broker.admin_url) as admin:
    url = broker.admin_url
    answer = urllib.request.urlopen(url + "/admin/v2/tenants/public/greeting?loud=true").read()
    described = json.load(urllib.request.urlopen(url + "/openapi.json"))
    print(json.dumps({
        "rest": json.loads(answer),
        "openapi": described["paths"]["/admin/v2/tenants/{tenant}/greeting"]["get"],
        "blocking": admin.tenants.greet("public"),
        "async": asyncio.run(greet(url)),
        "command": printed("admin", "tenants", "greet", "public", "--louder", "--admin-url", url),
        "help": printed("admin", "tenants", "greet", "--help"),
        "group": printed("admin", "tenants", "--help"),
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


def add(path: Path, text: str) -> None:
    path.write_text(path.read_text() + text)


def test_a_row_and_a_function_are_found_in_every_interface(copy: Path) -> None:
    package = copy / "src" / "magnetar"
    add(package / "operation" / "tenant.py", ROW)
    add(package / "broker" / "administration" / "tenant.py", FUNCTION)
    for tool in ("operation", "admin", "reference"):
        run(copy, f"tools/generate_{tool}.py")
    found = json.loads(run(copy, "-c", TRIAL))
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

"""What is in deploy/ can be read by those who are to run it, and names what is there."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from magnetar.cli.command import build_parser
from magnetar.cli.table import COMMANDS
from magnetar.runtime.configuration import Configuration
from tests.tidy.chart import render
from tests.tidy.source import ROOT

DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
CHART = DEPLOY / "helm/magnetar"
VALUES: tuple[dict[str, Any], ...] = (
    {},
    {"existingZookeeper": "zk:2181"},
    {"bookie": {"storageClass": "fast", "replicas": 5}, "broker": {"settings": {}}},
)


def check_broker_words(words: list[str]) -> None:
    """The parser of `magnetar broker` takes them, and every key is one of the configuration."""
    program, *rest = words
    assert program == "broker"
    [command] = [each for each in COMMANDS if each.name == "broker"]
    options = build_parser("magnetar broker", command).parse_args(rest)
    settings = list(options.set or [])
    if options.metadata:
        settings.append(f"metadataStoreUrl={options.metadata}")
    Configuration.load(None, settings, standalone=False)
    assert options.ledgers == "bookkeeper"


def read_unit(path: Path) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(strict=False, interpolation=None, delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment]
    parser.read(path)
    return parser


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_a_unit_is_one_that_systemd_takes(unit: Path, tmp_path: Path) -> None:
    parsed = read_unit(unit)
    assert parsed["Service"]["ExecStart"].startswith("/opt/")
    assert parsed["Install"]["WantedBy"] == "multi-user.target"
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        return
    # The programs are not on this machine; everything else is checked.
    copy = tmp_path / unit.name
    copy.write_text(re.sub(r"(?m)^ExecStart=\S+", "ExecStart=/bin/true", unit.read_text()))
    done = subprocess.run(
        [analyze, "verify", "--man=no", str(copy)], capture_output=True, text=True, timeout=60
    )
    mine = [line for line in done.stderr.splitlines() if unit.name in line]
    assert not mine


def test_the_broker_of_the_unit_starts_with_a_configuration_that_is_known() -> None:
    words = shlex.split(
        read_unit(DEPLOY / "systemd/magnetar-broker.service")["Service"]["ExecStart"]
    )
    check_broker_words(words[1:])
    settings = Configuration.load(DEPLOY / "systemd/broker.conf", (), standalone=False)
    assert settings.managedLedgerDefaultAckQuorum == 2
    assert settings.metadataStoreUrl.startswith("zk://")


def test_the_unit_of_one_broker_starts_it_with_options_that_are_known() -> None:
    unit = read_unit(DEPLOY / "systemd/magnetar-standalone.service")["Service"]
    _, program, *rest = shlex.split(unit["ExecStart"])
    [command] = [each for each in COMMANDS if each.name == program]
    options = build_parser(f"magnetar {program}", command).parse_args(rest)
    assert str(options.data) == f"/var/lib/{unit['StateDirectory']}"


def test_the_parts_of_the_hosts_agree_on_their_addresses() -> None:
    hosts = re.findall(r"server\.\d=([\w.]+):", (DEPLOY / "systemd/zoo.cfg").read_text())
    assert len(hosts) == 3
    bookie = (DEPLOY / "systemd/bookie.conf").read_text()
    broker = (DEPLOY / "systemd/broker.conf").read_text()
    assert all(f"{host}:2181" in bookie and f"{host}:2181" in broker for host in hosts)


def test_the_compose_file_names_only_what_it_has() -> None:
    document = yaml.safe_load((DEPLOY / "compose/compose.yaml").read_text())
    services, volumes = document["services"], document["volumes"]
    assert sorted(services) == [
        *(f"bookie-{number}" for number in (1, 2, 3)),
        *(f"broker-{number}" for number in (1, 2, 3)),
        "zookeeper",
    ]
    for name, service in services.items():
        assert service.keys() <= {
            *("image", "build", "command", "environment", "depends_on", "healthcheck"),
            *("hostname", "volumes", "restart", "stop_grace_period"),
        }, name
        for needed, condition in service.get("depends_on", {}).items():
            assert condition == {"condition": "service_healthy"}
            assert "healthcheck" in services[needed]
        for mount in service.get("volumes", ()):
            assert mount.partition(":")[0] in volumes
        assert service.get("hostname", name) == name
    for number in (1, 2, 3):
        check_broker_words(services[f"broker-{number}"]["command"])
    build = services["broker-1"]["build"]
    assert (DEPLOY / "compose" / build["context"] / build["dockerfile"]).is_file()


def documents(values: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for each in render(CHART, "try", values).values():
        yield from each


@pytest.mark.parametrize("values", VALUES, ids=("default", "existing", "changed"))
def test_the_chart_renders_to_what_belongs_together(values: dict[str, Any]) -> None:
    found = list(documents(values))
    names = {(each["kind"], each["metadata"]["name"]) for each in found}
    assert len(names) == len(found), "two of one kind and name"
    sets = [each for each in found if each["kind"] == "StatefulSet"]
    assert len(sets) == (1 if values.get("existingZookeeper") else 3)
    for each in sets:
        spec = each["spec"]
        labels = spec["template"]["metadata"]["labels"]
        assert spec["selector"]["matchLabels"] == labels
        assert ("Service", spec["serviceName"]) in names
        [container] = spec["template"]["spec"]["containers"]
        claims = {claim["metadata"]["name"] for claim in spec.get("volumeClaimTemplates", ())}
        assert {mount["name"] for mount in container.get("volumeMounts", ())} == claims
        services = [s for s in found if s["kind"] == "Service"]
        ports = {port["containerPort"] for port in container["ports"]}
        for service in services:
            if service["spec"]["selector"].items() <= labels.items():
                assert {port["port"] for port in service["spec"]["ports"]} <= ports
        if labels["app.kubernetes.io/component"] == "broker":
            check_broker_words(container["args"])


@pytest.mark.skipif(shutil.which("helm") is None, reason="helm is not installed")
@pytest.mark.parametrize("values", VALUES, ids=("default", "existing", "changed"))
def test_helm_renders_the_same(values: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "values.json"
    file.write_text(json.dumps(values))
    subprocess.run(["helm", "lint", "--strict", str(CHART), "-f", str(file)], check=True)
    done = subprocess.run(
        ["helm", "template", "try", str(CHART), "-f", str(file)],
        capture_output=True,
        text=True,
        check=True,
    )

    def order(each: dict[str, Any]) -> tuple[str, str]:
        return each["kind"], each["metadata"]["name"]

    rendered = [each for each in yaml.safe_load_all(done.stdout) if each]
    assert sorted(rendered, key=order) == sorted(documents(values), key=order)


INSTRUCTIONS = {
    *("FROM", "COPY", "RUN", "USER", "WORKDIR", "EXPOSE", "ENTRYPOINT", "CMD"),
}


def instructions(text: str) -> list[tuple[str, str]]:
    """Of a Dockerfile: each name with the rest of its lines."""
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    joined = re.sub(r"\\\n\s*", "", lines)
    return [
        (name, rest.strip()) for name, _, rest in (x.partition(" ") for x in joined.split("\n"))
    ]


def flaws_of_image(text: str, ignored: set[str]) -> Iterator[str]:
    """What linters of Dockerfiles complain about, as far as it concerns one of a few lines."""
    found = [(name, rest) for name, rest in instructions(text) if name]
    for name, rest in found:
        if name not in INSTRUCTIONS:
            yield f"{name} is not used here"
        if name == "FROM" and re.fullmatch(r"[\w./-]+:(?!latest)[\w.-]+( AS \w+)?", rest) is None:
            yield f"FROM {rest}: name a version"
        if name in ("ENTRYPOINT", "CMD") and not rest.startswith("["):
            yield f"{name} {rest}: a shell would stand between the signal and the broker"
        if name == "WORKDIR" and not rest.startswith("/"):
            yield f"WORKDIR {rest} is not absolute"
        if name == "RUN" and "pip install" in rest and "--no-cache-dir" not in rest:
            yield "pip leaves its cache in the image"
        if name == "RUN" and ("apt-get" in rest or "sudo" in rest or "cd " in rest):
            yield f"RUN {rest}"
        if name == "COPY" and rest.startswith(". ") and not {".git", ".venv", "data"} <= ignored:
            yield "COPY . takes what .dockerignore does not name"
    users = [rest for name, rest in found if name == "USER"]
    if not users or users[-1] in ("root", "0"):
        yield "the broker runs as root"
    if found[0][0] != "FROM":
        yield "FROM is not the first"


def test_the_image_is_built_as_linters_want_it() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    ignored = set((ROOT / ".dockerignore").read_text().splitlines())
    assert not list(flaws_of_image(text, ignored))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    [extras] = re.findall(r"/source\[([\w,]+)\]", text)
    assert set(extras.split(",")) <= project["optional-dependencies"].keys()
    assert ("EXPOSE", "6650 8080") in instructions(text)
    assert ("ENTRYPOINT", '["magnetar"]') in instructions(text)
    bad = "FROM python\nADD x /x\nRUN pip install x\nCOPY . /source\nCMD magnetar\n"
    assert len(list(flaws_of_image(bad, set()))) == 6


def test_the_chart_is_complete_and_uses_every_value() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["apiVersion"], chart["name"], chart["type"]) == ("v2", CHART.name, "application")
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert chart["appVersion"] == version and values["broker"]["image"] == f"magnetar:{version}"
    assert re.fullmatch(r"\d+\.\d+\.\d+", chart["version"])
    text = "".join(path.read_text() for path in (CHART / "templates").iterdir())
    used = set(re.findall(r"\.Values((?:\.\w+)+)", text))
    known = {f".{group}" for group, each in values.items() if not isinstance(each, dict)}
    for group, each in values.items():
        known |= {f".{group}.{name}" for name in each} if isinstance(each, dict) else set()
    assert used == known


@pytest.mark.parametrize("values", VALUES, ids=("default", "existing", "changed"))
def test_what_the_chart_renders_is_what_kubernetes_takes(values: dict[str, Any]) -> None:
    versions = {"Service": "v1", "StatefulSet": "apps/v1", "PodDisruptionBudget": "policy/v1"}
    for each in documents(values):
        assert each["apiVersion"] == versions[each["kind"]]
        assert re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", each["metadata"]["name"])
        assert each.keys() <= {"apiVersion", "kind", "metadata", "spec"}
        if each["kind"] != "StatefulSet":
            continue
        [container] = each["spec"]["template"]["spec"]["containers"]
        assert ":" in container["image"] and not container["image"].endswith(":latest")
        assert container["resources"].keys() == {"requests", "limits"}
        names = {port["name"] for port in container["ports"]}
        for probe in ("readinessProbe", "livenessProbe", "startupProbe"):
            how = container.get(probe, {}).get("httpGet") or container.get(probe, {}).get(
                "tcpSocket"
            )
            assert how is None or how["port"] in names | {
                p["containerPort"] for p in container["ports"]
            }
        for variable in container.get("env", ()):
            assert isinstance(variable.get("value", ""), str), f"{variable} is no text"

"""What is in deploy/ can be read by those who are to run it, and names what is there."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import shutil
import subprocess
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
    options = build_parser("magnetar broker", command.help, command.parts).parse_args(rest)
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

"""The console in a real browser against real brokers; the scenarios stand in `console/test`.

The test and the browser's script take turns: the script writes what it wants the test's clients to
do, and waits for `done`. With `MAGNETAR_SCREENSHOTS` set to a directory, pages are pictured there.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Protocol

import pulsar
import pytest

from magnetar import (
    Admin,
    Producer,
    PulsarClient,
    Schema,
    StreamConsumer,
    Transaction,
    TransactionError,
)
from magnetar.model.autoscale import AutoScalePolicy
from magnetar.spark.job.order_audit import Findings
from magnetar.spark.job.what_if import Price, Verdict
from magnetar.spark.job.what_if_report import format_verdict
from magnetar.testing.broker import MagnetarBroker, Setting, find_ports
from magnetar.wire.jwt import SecretKey, sign_token
from tests.authority import Authority
from tests.console.topics import write_topics

CONSOLE = Path(__file__).parents[2] / "console"
SCRIPT = CONSOLE / "test" / "scenario.mjs"
SCREENSHOTS = os.environ.get("MAGNETAR_SCREENSHOTS")
WAIT_S = 220  # a guard against a hang: pictures wait for rates that moved, machines are slow
KEY = SecretKey(b"c" * 32)

Steps = Mapping[str, Callable[[], None]]


class Serving(Protocol):
    @property
    def admin_url(self) -> str: ...


pytestmark = [pytest.mark.xdist_group("console"), pytest.mark.timeout(240)]


@pytest.fixture(scope="module", autouse=True)
def tools() -> None:
    """What the browser's side needs, which `make test` installs; CI has Node.js and a browser."""
    browser = os.environ.get("CHROMIUM", "/usr/bin/chromium")
    if not shutil.which("node") or not shutil.which(browser):
        pytest.skip("the console is tested with Node.js 20 and Chromium: install both")
    assert (CONSOLE / "node_modules" / "playwright-core").is_dir(), "run `make console-tools`"


def play(name: str, broker: Serving, steps: Steps | None = None, **more: Any) -> None:
    """Run a scenario to its end; what it asks for is done by the step of that name."""
    options = {"base": broker.admin_url, "screenshots": SCREENSHOTS}
    command = ["node", str(SCRIPT), name, json.dumps(options | more)]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=CONSOLE,
    ) as script:
        assert script.stdin is not None and script.stdout is not None
        watchdog = threading.Timer(WAIT_S, script.kill)
        watchdog.start()
        try:
            told = [""]
            for line in script.stdout:
                told.append(line.strip())
                if told[-1] == "end":
                    break
                (steps or {})[told[-1]]()
                script.stdin.write("done\n")
                script.stdin.flush()
            assert script.stderr is not None
            problem = script.stderr.read() if told[-1] != "end" else ""
            assert told[-1] == "end", f"{name} stopped after {told}:\n{problem}"
        finally:
            watchdog.cancel()
            script.kill()


@pytest.fixture(scope="module")
def broker() -> Iterator[MagnetarBroker]:
    with MagnetarBroker() as started:
        yield started


ORDERS = "topic://public/default/orders"
ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "number", "type": "long"},
        {"name": "item", "type": "string"},
        {"name": "cents", "type": "long"},
    ],
}


def order(number: int) -> Mapping[str, Any]:
    item = ("tea", "milk", "bread", "apples")[number % 4]
    return {"number": number, "item": item, "cents": 100 + number * 37 % 900}


@pytest.fixture(scope="module")
def shop(broker: MagnetarBroker) -> Iterator[MagnetarBroker]:
    """Something on every page: a scalable topic that was split and merged, with a schema and
    consumers of both kinds; a partitioned topic; regular ones with a lag; an official client.
    """
    with Admin(broker.admin_url) as admin, PulsarClient(broker.service_url) as client:
        admin.scalable_topics.create(ORDERS, segments=2)
        # The colours of the picture: near what would split it, if it scaled itself.
        policy = {"enabled": False, "splitMsgRateInThreshold": 90.0, "mergeMsgRateInThreshold": 1.0}
        admin.scalable_topics.set_auto_scale_policy(ORDERS, policy)
        admin.topics.create_partitioned("persistent://public/default/ledger", 3)
        readers = [
            client.stream_consumer(ORDERS, subscription="billing", name=f"billing-{number}")
            for number in (1, 2)
        ]
        client.queue_consumer(ORDERS, subscription="post")
        old = pulsar.Client(broker.service_url, logger=_quiet())
        old.create_producer("persistent://public/default/ledger", producer_name="old-books")
        for name, lag in (("payments", 12), ("emails", 340), ("clicks", 0)):
            client.consumer(f"persistent://public/default/{name}", "worker").close()
            with client.producer(f"persistent://public/default/{name}") as feed:
                feed.send_many([b"%d" % number for number in range(lag)])
        is_over = threading.Event()

        def write(producer: Producer[Mapping[str, Any]]) -> None:
            number = 1000
            while not is_over.wait(0.05):
                for _ in range(5):
                    number += 1
                    producer.send_nowait(order(number), key=f"customer-{number % 97}")

        def read(consumer: StreamConsumer[bytes]) -> None:
            while not is_over.is_set():
                message = consumer.receive(timeout=0.5)
                if message is not None:
                    consumer.acknowledge_cumulative(message)

        with client.producer(ORDERS, schema=Schema.json(json.dumps(ORDER))) as producer:

            def fill() -> None:
                """A segment without a message would be removed after it is sealed."""
                for number in range(100):
                    producer.send_nowait(order(number), key=f"customer-{number}")
                producer.flush()

            threads = [threading.Thread(target=write, args=(producer,))]
            threads += [threading.Thread(target=read, args=(each,)) for each in readers]
            for thread in threads:
                thread.start()
            try:
                fill()
                admin.scalable_topics.split(ORDERS, 0)
                fill()
                admin.scalable_topics.merge(ORDERS, 2, 3)
                fill()
                admin.scalable_topics.split(ORDERS, 1)
                yield broker
            finally:
                is_over.set()
                for thread in threads:
                    thread.join()
                old.close()


def _quiet() -> Any:
    import logging

    logger = logging.getLogger("pulsar of the console's tests")
    logger.setLevel(logging.ERROR)
    return logger


def test_every_page_is_shown_and_is_accessible(shop: MagnetarBroker) -> None:
    play("pages", shop)


def test_every_page_fits_a_phone_and_the_dark(shop: MagnetarBroker) -> None:
    play("dark_and_small", shop)


def test_what_changes_is_shown_without_a_reload(broker: MagnetarBroker) -> None:
    topic = "persistent://public/default/made-later"
    with PulsarClient(broker.service_url) as client:

        def make() -> None:
            client.consumer(topic, "reader").close()
            with client.producer(topic) as producer:
                for number in range(7):
                    producer.send(b"%d" % number)

        def read() -> None:
            with client.consumer(topic, "reader") as consumer:
                for _ in range(3):
                    message = consumer.receive(timeout=10)
                    assert message is not None
                    consumer.acknowledge(message)

        play("live", broker, {"make a topic": make, "read three": read})


def test_a_split_is_watched_on_the_picture(broker: MagnetarBroker) -> None:
    with Admin(broker.admin_url) as admin:
        admin.scalable_topics.create("topic://public/default/river", segments=1)
        play("split", broker)
        history = admin.scalable_topics.history("topic://public/default/river")
    assert [each["kind"] for each in history][:3] == ["SPLIT", "SPLIT", "MERGE"]


def test_a_migration_goes_from_start_to_end(broker: MagnetarBroker) -> None:
    topic = "persistent://public/default/till"
    clients: list[pulsar.Client] = []

    def attach() -> None:
        old = pulsar.Client(broker.service_url, logger=_quiet())
        clients.append(old)
        old.subscribe(topic, "books").close()
        producer = old.create_producer(topic, producer_name="old-till")
        for number in range(5):
            producer.send(b"%d" % number)

    def drain() -> None:
        with (
            PulsarClient(broker.service_url) as client,
            client.stream_consumer("topic://public/default/till", subscription="books") as consumer,
        ):
            for _ in range(5):
                message = consumer.receive(timeout=20)
                assert message is not None
                consumer.acknowledge_cumulative(message)

    steps = {
        "attach a v4 client": attach,
        "detach the v4 client": lambda: clients[0].close(),
        "drain": drain,
    }
    play("migration", broker, steps)


def test_messages_are_read_and_written_by_their_schema(broker: MagnetarBroker) -> None:
    topic = "persistent://public/default/typed"
    definition = {
        "type": "record",
        "name": "Sale",
        "fields": [{"name": "name", "type": "string"}, {"name": "amount", "type": "int"}],
    }
    schema = Schema.avro(json.dumps(definition))
    with (
        PulsarClient(broker.service_url) as client,
        client.consumer(topic, "clerk", schema=schema) as consumer,
    ):
        with client.producer(topic, schema=schema) as producer:
            for number in range(4):
                producer.send({"name": "ada", "amount": number}, key=f"key-{number}")

        def receive() -> None:
            values = []
            for _ in range(5):
                message = consumer.receive(timeout=10)
                assert message is not None
                consumer.acknowledge(message)
                values.append(dict(message.value))
            assert values[-1] == {"name": "by hand", "amount": 9}
            consumer.close()

        play("messages", broker, {"receive what was written by hand": receive})


def test_tenants_grants_keys_and_transactions_are_administered(broker: MagnetarBroker) -> None:
    key, value = "loadBalancerNamespaceBundleMaxTopics", "777"
    with PulsarClient(broker.service_url) as client:
        begun: list[Transaction] = []

        def find_aborted() -> None:
            with pytest.raises(TransactionError):
                begun[0].commit()

        steps = {
            "begin a transaction": lambda: begun.append(client.transaction(timeout=300)),
            "find it aborted": find_aborted,
        }
        play("administer", broker, steps, key=key, value=value)


def test_reports_of_the_spark_jobs_are_shown(broker: MagnetarBroker, tmp_path: Path) -> None:
    findings = Findings(1200, 3, 0, 1, 2, 0)
    (tmp_path / "findings.json").write_text(json.dumps(asdict(findings)))
    verdict = Verdict(0, AutoScalePolicy(), 3, 1, 0.5, 24.0, 0, 4, 2, 1.0)
    told = [format_verdict(each, Price()) for each in (verdict, replace(verdict, number=1))]
    (tmp_path / "verdicts.json").write_text(json.dumps(told))
    files = [str(tmp_path / name) for name in ("findings.json", "verdicts.json")]
    play("reports", broker, files=files)


@contextmanager
def guarded() -> Iterator[tuple[MagnetarBroker, Mapping[str, str]]]:
    settings = {
        "authenticationEnabled": "true",
        "authenticationProviders": "token",
        "tokenSecretKey": "data:;base64," + base64.b64encode(KEY.key).decode(),
        "authorizationEnabled": "true",
        "superUserRoles": "root",
    }
    tokens = {role: sign_token({"sub": role}, KEY) for role in ("root", "reader")}
    with MagnetarBroker(set=settings) as started:
        yield started, tokens


def test_a_caller_sees_and_does_what_its_grants_say() -> None:
    with guarded() as (broker, tokens):
        with Admin(broker.admin_url, token=tokens["root"]) as admin:
            admin.tenants.create("shop", admin_roles=["boss"], allowed_clusters=["standalone"])
            for name in ("front", "back"):
                admin.namespaces.create(f"shop/{name}")
            admin.namespaces.grant("shop/front", "reader", ["consume"])
            admin.scalable_topics.create("topic://shop/front/orders")
            admin.scalable_topics.create("topic://shop/back/secret")
        play("rights", broker, tokens=tokens)


def test_a_client_certificate_needs_no_form(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.issue("localhost", host="localhost", file="broker")
    (port,) = find_ports(1)
    settings: Mapping[str, Setting] = {
        "webServicePortTls": port,
        "tlsCertificateFilePath": str(certificate),
        "tlsKeyFilePath": str(key),
        "tlsTrustCertsFilePath": str(authority.certificate),
        "authenticationEnabled": True,
        "authenticationProviders": "tls,token",
        "tokenSecretKey": "data:;base64," + base64.b64encode(KEY.key).decode(),
        "authorizationEnabled": True,
        "superUserRoles": "root",
        "advertisedAddress": "localhost",
    }
    own, own_key = authority.issue("root")
    with MagnetarBroker(set=settings) as broker:
        base = f"https://localhost:{port}"
        play("certificate", broker, base=base, certPath=str(own), keyPath=str(own_key))


def test_ten_thousand_topics_are_in_the_list(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with MagnetarBroker(data=data):
        pass  # the cluster and its namespaces are made
    write_topics(data, 10_000)
    with MagnetarBroker(data=data) as broker:
        play("many", broker)


def test_the_shipped_files_are_what_the_sources_make() -> None:
    done = subprocess.run(
        ["npm", "run", "--silent", "check"], cwd=CONSOLE, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr

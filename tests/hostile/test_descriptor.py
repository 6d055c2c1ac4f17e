"""Connections that only take up room: too many of them, or TLS handshakes that never end."""

from __future__ import annotations

import socket
import ssl
import sys
import urllib.request
from pathlib import Path

import pytest

from magnetar.testing.broker import MagnetarBroker, find_ports
from magnetar.wire.command import BaseCommand
from tests.authority import Authority
from tests.hostile.raw import RawClient, send_frame

TOPIC = "persistent://public/default/x"
_LIMITED = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 256))
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


class LimitedBroker(MagnetarBroker):
    """Started with a soft limit of 64 file descriptors and a hard one of 256."""

    def command(self) -> list[str]:
        return [sys.executable, "-c", _LIMITED, *super().command()[1:]]


def open_until_refused(port: int, count: int) -> list[socket.socket]:
    return [socket.create_connection(("127.0.0.1", port), timeout=20) for _ in range(count)]


def test_connections_beyond_the_file_descriptors_leave_the_journal_its_own() -> None:
    with LimitedBroker() as broker, RawClient(broker) as good:
        assert good.create_producer(TOPIC).type == BaseCommand.PRODUCER_SUCCESS
        idle = open_until_refused(broker.port, 300) + open_until_refused(broker.web_port, 100)
        for sequence in range(20):
            good.send_bytes(send_frame(sequence, bytes(1000)))
            assert good.receive().type == BaseCommand.SEND_RECEIPT
        last = idle[299]
        assert last.recv(1000), "the last one is told why"
        with urllib.request.urlopen(f"{broker.admin_url}/metrics", timeout=20) as reply:
            assert reply.status == 200
        assert good.create_producer(TOPIC + "2", 2).type == BaseCommand.PRODUCER_SUCCESS
        log = broker.log.read_text()
        assert "connection refused" in log and "Reached the maximum number of connections" in log
        assert log.count("connection refused") < 100, "not a line for each"
        assert "Too many open files" not in log
        for each in idle:
            each.close()


@pytest.fixture(scope="module")
def tls_ports() -> tuple[int, int]:
    binary, web = find_ports(2)
    return binary, web


def test_tls_handshakes_are_connections_and_have_little_time(
    tmp_path: Path, tls_ports: tuple[int, int]
) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.issue("localhost", host="localhost")
    settings = {
        "brokerServicePortTls": tls_ports[0],
        "webServicePortTls": tls_ports[1],
        "tlsCertificateFilePath": str(certificate),
        "tlsKeyFilePath": str(key),
        "brokerMaxConnections": 5,
        "maxHttpServerConnections": 5,
        "keepAliveIntervalSeconds": 2,
    }
    with MagnetarBroker(set=settings) as broker:
        for port in tls_ports:
            half = open_until_refused(port, 12)
            for each in half:
                try:
                    each.sendall(b"\x16\x03\x01")
                except ConnectionError:
                    pass  # closed already: there were too many
            for each in half:
                try:
                    assert each.recv(1) == b"", "closed, sooner or later"
                except ConnectionError:
                    pass
                each.close()
            context = ssl.create_default_context(cafile=str(authority.certificate))
            with (
                socket.create_connection(("127.0.0.1", port), timeout=20) as plain,
                context.wrap_socket(plain, server_hostname="localhost") as secure,
            ):
                assert secure.version() == "TLSv1.3"
        assert "Reached the maximum number of connections" in broker.log.read_text()
        with RawClient(broker) as raw:
            assert raw.create_producer(TOPIC).type == BaseCommand.PRODUCER_SUCCESS

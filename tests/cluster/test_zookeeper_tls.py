"""Metadata over TLS, on a ZooKeeper that asks for a certificate or a login."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from magnetar.app.metadata import open_zookeeper
from magnetar.errors import InvalidConfiguration, StoreUnavailable
from magnetar.metadata.store import ABSENT, MetadataStore
from magnetar.runtime.clock import SYSTEM
from magnetar.runtime.configuration import Configuration
from magnetar.testing.broker import find_ports
from magnetar.testing.zookeeper import ZookeeperServer
from tests.authority import Authority

MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule"


class TlsZookeeper(ZookeeperServer):
    def __init__(self, home: Path, authority: Authority) -> None:
        super().__init__(home=home / "zookeeper")
        self.secure_port = find_ports(1)[0]
        certificate, key = authority.issue("server", host="localhost")
        self._store = home / "server.pem"
        self._store.write_bytes(key.read_bytes() + certificate.read_bytes())
        self._trust = authority.certificate

    def configuration(self) -> str:
        lines = (
            f"secureClientPort={self.secure_port}",
            "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
            f"ssl.keyStore.location={self._store}",
            f"ssl.trustStore.location={self._trust}",
            "ssl.clientAuth=need",
        )
        return super().configuration() + "\n".join(lines) + "\n"


def describe_client(home: Path, authority: Authority, name: str) -> str:
    certificate, key = authority.issue(name)
    store = home / f"{name}.pem"
    store.write_bytes(key.read_bytes() + certificate.read_bytes())
    file = home / f"{name}.conf"
    file.write_text(
        "# as ZooKeeper's own client reads it\n"
        "zookeeper.client.secure=true\n"
        "zookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty\n"
        f"zookeeper.ssl.keyStore.location={store}\n"
        f"zookeeper.ssl.trustStore.location = {authority.certificate}\n"
        "zookeeper.ssl.hostnameVerification: false\n"
    )
    return str(file)


async def open_store(stack: AsyncExitStack, url: str, file: str) -> MetadataStore:
    settings = Configuration.load(
        None,
        (f"metadataStoreConfigPath={file}", "metadataStoreOperationTimeoutSeconds=5"),
        standalone=False,
    )
    return await open_zookeeper(stack, settings, url, SYSTEM)


# Kazoo does not close the socket of a handshake that failed.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_metadata_goes_over_tls_and_a_stranger_is_refused(tmp_path: Path) -> None:
    authority, stranger = Authority(tmp_path), Authority(tmp_path, "stranger")
    known = describe_client(tmp_path, authority, "broker")
    unknown = describe_client(tmp_path, stranger, "other")

    async def body(url: str) -> None:
        async with AsyncExitStack() as stack:
            store = await open_store(stack, url, known)
            await store.put("/big", b"x" * 500_000, expect=ABSENT)
            for number in range(200):
                await store.put(f"/many/{number:03d}", b"%d" % number, expect=ABSENT)
            found = await asyncio.gather(
                *(store.get(f"/many/{number:03d}") for number in range(200)), store.get("/big")
            )
            assert [each.value for each in found[:-1] if each] == [b"%d" % n for n in range(200)]
            assert found[-1] is not None and len(found[-1].value) == 500_000
            with pytest.raises(StoreUnavailable):
                await open_store(stack, url, unknown)

    with TlsZookeeper(tmp_path, authority) as server:
        asyncio.run(body(f"zk://localhost:{server.secure_port}/chroot"))


class LoginZookeeper(ZookeeperServer):
    """Takes only those who log in."""

    def configuration(self) -> str:
        lines = (
            "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
            "enforce.auth.enabled=true",
            "enforce.auth.schemes=sasl",
        )
        return super().configuration() + "\n".join(lines) + "\n"

    def arguments(self) -> list[str]:
        file = self.home / "server.jaas"
        file.write_text(f'Server {{ {MODULE} required user_broker="secret"; }};\n')
        return [f"-Djava.security.auth.login.config={file}", *super().arguments()]


def describe_login(home: Path, user: str, password: str) -> str:
    jaas, file = home / f"{user}.jaas", home / f"{user}.conf"
    jaas.write_text(
        f'// as Pulsar has it\nClient {{\n  {MODULE} required\n  username="{user}"\n'
        f'  password="{password}";\n}};\n'
    )
    file.write_text(f"java.security.auth.login.config={jaas}\n")
    return str(file)


def test_a_broker_logs_in_with_the_password_of_its_jaas_file(tmp_path: Path) -> None:
    known = describe_login(tmp_path, "broker", "secret")
    wrong = describe_login(tmp_path, "stranger", "secret")

    async def body(server: ZookeeperServer) -> None:
        async with AsyncExitStack() as stack:
            store = await open_store(stack, server.new_url(), known)
            await store.put("/a", b"x", expect=ABSENT)
            await asyncio.to_thread(server.restart)  # the session goes on, and logs in again
            found = await store.get("/a")
            assert found is not None and found.value == b"x"
            with pytest.raises(StoreUnavailable, match="No login at ZooKeeper"):
                await open_store(stack, server.new_url(), wrong)

    with LoginZookeeper(home=tmp_path / "zookeeper") as server:
        asyncio.run(body(server))


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("zookeeper.client.secure=true\nzookeeper.ssl.keyStore.location=/nowhere", "/nowhere"),
        ("zookeeper.client.secure=true\nzookeeper.ssl.trustStore.location={file}", "not PEM"),
        ("zookeeper.sasl.client=true", "JAAS"),
        ("java.security.auth.login.config=/nowhere", "/nowhere"),
        ("java.security.auth.login.config={file}", "Kerberos"),
    ],
)
def test_a_file_that_cannot_be_followed_is_refused_by_name(
    tmp_path: Path, text: str, named: str
) -> None:
    file = tmp_path / "client.conf"
    file.write_text(text.format(file=file))

    async def body() -> None:
        async with AsyncExitStack() as stack:
            await open_store(stack, "zk://127.0.0.1:1", str(file))

    with pytest.raises(InvalidConfiguration, match=named):
        asyncio.run(body())

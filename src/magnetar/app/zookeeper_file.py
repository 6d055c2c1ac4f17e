"""The file with settings of ZooKeeper's own client, as far as they are about TLS."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from magnetar.errors import InvalidConfiguration
from magnetar.metadata.backends.zookeeper_wire import ZookeeperTls

_SECURE: Final = "zookeeper.client.secure"
_KEY: Final = "zookeeper.ssl.keyStore.location"
_TRUST: Final = "zookeeper.ssl.trustStore.location"
_VERIFY: Final = "zookeeper.ssl.hostnameVerification"
_SASL: Final = "zookeeper.sasl.client"


def load_tls(path: str) -> ZookeeperTls | None:
    """What the file at `path` asks for; None for a plain connection, as without a file.

    The stores it names are PEM files: the one with the key has the certificate too.
    """
    if not path:
        return None
    try:
        settings = parse_properties(Path(path).read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidConfiguration(f"metadataStoreConfigPath: {path}: {error}") from None
    if settings.get(_SASL, "false").lower() == "true":
        raise InvalidConfiguration(f"{path}: {_SASL}: SASL to ZooKeeper is not supported; use TLS")
    if settings.get(_SECURE, "false").lower() != "true":
        return None
    for name in (_KEY, _TRUST):
        _check_pem(path, name, settings.get(name, ""))
    return ZookeeperTls(
        trust=settings.get(_TRUST, ""),
        certificate=settings.get(_KEY, ""),
        verifies_host=settings.get(_VERIFY, "true").lower() == "true",
    )


def parse_properties(text: str) -> Mapping[str, str]:
    """Lines `key=value` or `key: value`; those that begin with # or ! are comments."""
    found: dict[str, str] = {}
    for line in map(str.strip, text.splitlines()):
        if line and line[0] not in "#!":
            ends = [at for at in (line.find("="), line.find(":")) if at >= 0]
            end = min(ends, default=len(line))
            found[line[:end].strip()] = line[end + 1 :].strip()
    return found


def _check_pem(path: str, name: str, file: str) -> None:
    if not file:
        return
    try:
        content = Path(file).read_bytes()
    except OSError as error:
        raise InvalidConfiguration(f"{path}: {name}: {error}") from None
    if b"-----BEGIN" not in content:
        raise InvalidConfiguration(f"{path}: {name}: {file} is not PEM; other stores are not read")

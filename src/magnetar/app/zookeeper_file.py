"""The file with settings of ZooKeeper's own client, as far as they are about TLS and the login."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from magnetar.errors import InvalidConfiguration
from magnetar.metadata.backends.zookeeper_sasl import ZookeeperLogin
from magnetar.metadata.backends.zookeeper_wire import ZookeeperTls

_SECURE: Final = "zookeeper.client.secure"
_KEY: Final = "zookeeper.ssl.keyStore.location"
_TRUST: Final = "zookeeper.ssl.trustStore.location"
_VERIFY: Final = "zookeeper.ssl.hostnameVerification"
_SASL: Final = "zookeeper.sasl.client"
_SECTION: Final = "zookeeper.sasl.clientconfig"
_LOGIN: Final = "java.security.auth.login.config"
_MODULE: Final = "org.apache.zookeeper.server.auth.DigestLoginModule"


def load_tls(path: str) -> ZookeeperTls | None:
    """What the file at `path` asks for; None for a plain connection, as without a file.

    The stores it names are PEM files: the one with the key has the certificate too.
    """
    settings = _load(path)
    if settings.get(_SECURE, "false").lower() != "true":
        return None
    for name in (_KEY, _TRUST):
        _check_pem(path, name, settings.get(name, ""))
    return ZookeeperTls(
        trust=settings.get(_TRUST, ""),
        certificate=settings.get(_KEY, ""),
        verifies_host=settings.get(_VERIFY, "true").lower() == "true",
    )


def load_login(path: str) -> ZookeeperLogin | None:
    """The user and password of the JAAS file that the file at `path` names; None without one."""
    settings = _load(path)
    asked = settings.get(_SASL, "").lower()
    file = settings.get(_LOGIN, "")
    if asked == "false" or not (asked or file):
        return None
    if not file:
        raise InvalidConfiguration(
            f"{path}: {_SASL}: name the JAAS file with the user and the password in {_LOGIN}"
        )
    try:
        text = Path(file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidConfiguration(f"{path}: {_LOGIN}: {error}") from None
    section = settings.get(_SECTION, "") or "Client"
    found = parse_login(text, section)
    if found is None:
        raise InvalidConfiguration(
            f"{file}: no {section} {{ {_MODULE} required username=… password=…; }}; other modules,"
            " such as Kerberos, are not supported"
        )
    return found


def parse_login(text: str, section: str) -> ZookeeperLogin | None:
    """Of the section of a JAAS file; None where it has no user and password."""
    text = re.sub(r"/\*.*?\*/|^\s*(?://|#).*?$", "", text, flags=re.DOTALL | re.MULTILINE)
    found = re.search(rf"\b{re.escape(section)}\s*\{{(.*?)\}}\s*;", text, re.DOTALL)
    if found is None or _MODULE not in found[1]:
        return None
    options = dict(re.findall(r'(\w+)\s*=\s*"([^"]*)"', found[1]))
    if "username" not in options or "password" not in options:
        return None
    return ZookeeperLogin(options["username"], options["password"])


def _load(path: str) -> Mapping[str, str]:
    if not path:
        return {}
    try:
        return parse_properties(Path(path).read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidConfiguration(f"metadataStoreConfigPath: {path}: {error}") from None


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

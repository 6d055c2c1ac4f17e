"""Users and passwords of a `.htpasswd` file."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from typing import Final

from magnetar.broker.authentication.provider import Credential
from magnetar.errors import InvalidConfiguration, Unauthenticated
from magnetar.model.limit import make_limits
from magnetar.rules.handshake import Identity
from magnetar.rules.password import is_password, parse_htpasswd
from magnetar.runtime.configuration import Configuration
from magnetar.runtime.credential import load_credential

_PREFIX: Final = "basic "
_DATA_BYTES_MAX: Final = 4096
_KNOWN_MAX: Final = 1024


class BasicProvider:
    method: Final = "basic"

    def __init__(self, users: Mapping[str, str], *, password_bytes_max: int) -> None:
        self._users = users
        self._password_bytes_max = password_bytes_max
        self._key = secrets.token_bytes(32)
        self._known: dict[bytes, None] = {}
        """Marks of what was right before: the form of the file makes every check slow."""

    def is_slow(self, credential: Credential) -> bool:
        try:
            data, *_ = self._parse(credential)
        except Unauthenticated:
            return False
        return self._mark(data) not in self._known

    def _parse(self, credential: Credential) -> tuple[bytes, str, bytes]:
        data = _data_of(credential)
        user, separator, password = data.partition(b":")
        if len(data) > _DATA_BYTES_MAX or not separator or not password or b":" in password:
            raise Unauthenticated("Basic credentials are user:password")
        if len(password) > self._password_bytes_max:
            most = self._password_bytes_max
            raise Unauthenticated(f"The password is longer than the {most} bytes that are allowed")
        return data, user.decode("utf-8", errors="replace"), password

    def _mark(self, data: bytes) -> bytes:
        return hmac.new(self._key, data, hashlib.sha256).digest()

    def authenticate(self, credential: Credential, *, now_ms: int) -> Identity:
        data, name, password = self._parse(credential)
        mark = self._mark(data)
        if mark not in self._known:
            if not is_password(self._users, name, password):
                raise Unauthenticated("Unknown user or invalid password")
            if len(self._known) >= _KNOWN_MAX:
                self._known.clear()
            self._known[mark] = None
        return Identity(name)


def _data_of(credential: Credential) -> bytes:
    if credential.data is not None:
        return credential.data
    header = credential.header or ""
    if not header.lower().startswith(_PREFIX):
        raise Unauthenticated('Authentication token has to be started with "Basic "')
    try:
        return base64.b64decode(header[len(_PREFIX) :].strip(), validate=True)
    except (binascii.Error, ValueError):
        raise Unauthenticated("Basic credentials are not base64") from None


def make_basic_provider(config: Configuration) -> BasicProvider:
    if not config.basicAuthConf:
        raise InvalidConfiguration("the basic provider needs basicAuthConf: a .htpasswd file")
    data = load_credential("basicAuthConf", config.basicAuthConf)
    try:
        users = parse_htpasswd(data.decode())
    except UnicodeDecodeError:
        raise InvalidConfiguration("basicAuthConf is not a text file") from None
    return BasicProvider(users, password_bytes_max=make_limits(config.get).password_bytes)

"""Keys and tokens where settings and command lines may put them: a file, a URL, the environment.

A refusal never repeats what was given: it may be the secret itself.
"""

from __future__ import annotations

import base64
import binascii
import os
from pathlib import Path
from typing import Final
from urllib.parse import unquote, unquote_to_bytes

from magnetar.errors import InvalidConfiguration

_BYTES_MAX: Final = 1 << 20
_ENVIRONMENT: Final = "env:"


def load_credential(name: str, text: str) -> bytes:
    """The bytes behind `text`, as Pulsar reads its keys; `name` is what a refusal speaks of.

    A `file:` URL, a `data:` URL, the path of a file that exists, or base64; and `env:NAME`, for
    any of these in a variable of the environment.
    """
    text = text.strip()
    if text.startswith(_ENVIRONMENT):
        variable = text.removeprefix(_ENVIRONMENT)
        if variable not in os.environ:
            raise InvalidConfiguration(f"{name}: the environment has no variable {variable}")
        text = os.environ[variable].strip()
    if text.startswith("data:"):
        return _decode_data_url(name, text)
    if text.startswith("file:"):
        return _read(name, Path(_file_of(text)))
    if _is_file(text):
        return _read(name, Path(text))
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidConfiguration(
            f"{name} is no file that exists, no file: or data: URL, no env:NAME and no base64"
        ) from None


def load_text(name: str, text: str) -> str:
    """A token or password: the text itself, or what a `file:` URL or `env:NAME` holds."""
    if text.startswith(_ENVIRONMENT):
        variable = text.removeprefix(_ENVIRONMENT)
        if variable not in os.environ:
            raise InvalidConfiguration(f"{name}: the environment has no variable {variable}")
        return os.environ[variable].strip()
    if text.startswith("file:"):
        data = _read(name, Path(_file_of(text)))
    elif text.startswith("data:"):
        data = _decode_data_url(name, text)
    else:
        return text.strip()
    try:
        return data.decode().strip()
    except UnicodeDecodeError:
        raise InvalidConfiguration(f"{name}: what it names is not text") from None


def _file_of(url: str) -> str:
    path = url.removeprefix("file:")
    if path.startswith("//"):
        path = path[2:].removeprefix("localhost")
    return unquote(path)


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):  # too long for a path, or with a null byte: base64, then
        return False


def _read(name: str, path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(_BYTES_MAX + 1)
    except OSError as error:
        raise InvalidConfiguration(f"{name}: {path}: {error.strerror or error}") from None
    if len(data) > _BYTES_MAX:
        raise InvalidConfiguration(f"{name}: {path} is larger than {_BYTES_MAX} bytes")
    return data


def _decode_data_url(name: str, url: str) -> bytes:
    head, separator, body = url.removeprefix("data:").partition(",")
    if not separator:
        raise InvalidConfiguration(f"{name} is not a data: URL: there is no comma")
    data = unquote_to_bytes(body)
    if not head.endswith(";base64"):
        return data
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidConfiguration(f"{name}: the data: URL is not base64") from None

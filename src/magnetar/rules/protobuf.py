"""The definition of a PROTOBUF_NATIVE schema: a set of files and the message that is the root."""

from __future__ import annotations

import base64
import json
from functools import lru_cache
from typing import Final

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

_NAME_LETTERS_MAX: Final = 1024
_EXTENSION_RANGES_MAX: Final = 1000
_CACHED_BYTES_MAX: Final = 16 << 10
_CACHED_MAX: Final = 128


class ProtobufUnreadable(ValueError):
    """The definition does not describe a message; the message says why."""


def parse_root_message(definition: bytes) -> str:
    """The full name of the root message, once all its files fit together."""
    if len(definition) > _CACHED_BYTES_MAX:
        return _parse(definition)
    return _parse_cached(definition)


def _parse(definition: bytes) -> str:
    try:
        parts = json.loads(definition)
        encoded = parts["fileDescriptorSet"]
        root_file = parts["rootFileDescriptorName"]
        root_message = parts["rootMessageTypeName"]
        files = FileDescriptorSet.FromString(base64.b64decode(encoded, validate=True))
    except RecursionError:
        raise ProtobufUnreadable("it is nested too deeply") from None
    except (ValueError, TypeError, KeyError) as error:
        raise ProtobufUnreadable(f"not a definition of protobuf files: {error}") from None
    except DecodeError:
        raise ProtobufUnreadable("fileDescriptorSet cannot be decoded") from None
    if not _is_text(root_file) or not _is_text(root_message):
        raise ProtobufUnreadable("the names of the root file and the root message are not text")
    for file in files.file:
        _check_size(file)
    pool = _build_pool({file.name: file for file in files.file}, root_file)
    try:
        found = pool.FindMessageTypeByName(root_message)
    except KeyError:
        raise ProtobufUnreadable(f"{root_file} has no message {root_message}") from None
    if found.file.name != root_file:
        raise ProtobufUnreadable(f"{root_message} is not in {root_file}")
    return str(found.full_name)


_parse_cached = lru_cache(maxsize=_CACHED_MAX)(_parse)


def _is_text(name: object) -> bool:
    """JSON can hold halves of characters, which nothing else can."""
    return isinstance(name, str) and name.encode(errors="replace").decode() == name


def _check_size(file: FileDescriptorProto) -> None:
    """Building a pool costs the length of every full name, and compares all extension ranges."""
    ranges = 0
    waiting = [(len(file.package), each) for each in file.message_type]
    if len(file.package) > _NAME_LETTERS_MAX:
        raise ProtobufUnreadable(
            f"the name of a package is longer than {_NAME_LETTERS_MAX} characters"
        )
    while waiting:
        outer, message = waiting.pop()
        letters = outer + 1 + len(message.name)
        ranges += len(message.extension_range)
        if letters > _NAME_LETTERS_MAX:
            raise ProtobufUnreadable(
                f"the name of a message is longer than {_NAME_LETTERS_MAX} characters"
            )
        if ranges > _EXTENSION_RANGES_MAX:
            raise ProtobufUnreadable(f"a file has over {_EXTENSION_RANGES_MAX} extension ranges")
        waiting += [(letters, each) for each in message.nested_type]


def _build_pool(files: dict[str, FileDescriptorProto], root: str) -> DescriptorPool:
    """Add the root file behind everything it imports."""
    pool = DescriptorPool()
    added: set[str] = set()
    waiting: list[tuple[str, bool]] = [(root, False)]
    under_way: set[str] = set()
    while waiting:
        name, ready = waiting.pop()
        if name in added:
            continue
        if name not in files:
            raise ProtobufUnreadable(f"{name} is not among the files")
        if ready:
            try:
                pool.AddSerializedFile(files[name].SerializeToString())
            except TypeError as error:
                raise ProtobufUnreadable(f"{name} does not fit: {error}") from None
            added.add(name)
        elif name in under_way:
            raise ProtobufUnreadable(f"{name} imports itself")
        else:
            under_way.add(name)
            waiting.append((name, True))
            waiting.extend((imported, False) for imported in files[name].dependency)
    return pool

"""The definition of a PROTOBUF_NATIVE schema: a set of files and the message that is the root."""

from __future__ import annotations

import base64
import json
from functools import lru_cache

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError


class ProtobufUnreadable(ValueError):
    """The definition does not describe a message; the message says why."""


@lru_cache(maxsize=128)
def parse_root_message(definition: bytes) -> str:
    """The full name of the root message, once all its files fit together."""
    try:
        parts = json.loads(definition)
        encoded = parts["fileDescriptorSet"]
        root_file = parts["rootFileDescriptorName"]
        root_message = parts["rootMessageTypeName"]
        files = FileDescriptorSet.FromString(base64.b64decode(encoded, validate=True))
    except (ValueError, TypeError, KeyError) as error:
        raise ProtobufUnreadable(f"not a definition of protobuf files: {error}") from None
    except DecodeError:
        raise ProtobufUnreadable("fileDescriptorSet cannot be decoded") from None
    if not isinstance(root_file, str) or not isinstance(root_message, str):
        raise ProtobufUnreadable("the names of the root file and the root message are not text")
    pool = _build_pool({file.name: file for file in files.file}, root_file)
    try:
        found = pool.FindMessageTypeByName(root_message)
    except KeyError:
        raise ProtobufUnreadable(f"{root_file} has no message {root_message}") from None
    if found.file.name != root_file:
        raise ProtobufUnreadable(f"{root_message} is not in {root_file}")
    return str(found.full_name)


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

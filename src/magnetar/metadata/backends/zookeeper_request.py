"""What is asked of a ZooKeeper server, as bytes, and how its answers are read.

Requests are put into bytes where they are made, so a path that has no bytes is refused there. The
operation codes and record layouts are those of ZooKeeper's client protocol; kazoo has classes for
most of them, but none for a persistent watch, and its transactions lose the state of what they
created.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from kazoo.exceptions import EXCEPTIONS

from magnetar.errors import BadRequest, InvalidPath

CREATED: Final = 1
DELETED: Final = 2
CHANGED: Final = 3

ANY: Final = -1
"""The version that fits every node."""

PACKET_BYTES_MAX: Final = 1_000_000
"""A server drops a connection that sends more than its `jute.maxbuffer`, 1,048,575 unless
configured; so nothing that comes near it is ever sent."""

_INT: Final = struct.Struct("!i")
_MULTI: Final = struct.Struct("!iBi")
_STAT: Final = struct.Struct("!qqqqiiiqiiq")
_EVENT: Final = struct.Struct("!ii")
_EPHEMERAL: Final = 1
_SEQUENTIAL: Final = 2
_RECURSIVE: Final = 1
_END_OF_MULTI: Final = _MULTI.pack(-1, 1, -1)
_OPEN_TO_ALL: Final = (
    _INT.pack(1) + _INT.pack(31) + _INT.pack(5) + b"world" + _INT.pack(6) + b"anyone"
)
_CONTAINER: Final = -(1 << 63)


class Node(NamedTuple):
    """The state of a node, in the order the server sends it."""

    created_zxid: int
    modified_zxid: int
    created_ms: int
    modified_ms: int
    version: int
    children_version: int
    acl_version: int
    owner: int
    value_bytes: int
    children: int
    children_zxid: int

    @property
    def is_ephemeral(self) -> bool:
        return self.owner not in (0, _CONTAINER)

    @property
    def is_bare(self) -> bool:
        """Whether the node is there for those below it only and holds no record.

        A write of an empty value moves the version on, so that it differs from this.
        """
        return not self.value_bytes and not self.version and not self.is_ephemeral


class Created(NamedTuple):
    path: str
    node: Node


class Found(NamedTuple):
    value: bytes
    node: Node


@dataclass(frozen=True, slots=True)
class Request:
    """`deserialize` and `type` are what kazoo calls them."""

    type: int
    body: bytes
    deserialize: Callable[[bytes, int], Any]

    def serialize(self) -> bytes:
        return self.body


def create(
    path: str, value: bytes, *, ephemeral: bool = False, sequential: bool = False
) -> Request:
    """A sequential node gets ten digits behind its name, which count what was made beside it."""
    flags = (_EPHEMERAL if ephemeral else 0) | (_SEQUENTIAL if sequential else 0)
    body = _text(path) + _buffer(path, value) + _OPEN_TO_ALL + _INT.pack(flags)
    return Request(15, body, _read_created)


def set_value(path: str, value: bytes, version: int) -> Request:
    return Request(5, _text(path) + _buffer(path, value) + _INT.pack(version), _read_node)


def delete(path: str, version: int) -> Request:
    return Request(2, _text(path) + _INT.pack(version), _read_nothing)


def get(path: str) -> Request:
    return Request(4, _text(path) + b"\0", _read_found)


def look(path: str) -> Request:
    """The state of a node; None when it is missing."""
    return Request(3, _text(path) + b"\0", _read_node)


def children(path: str) -> Request:
    return Request(8, _text(path) + b"\0", _read_children)


def sync(path: str) -> Request:
    return Request(9, _text(path), _read_nothing)


def watch_below(path: str) -> Request:
    """Tell of every change of the node and of all below it, until the connection ends."""
    return Request(106, _text(path) + _INT.pack(_RECURSIVE), _read_nothing)


def multi(requests: Sequence[Request]) -> Request:
    """All of them or none; the answer has one outcome, or one exception, for each."""
    parts = [_MULTI.pack(each.type, 0, -1) + each.body for each in requests]
    body = b"".join([*parts, _END_OF_MULTI])
    if len(body) > PACKET_BYTES_MAX:
        raise BadRequest(
            f"A metadata transaction of {len(body)} bytes is over the {PACKET_BYTES_MAX}"
            " that ZooKeeper takes"
        )
    return Request(14, body, _read_multi)


def read_event(data: bytes, offset: int) -> tuple[int, str]:
    kind, _ = _EVENT.unpack_from(data, offset)
    path, _ = _read_text(data, offset + _EVENT.size)
    return kind, path


def _text(text: str) -> bytes:
    try:
        encoded = text.encode()
    except UnicodeEncodeError:
        raise InvalidPath(f"Invalid metadata path: {text!r}") from None
    return _INT.pack(len(encoded)) + encoded


def _buffer(path: str, value: bytes) -> bytes:
    if len(value) > PACKET_BYTES_MAX:
        raise BadRequest(
            f"A record of {len(value)} bytes at {path} is over the {PACKET_BYTES_MAX}"
            " that ZooKeeper takes"
        )
    return _INT.pack(len(value)) + value


def _read_text(data: bytes, offset: int) -> tuple[str, int]:
    (length,) = _INT.unpack_from(data, offset)
    start = offset + _INT.size
    end = start + max(length, 0)
    return data[start:end].decode(), end


def _read_nothing(data: bytes, offset: int) -> None:
    return None


def _read_node(data: bytes, offset: int) -> Node:
    return Node._make(_STAT.unpack_from(data, offset))


def _read_found(data: bytes, offset: int) -> Found:
    (length,) = _INT.unpack_from(data, offset)
    start = offset + _INT.size
    end = start + max(length, 0)
    return Found(data[start:end], _read_node(data, end))


def _read_created(data: bytes, offset: int) -> Created:
    path, offset = _read_text(data, offset)
    return Created(path, _read_node(data, offset))


def _read_children(data: bytes, offset: int) -> list[str]:
    (count,) = _INT.unpack_from(data, offset)
    offset += _INT.size
    names: list[str] = []
    unpack = _INT.unpack_from
    for _ in range(count):
        (length,) = unpack(data, offset)
        end = offset + 4 + length
        names.append(data[offset + 4 : end].decode())
        offset = end
    return names


def _read_multi(data: bytes, offset: int) -> list[Any]:
    outcomes: list[Any] = []
    while True:
        kind, done, _ = _MULTI.unpack_from(data, offset)
        offset += _MULTI.size
        if done:
            return outcomes
        match kind:
            case 15:
                path, offset = _read_text(data, offset)
                outcomes.append(Created(path, _read_node(data, offset)))
                offset += _STAT.size
            case 5:
                outcomes.append(_read_node(data, offset))
                offset += _STAT.size
            case 2:
                outcomes.append(None)
            case -1:
                (code,) = _INT.unpack_from(data, offset)
                offset += _INT.size
                outcomes.append(EXCEPTIONS[code]())
            case _:
                raise ValueError(f"a transaction of ZooKeeper answered with operation {kind}")

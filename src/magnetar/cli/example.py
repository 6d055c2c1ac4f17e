"""What stands for a value in the example of a command: by its name, else by how it is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from magnetar.operation.row import Kind, Parameter, Reader

_BY_NAME: Final[Mapping[str, str]] = {
    "tenant": "acme",
    "namespace": "acme/shop",
    "topic": "acme/shop/orders",
    "subscription": "billing",
    "cluster": "standalone",
    "peers": "standalone",
    "domain": "rack-1",
    "broker": "localhost:8080",
    "bundle": "0x00000000_0xffffffff",
    "role": "alice",
    "roles": "alice,bob",
    "actions": "produce,consume",
    "key": "team",
    "value": "blue",
    "filename": "schema.json",
    "properties": "team=blue",
    "right": "1",
    "partitions": "4",
    "segments": "4",
}
_BY_READER: Final[Mapping[Reader, str]] = {
    Reader.SIZE: "10G",
    Reader.DURATION_S: "1h",
    Reader.DURATION_MS: "10s",
    Reader.HASH: "0x8000",
    Reader.PAIRS: "team=blue",
    Reader.DATETIME_MS: "2026-11-16T12:00:00Z",
    Reader.AGO_MS: "1h",
    Reader.MOMENT_MS: "18:00",
    Reader.DURATION_MIN: "7d",
    Reader.SIZE_MB: "10G",
    Reader.FRACTION: "0.5",
    Reader.FILE: "policy.json",
}
_BY_KIND: Final[Mapping[Kind, str]] = {
    Kind.FLAG: "",
    Kind.NUMBER: "1",
    Kind.NAMES: "standalone",
    Kind.PROPERTIES: "team=blue",
    Kind.MESSAGE_ID: "12:0",
}


def example_of(parameter: Parameter) -> str:
    if parameter.choices:
        return parameter.choices[0]
    if parameter.reader is not None and parameter.reader in _BY_READER:
        return _BY_READER[parameter.reader]
    return _BY_NAME.get(parameter.name) or _BY_KIND.get(parameter.kind, "name")

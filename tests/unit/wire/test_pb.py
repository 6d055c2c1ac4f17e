"""The generated modules say what the .proto files say, and run on every runtime we allow."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from grpc_tools import protoc  # type: ignore[import-untyped]

from magnetar.wire.pb import bookkeeper_pb2, pulsar_pb2, storage_pb2

ROOT = Path(__file__).resolve().parents[3]
FOLDER = Path(pulsar_pb2.__file__).parent


def test_the_generated_modules_are_current(tmp_path: Path) -> None:
    target = tmp_path / "descriptors"
    source = FOLDER.parents[2]
    protos = [str(path) for path in sorted(FOLDER.glob("*.proto"))]
    assert protoc.main(["", f"-I{source}", f"--descriptor_set_out={target}", *protos]) == 0
    compiled = FileDescriptorSet.FromString(target.read_bytes())
    for fresh, module in zip(compiled.file, (bookkeeper_pb2, pulsar_pb2, storage_pb2), strict=True):
        committed = FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(committed)
        assert _without_json_names(fresh) == _without_json_names(committed)


def _without_json_names(file: FileDescriptorProto) -> FileDescriptorProto:
    """Derived names, which only some of the ways to a descriptor fill in."""
    copied = FileDescriptorProto.FromString(file.SerializeToString())
    waiting = list(copied.message_type)
    while waiting:
        message = waiting.pop()
        waiting.extend(message.nested_type)
        for field in message.field:
            field.ClearField("json_name")
    return copied


@pytest.mark.parametrize("name", ["bookkeeper_pb2.py", "pulsar_pb2.py", "storage_pb2.py"])
def test_the_generated_modules_accept_the_oldest_runtime_we_allow(name: str) -> None:
    found = re.search(r"Protobuf Python Version: (\d+)\.(\d+)", (FOLDER / name).read_text())
    assert found is not None
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = next(need for need in project["dependencies"] if need.startswith("protobuf"))
    oldest = re.search(r">=(\d+)\.(\d+)", needed)
    assert oldest is not None
    assert tuple(map(int, found.groups())) <= tuple(map(int, oldest.groups()))

"""Protobuf messages as schemas: their definitions, and reading them without generated code."""

from __future__ import annotations

import base64
import json
from functools import lru_cache
from typing import Any, Final

from google.protobuf import json_format, message_factory
from google.protobuf.descriptor import (
    Descriptor,
    EnumDescriptor,
    FieldDescriptor,
    FileDescriptor,
)
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message

from magnetar.rules.protobuf import ProtobufUnreadable, parse_root_message

_AVRO_TYPES: Final = {
    FieldDescriptor.CPPTYPE_INT32: "int",
    FieldDescriptor.CPPTYPE_UINT32: "int",
    FieldDescriptor.CPPTYPE_INT64: "long",
    FieldDescriptor.CPPTYPE_UINT64: "long",
    FieldDescriptor.CPPTYPE_FLOAT: "float",
    FieldDescriptor.CPPTYPE_DOUBLE: "double",
    FieldDescriptor.CPPTYPE_BOOL: "boolean",
}
_ZEROES: Final = {"boolean": False, "float": 0.0, "double": 0.0, "int": 0, "long": 0}


def format_native_definition(descriptor: Descriptor) -> bytes:
    """The definition of a PROTOBUF_NATIVE schema: all files that the message needs."""
    files = FileDescriptorSet()
    _collect(descriptor.file, files, set())
    definition = {
        "fileDescriptorSet": base64.b64encode(files.SerializeToString()).decode(),
        "rootMessageTypeName": descriptor.full_name,
        "rootFileDescriptorName": descriptor.file.name,
    }
    return json.dumps(definition, separators=(",", ":")).encode()


def format_avro_definition(descriptor: Descriptor) -> bytes:
    """The definition of a PROTOBUF schema: the Avro record that has the message's fields."""
    return json.dumps(_define_record(descriptor, set()), separators=(",", ":")).encode()


def parse_message(kind: type[Message], data: bytes) -> Message:
    try:
        return kind.FromString(data)
    except DecodeError:
        raise ProtobufUnreadable(f"not a {kind.DESCRIPTOR.full_name}") from None


def read_message(definition: bytes, data: bytes) -> dict[str, Any]:
    """The fields of a message by name, as its PROTOBUF_NATIVE definition describes them."""
    message = parse_message(_message_class(definition), data)
    fields: dict[str, Any] = json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    return _restore_numbers(message, fields)


def _restore_numbers(message: Message, fields: dict[str, Any]) -> dict[str, Any]:
    """JSON spells 64-bit numbers and bytes as text; here they are what they are."""
    for field in message.DESCRIPTOR.fields:
        if field.name not in fields or field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
            continue
        value = getattr(message, field.name)
        if field.cpp_type != FieldDescriptor.CPPTYPE_MESSAGE:
            fields[field.name] = list(value) if field.is_repeated else value
        elif field.message_type is not None and _is_plain(field.message_type):
            shown = fields[field.name]
            pairs = zip(value, shown, strict=True) if field.is_repeated else ((value, shown),)
            for inner, inner_fields in pairs:
                _restore_numbers(inner, inner_fields)
    return fields


def _is_plain(kind: Any) -> bool:
    """Whether JSON shows the message field by field: neither a map nor a well-known type."""
    return not kind.GetOptions().map_entry and not kind.full_name.startswith("google.protobuf.")


@lru_cache(maxsize=128)
def _message_class(definition: bytes) -> type[Message]:
    root = parse_root_message(definition)  # says what is wrong, if anything is
    encoded = json.loads(definition)["fileDescriptorSet"]
    files = FileDescriptorSet.FromString(base64.b64decode(encoded))
    pool = DescriptorPool()
    waiting = {file.name: file for file in files.file}
    while waiting:
        for name in [n for n, f in waiting.items() if waiting.keys().isdisjoint(f.dependency)]:
            pool.AddSerializedFile(waiting.pop(name).SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(root))


def _collect(file: FileDescriptor, files: FileDescriptorSet, seen: set[str]) -> None:
    """Every file behind those it imports."""
    if file.name in seen:
        return
    seen.add(file.name)
    for imported in file.dependencies:
        _collect(imported, files, seen)
    copy = FileDescriptorProto()
    file.CopyToProto(copy)
    files.file.append(copy)


def _define_record(descriptor: Descriptor, named: set[str]) -> Any:
    if descriptor.full_name in named:
        return descriptor.full_name
    named.add(descriptor.full_name)
    definition: dict[str, Any] = {"type": "record", "name": descriptor.name}
    namespace = descriptor.full_name.rpartition(".")[0]
    if namespace:
        definition["namespace"] = namespace
    definition["fields"] = [_define_field(field, named) for field in descriptor.fields]
    return definition


def _define_field(field: FieldDescriptor, named: set[str]) -> dict[str, Any]:
    single = _define_single(field, named)
    if field.is_repeated:
        return {"name": field.name, "type": {"type": "array", "items": single}, "default": []}
    if field.message_type is not None:
        return {"name": field.name, "type": ["null", single], "default": None}
    defined: dict[str, Any] = {"name": field.name, "type": single}
    if field.enum_type is not None:
        defined["default"] = field.enum_type.values[0].name
    else:
        defined["default"] = _ZEROES.get(single, "") if isinstance(single, str) else ""
    return defined


def _define_single(field: FieldDescriptor, named: set[str]) -> Any:
    if field.message_type is not None:
        return _define_record(field.message_type, named)
    if field.enum_type is not None:
        return _define_enum(field.enum_type, named)
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return "bytes" if field.type == FieldDescriptor.TYPE_BYTES else "string"
    return _AVRO_TYPES[field.cpp_type]


def _define_enum(kind: EnumDescriptor, named: set[str]) -> Any:
    if kind.full_name in named:
        return kind.full_name
    named.add(kind.full_name)
    symbols = [value.name for value in kind.values]
    definition: dict[str, Any] = {"type": "enum", "name": kind.name, "symbols": symbols}
    namespace = kind.full_name.rpartition(".")[0]
    if namespace:
        definition["namespace"] = namespace
    return definition

"""Write client/admin/operation.py: a method of the async admin client for each row of the table.

python tools/generate_operation.py           write the module
python tools/generate_operation.py --check   fail when it is not what would be written

Rows that say `is_written` are left out: their methods do more, and are written by hand.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from magnetar.operation.row import REQUIRED, Answer, Form, Kind, Operation, Parameter, Place, Result
from magnetar.operation.table import all_operations

ROOT = Path(__file__).parent.parent
TARGET = ROOT / "src" / "magnetar" / "client" / "admin" / "operation.py"
HEAD = '''\
"""The calls of the admin REST API, written by tools/generate_operation.py from the operations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from magnetar.client.admin.transport import (
    Document,
    Documents,
    Grants,
    Ids,
    Names,
    Transport,
    format_optional,
    format_path,
)
from magnetar.client.admin.value import (
    StoredEntry,
    Version,
    Versions,
    decode_entry,
    decode_id,
    decode_ids,
    decode_version,
    decode_versions,
    encode_id,
    format_bare,
    format_namespace,
    format_topic,
)
from magnetar.client.message_id import LATEST_ID, MessageId

if TYPE_CHECKING:
{answers}
'''
# How a result is made of a call: what comes before the call and what after it.
DECODED = {
    Result.TEXT: ("(", ").body.decode().strip().strip('\"')"),
    Result.MAYBE_TEXT: ("(", ").body.decode().strip('\"') or None"),
    Result.ENTRY: ("decode_entry(", ")"),
    Result.VERSION: ("decode_version(", ")"),
    Result.VERSIONS: ("decode_versions(", ")"),
    Result.MESSAGE_ID: ("decode_id(", ")"),
    Result.MESSAGE_IDS: ("decode_ids(", ")"),
}
EXTENDED = ("tenants", "namespaces", "topics")
"""Those with methods that are written by hand, in a class below the one written here."""
NOTES = {
    "scalable_topics": "A topic may be named in any domain: `topic://t/n/x`, `persistent://t/n/x`"
    " or `t/n/x`."
}
EMPTY = {Result.NAMES: " or []"}
EMPTY |= dict.fromkeys((Result.PROPERTIES, Result.GRANTS, Result.TABLE), " or {}")
SENT = {
    Kind.PROPERTIES: "dict({})",
    Kind.DOCUMENT: "dict({})",
    Kind.DOCUMENTS: "[dict(each) for each in {}]",
    Kind.NAMES: "list({})",
    Kind.MESSAGE_ID: "encode_id({})",
}


def write_module(operations: Iterable[Operation]) -> str:
    by_noun: dict[str, list[Operation]] = {}
    for operation in operations:
        if operation.method and not operation.is_written and not operation.is_internal:
            by_noun.setdefault(operation.noun, []).append(operation)
    results = (row.result for rows in by_noun.values() for row in rows)
    answers = {
        (each.kind.__module__, each.kind.__name__) for each in results if isinstance(each, Answer)
    }
    head = HEAD.replace("{answers}", spell_imports(answers))
    return head + "".join(write_class(noun, rows) for noun, rows in by_noun.items())


def spell_imports(names: Iterable[tuple[str, str]]) -> str:
    """A line for each module; the formatter breaks those that are too long."""
    groups = groupby(sorted(names), key=itemgetter(0))
    lines = (
        f"from {module} import {', '.join(name for _, name in group)}" for module, group in groups
    )
    return textwrap.indent("\n".join(lines), " " * 4)


def class_name(noun: str) -> str:
    words = "".join(word.capitalize() for word in noun.removesuffix("s").split("_"))
    return f"{words}Operations" if noun in EXTENDED else f"Async{words}Admin"


def write_class(noun: str, rows: Iterable[Operation]) -> str:
    lines = ["", "", f"class {class_name(noun)}:"]
    lines += [f'    """{NOTES[noun]}"""', ""] if noun in NOTES else []
    lines += ["    def __init__(self, transport: Transport) -> None:"]
    lines += ["        self._transport = transport", ""]
    return "\n".join((*lines, *(line for row in rows for line in write_method(row))))


def write_method(operation: Operation) -> Iterator[str]:
    result = operation.result
    yield f"    async def {operation.verb}({spell(operation)}) -> {result.value}:"
    end = "\n" if "\n" in operation.doc else ""
    yield textwrap.indent(f'"""{operation.doc}{end}"""', " " * 8)
    call = write_call(operation)
    if result is Result.NOTHING:
        yield f"        await {call}"
    elif isinstance(result, Result) and result in DECODED:
        before, after = DECODED[result]
        yield f"        return {before}await {call}{after}"
    else:
        yield f"        found: {result.value} = await {call}{spell_empty(result)}"
        yield "        return found"
    yield ""


def spell_empty(result: Result | Answer) -> str:
    """What stands for an answer without content."""
    if isinstance(result, Answer):
        return {Form.LIST: " or []", Form.BY_NAME: " or {}", Form.BY_GROUP: " or {}"}.get(
            result.form, ""
        )
    return EMPTY.get(result, "")


def spell(operation: Operation) -> str:
    """Path and required parameters stand by their place; the others are named."""
    hidden = {Place.LOCAL, Place.BODY} if fields_of(operation) else {Place.LOCAL}
    asked = [each for each in operation.parameters if each.place not in hidden]
    placed = [each for each in asked if each.is_required]
    placed += [each for each in asked if not each.is_required and each.place is Place.PATH]
    named = [each for each in asked if each not in placed]
    star = ["*"] if named else []
    return ", ".join(["self", *map(declare, placed), *star, *map(declare, named)])


def declare(parameter: Parameter) -> str:
    kind = parameter.kind.value
    if parameter.default is REQUIRED:
        return f"{parameter.name}: {kind}"
    if parameter.default is None:
        kind += " | None"
    return f"{parameter.name}: {kind} = {parameter.default!r}"


def write_call(operation: Operation) -> str:
    """Through the transport's own method where the answer is JSON, which it decodes."""
    path = write_path(operation)
    arguments = [f'f"{path}"' if "{" in path else f'"{path}"']
    body = next((p for p in operation.parameters if p.place is Place.BODY), None)
    if fields := fields_of(operation):
        arguments.append(f"body={{{', '.join(map(write_field, fields))}}}")
    elif body is not None:
        arguments.append(f"body={write_value(body)}")
    queries = {p.wire_name: write_query(p) for p in operation.parameters if p.place is Place.QUERY}
    queries |= {name: repr(value) for name, value in operation.sends}
    if queries:
        pairs = ", ".join(f'"{name}": {value}' for name, value in queries.items())
        arguments.append(f"query={{{pairs}}}")
    if operation.result in (Result.TEXT, Result.MAYBE_TEXT, Result.ENTRY):
        return f'self._transport.call("{operation.method}", {", ".join(arguments)})'
    return f"self._transport.{operation.method.lower()}({', '.join(arguments)})"


def fields_of(operation: Operation) -> list[Parameter]:
    return [each for each in operation.parameters if each.place is Place.FIELD]


def write_field(parameter: Parameter) -> str:
    """An id is not one member but several."""
    value = write_value(parameter)
    return f"**{value}" if parameter.kind is Kind.MESSAGE_ID else f'"{parameter.wire}": {value}'


def write_value(parameter: Parameter) -> str:
    empty = {Kind.NAMES: " or ()", Kind.MESSAGE_ID: " or LATEST_ID"}.get(parameter.kind, " or {}")
    value = parameter.name + (empty if parameter.default is None else "")
    return SENT.get(parameter.kind, "{}").format(value)


def write_query(parameter: Parameter) -> str:
    if parameter.kind is Kind.NAMES:  # one for each
        return write_value(parameter)
    return write_pairs(parameter) if parameter.kind is Kind.PROPERTIES else parameter.name


def write_pairs(parameter: Parameter) -> str:
    pairs = f"({parameter.name} or {{}}).items()"
    return f'[f"{{key}}={{value}}" for key, value in {pairs}]'


def write_path(operation: Operation) -> str:
    """Of several paths the one with all components, those left out that are not given."""
    optional = [p for p in operation.parameters if p.place is Place.PATH and p.default is None]
    paths = (operation.path, *operation.also) if optional else (operation.path,)
    path = max(paths, key=len).removeprefix("/")
    for each in optional:
        path = path.replace(f"/{{{each.wire_name}}}", f"{{format_optional({each.name})}}")
    names = {p.wire_name: p.name for p in operation.parameters if p.place is Place.PATH}
    for components, text in (
        ("{domain}/{tenant}/{namespace}/{topic}", "{format_topic(topic)}"),
        ("{tenant}/{namespace}/{topic}", "{format_bare(topic)}"),
        ("{tenant}/{namespace}", "{format_namespace(namespace)}"),
    ):
        path = path.replace(components, text)
    return re.sub(r"\{(\w+)\}", lambda found: f"{{format_path({names[found[1]]})}}", path)


if __name__ == "__main__":
    from output import finish, tidy

    finish({TARGET: tidy(write_module(all_operations()), TARGET, "F401")})

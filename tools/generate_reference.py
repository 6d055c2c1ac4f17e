"""Write docs/reference.md: every public name of the client, with what it takes and does.

python tools/generate_reference.py           write the page
python tools/generate_reference.py --check   fail when it is not what would be written
"""

from __future__ import annotations

import ast
import enum
import inspect
import re
import textwrap
import typing
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

import magnetar
from magnetar.client.keyword import KEYWORDS, keywords
from magnetar.client.keyword import spell as spell_type
from magnetar.operation.policy import AnyPolicy, Level
from magnetar.operation.policy_table import POLICIES
from magnetar.rules.policy_field import value_type

VAR_KEYWORD = inspect.Parameter.VAR_KEYWORD
PAGE = Path(__file__).parent.parent / "docs" / "reference.md"
HEAD = """\
# Reference

Every public name of the client, written by `tools/generate_reference.py` from the code.
[Public names](api.md) is the short list; [the Python client](sdk.md) and
[consumers](consumers.md) are the guides.
"""
_MODULE = re.compile(
    r"\b(?:magnetar|typing|collections|datetime|asyncio|builtins)(?:\.[a-z_]+)*\.(?=\w)"
)

INTERNAL = {
    "open",
    "mark",
    "on_received",
    "begin_send",
    "on_lane_ended",
    "on_lane_sealed",
    "on_lane_failed",
}
"""Methods that the client calls itself."""


def tell(thing: Any) -> str:
    """The docstring as one piece of Markdown, without what `dataclass` and others make up."""
    text = inspect.cleandoc(thing.__doc__ or "").partition(KEYWORDS)[0].rstrip()
    return "" if text.startswith(f"{getattr(thing, '__name__', '')}(") else text


def spell(function: Any, *, drops_self: bool) -> str:
    try:
        signature = inspect.signature(function)
    except ValueError:
        return "()"
    parameters = list(signature.parameters.values())
    if drops_self and parameters and parameters[0].name in ("self", "cls", "group"):
        parameters = parameters[1:]
    if (options := getattr(function, "__options__", None)) is not None:
        names = {each.name for each in keywords(options)}
        parameters = [each for each in parameters if each.name not in names]
        annotation = options.__name__
        parameters.append(inspect.Parameter("options", VAR_KEYWORD, annotation=annotation))
    text = str(signature.replace(parameters=parameters))
    text = re.sub(r"<[A-Za-z_.]*\.?([A-Za-z_]+)(?:\.[A-Z_]+)?(?:: [^>]*| object[^>]*)?>", "…", text)
    return _MODULE.sub("", text).replace("'", "")


def members(kind: type[Any]) -> Iterator[tuple[str, Any]]:
    seen = set()
    for base in kind.__mro__:
        if not base.__module__.startswith("magnetar"):
            continue
        for name, value in vars(base).items():
            if not name.startswith("_") and name not in seen | INTERNAL:
                seen.add(name)
                yield name, value


def write_member(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, property):
        assert value.fget is not None
        result = inspect.signature(value.fget).return_annotation
        yield f"- `{name}` → `{_MODULE.sub('', str(result))}`. {_line(tell(value))}".rstrip()
    elif isinstance(value, classmethod | staticmethod):
        function = value.__func__
        text = spell(function, drops_self=isinstance(value, classmethod))
        yield f"- `{name}{text}`. {_line(tell(function))}".rstrip()
    elif inspect.isfunction(value):
        start = "await " if inspect.iscoroutinefunction(value) else ""
        yield f"- `{start}{name}{spell(value, drops_self=True)}`. {_line(tell(value))}".rstrip()


def _line(text: str) -> str:
    return " ".join(text.split())


def write_fields(kind: type[Any]) -> Iterator[str]:
    """Annotated names of a dataclass or TypedDict, each with the text under it."""
    notes = field_notes(kind)
    for name, hint in inspect.get_annotations(kind).items():
        if not name.startswith("_") and "ClassVar" not in str(hint):
            text = hint.__forward_arg__ if isinstance(hint, typing.ForwardRef) else str(hint)
            yield f"- `{name}: {_MODULE.sub('', text)}`. {notes.get(name, '')}".rstrip()


def field_notes(kind: type[Any]) -> dict[str, str]:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    except OSError:
        return {}
    body = tree.body[0]
    assert isinstance(body, ast.ClassDef)
    notes = {}
    for field, note in zip(body.body, body.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(note, ast.Expr):
            target, value = field.target, note.value
            if isinstance(target, ast.Name) and isinstance(value, ast.Constant):
                notes[target.id] = _line(str(value.value))
    return notes


def write_class(name: str, kind: type[Any]) -> Iterator[str]:
    yield f"### `{name}`\n"
    if (text := tell(kind)) and not text.startswith("str("):
        yield f"{text}\n"
    if issubclass(kind, BaseException):
        bases = ", ".join(f"`{base.__name__}`" for base in kind.__bases__)
        yield f"A kind of {bases}.\n"
        return
    if issubclass(kind, enum.Enum):
        yield "One of " + ", ".join(f"`{each.value}`" for each in kind) + ".\n"
        return
    constructor = vars(kind).get("__init__")
    is_made_by_users = name in ("AsyncPulsarClient", "PulsarClient") or "policy" in kind.__module__
    if constructor is not None and is_made_by_users:
        yield f"`{name}{spell(constructor, drops_self=True)}`\n"
    lines = [*write_fields(kind)] if hasattr(kind, "__dataclass_fields__") else []
    for member, value in members(kind):
        if member not in getattr(kind, "__dataclass_fields__", {}):
            lines += write_member(member, value)
    if lines:
        yield "\n".join(lines) + "\n"


def option_kinds() -> dict[str, type[Any]]:
    from magnetar.client import client, option, publication

    return {
        "PulsarClient": client.ClientOptions,
        "client.producer": option.ProducerOptions,
        "client.stream_consumer": option.StreamOptions,
        "client.queue_consumer": option.QueueOptions,
        "client.checkpoint_consumer": option.CheckpointOptions,
        "producer.send": publication.SendOptions,
        "client.consumer": option.ConsumerOptions,
        "client.reader": option.ReaderOptions,
    }


def write_options(kind: type[Any]) -> Iterator[str]:
    for each in keywords(kind):
        option = each.option
        yield f"- `{each.name}: {spell_type(each.hint)} = {option.default!r}`. {option.meaning}"


def write_admin() -> Iterator[str]:
    """The groups of the admin client; the asyncio one has the same, to be awaited."""
    for group, value in vars(magnetar.Admin()).items():
        if not group.startswith("_"):
            yield f"### `admin.{group}`\n"
            lines = [
                line for name, each in members(type(value)) for line in write_member(name, each)
            ]
            yield "\n".join(lines) + "\n"


def write_policies(policies: Iterable[AnyPolicy] = POLICIES) -> Iterator[str]:
    """One row for each policy, as the table of policies has it."""
    yield (
        "`admin.namespaces` and `admin.topic_policies` know policies by these names; in brackets"
        " the REST path below the namespace or topic. What the topic sets counts first, then what"
        " it sets for all clusters, what its namespace sets, and the broker's configuration.\n"
    )
    rows = ["| of a namespace | of a topic | of the broker | value | what it says |"]
    rows.append("| --- | --- | --- | --- | --- |")
    for policy in policies:
        levels = {level: at for level in Level if (at := policy.at(level)) is not None}
        names = [f"`{at.name}` ({at.path})" if at else "-" for at in map(levels.get, Level)]
        places = names if policy.listed else [at.partition(" ")[2] or "-" for at in names]
        keys = [key for keys in policy.broker.values() for key in keys]
        told = ", ".join(f"`{key}`" for key in keys) or "-"
        value = describe_value(value_type(policy, next(iter(levels))))
        rows.append(f"| {' | '.join((*places, told, value, policy.what))} |")
    yield "\n".join(rows) + "\n"


def describe_value(kind: Any) -> str:
    if typing.get_origin(kind) is typing.Annotated:
        kind = typing.get_args(kind)[0]
    if typing.get_origin(kind) is tuple:
        return "texts"
    if typing.get_origin(kind) is dict:
        return "an object"
    if issubclass(kind, enum.Enum):
        return "one of " + ", ".join(f"`{each.value}`" for each in kind)
    if issubclass(kind, msgspec.Struct):
        return ", ".join(f"`{name}`" for name in kind.__struct_fields__)
    return {int: "a number", bool: "true or false"}[kind]


def render() -> str:
    parts = [HEAD, "## Names\n"]
    for name in sorted(magnetar.__all__):
        value = getattr(magnetar, name)
        origin = typing.get_origin(value) or value
        if inspect.isclass(origin):
            parts += write_class(name, origin)
        elif inspect.isfunction(value):
            parts.append(
                f"### `{name}`\n\n`{name}{spell(value, drops_self=False)}`\n\n{tell(value)}\n"
            )
        elif name != "__version__":
            parts.append(f"### `{name}`\n\n`{value!r}`\n")
    parts.append("## Keywords\n")
    for name, kind in option_kinds().items():
        parts += (f"### Keywords of `{name}`\n", "\n".join(write_options(kind)) + "\n")
    parts.append("## Administration\n")
    parts += write_admin()
    parts.append("## Policies\n")
    parts += write_policies()
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


if __name__ == "__main__":
    from output import finish

    finish({PAGE: render()})

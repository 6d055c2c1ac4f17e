"""Write client/admin/blocking.py: the blocking admin client, from the classes of the async one.

python tools/generate_admin.py           write the module
python tools/generate_admin.py --check   fail when it is not what would be written

Every public method is written again, inherited ones too, with its signature and docstring.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import sys
import textwrap
import types
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
TARGET = ROOT / "src" / "magnetar" / "client" / "admin" / "blocking.py"
HEAD = '''\
"""The blocking admin client, written by tools/generate_admin.py from the async one."""

from __future__ import annotations

'''
IMPORTS = {
    ("typing", "Self"),
    ("magnetar.client.admin.network", "Network"),
    ("magnetar.client.admin.network", "SocketNetwork"),
    ("magnetar.client.admin.network", "iterate"),
    ("magnetar.client.admin.network", "run"),
    ("magnetar.client.admin.service", "AsyncAdmin"),
}
CLIENT = '''
class _Core(AsyncAdmin):
    def _make_network(self) -> Network:
        return SocketNetwork()


class AdminClient:
    """The admin REST API over HTTP connections that stay open; a context manager.

    Threads may share it. A refused call raises an AdminError with the status and the broker's
    reason; a broker that cannot be reached raises AdminUnreachable.
    """

    def __init__({parameters}) -> None:
        self._inner = _Core({arguments})
        {groups}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
'''
Parameter = inspect.Parameter
ANSWERS = "magnetar.model.answer."
"""Only type checkers need these: a command starts without them."""


class Writer:
    """Collects what has to be imported while it writes."""

    def __init__(self) -> None:
        self.imports = set(IMPORTS)

    def write_client(self, kind: type[Any]) -> str:
        """The client, after the classes of its groups."""
        groups = {
            name: type(value) for name, value in vars(kind()).items() if not name.startswith("_")
        }
        assert all(each.__name__.startswith("Async") for each in groups.values())
        classes = [self.write_class(each) for each in groups.values()]
        made = [
            f"self.{name} = {blocking_name(each)}(self._inner.{name})"
            for name, each in groups.items()
        ]
        parameters, arguments = self.spell(kind.__init__)
        text = CLIENT.format(
            parameters=parameters, arguments=arguments, groups=f"\n{' ' * 8}".join(made)
        )
        return "\n".join((*classes, text, *self.write_members(kind)))

    def write_class(self, kind: type[Any]) -> str:
        self.imports.add((kind.__module__, kind.__name__))
        lines = [f"class {blocking_name(kind)}:", *quote_text(kind)]
        lines += [f"    def __init__(self, inner: {kind.__name__}) -> None:"]
        lines += ["        self._inner = inner", ""]
        return "\n".join((*lines, *self.write_members(kind)))

    def write_members(self, kind: type[Any]) -> Iterator[str]:
        for name, value in members(kind):
            if isinstance(value, property):
                assert value.fget is not None
                result = self.spell_result(value.fget)
                yield f"    @property\n    def {name}(self) -> {result}:"
                yield from quote_text(value, indent=8)
                yield f"        return self._inner.{name}\n"
            elif inspect.isfunction(value):
                parameters, arguments = self.spell(value)
                yield f"    def {name}({parameters}) -> {self.spell_result(value)}:"
                yield from quote_text(value, indent=8)
                yield f"        {carry_out(value, f'self._inner.{name}({arguments})')}\n"

    def spell(self, function: Any) -> tuple[str, str]:
        """The parameters as they are declared, and the arguments that pass them on."""
        declared, passed = [], []
        previous = None
        for each in inspect.signature(function).parameters.values():
            if previous is Parameter.POSITIONAL_ONLY and each.kind is not previous:
                declared.append("/")
            if each.kind is Parameter.KEYWORD_ONLY and previous not in (
                Parameter.KEYWORD_ONLY,
                Parameter.VAR_POSITIONAL,
            ):
                declared.append("*")
            stars = {Parameter.VAR_POSITIONAL: "*", Parameter.VAR_KEYWORD: "**"}.get(each.kind, "")
            text = f"{stars}{each.name}"
            if each.annotation is not Parameter.empty:
                text += f": {self.know(function, each.annotation)}"
            if each.default is not Parameter.empty:
                text += f" = {self.spell_default(function, each.default)}"
            declared.append(text)
            by_name = f"{each.name}=" if each.kind is Parameter.KEYWORD_ONLY else ""
            passed.append(f"{by_name}{stars}{each.name}")
            previous = each.kind
        if previous is Parameter.POSITIONAL_ONLY:
            declared.append("/")
        return ", ".join(declared), ", ".join(passed[1:])

    def spell_result(self, function: Any) -> str:
        annotation = inspect.signature(function).return_annotation
        if not inspect.isasyncgenfunction(function):
            return self.know(function, annotation)
        tree = ast.parse(annotation, mode="eval").body
        assert isinstance(tree, ast.Subscript) and isinstance(tree.slice, ast.Tuple), annotation
        self.imports.add(("collections.abc", "Iterator"))
        return f"Iterator[{self.know(function, ast.unparse(tree.slice.elts[0]))}]"

    def spell_default(self, function: Any, value: Any) -> str:
        """A literal, or the name of the constant in the function's module."""
        try:
            if ast.literal_eval(repr(value)) == value:
                return repr(value)
        except (ValueError, SyntaxError):
            pass
        names = [name for name, each in function.__globals__.items() if each is value]
        assert names, f"{function.__qualname__}: a default that has no name: {value!r}"
        return self.know(function, names[0])

    def know(self, function: Any, annotation: Any) -> str:
        """The annotation as it is written; what it names is imported from where that comes from."""
        assert isinstance(annotation, str), f"{function.__qualname__} without future annotations"
        module = function.__module__
        found = origins(module)
        for node in ast.walk(ast.parse(annotation, mode="eval")):
            if isinstance(node, ast.Name):
                if node.id in found:
                    self.imports.add(found[node.id])
                elif hasattr(sys.modules[module], node.id):
                    self.imports.add((module, node.id))
                else:
                    assert hasattr(builtins, node.id), f"{module}: {node.id} comes from nowhere"
        return annotation


def blocking_name(kind: type[Any]) -> str:
    return kind.__name__.removeprefix("Async")


def members(kind: type[Any]) -> Iterator[tuple[str, Any]]:
    seen = set()
    for base in kind.__mro__[:-1]:
        for name, value in vars(base).items():
            if not name.startswith("_") and name not in seen:
                seen.add(name)
                yield name, value


def carry_out(function: Any, call: str) -> str:
    if inspect.isasyncgenfunction(function):
        return f"return iterate({call})"
    if not inspect.iscoroutinefunction(function):
        return f"return {call}"
    has_result = inspect.signature(function).return_annotation != "None"
    return f"return run({call})" if has_result else f"run({call})"


def quote_text(thing: Any, *, indent: int = 4) -> Iterator[str]:
    if thing.__doc__:
        text = inspect.cleandoc(thing.__doc__)
        end = "\n" if "\n" in text else ""
        yield textwrap.indent(f'"""{text}{end}"""', " " * indent)
        if indent == 4:
            yield ""


@cache
def origins(module: str) -> dict[str, tuple[str, str]]:
    """Where each imported name of a module comes from."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            found |= {each.asname or each.name: (node.module, each.name) for each in node.names}
        elif isinstance(node, ast.Import):
            found |= {each.name: (each.name, "") for each in node.names}
    return found


def render() -> str:
    # The package names the module that is about to be written, which may be missing or stale.
    empty = types.ModuleType("magnetar.client.admin.blocking")
    vars(empty)["AdminClient"] = None
    sys.modules[empty.__name__] = empty
    writer = Writer()
    body = writer.write_client(importlib.import_module("magnetar.client.admin.service").AsyncAdmin)
    answers = {each for each in writer.imports if each[0].startswith(ANSWERS)}
    imports = "".join(
        f"from {module} import {name}\n" if name else f"import {module}\n"
        for module, name in sorted((writer.imports - answers) | {("typing", "TYPE_CHECKING")})
    )
    return f"{HEAD}{imports}\nif TYPE_CHECKING:\n{spell_imports(answers)}\n\n\n{body}"


if __name__ == "__main__":
    from generate_operation import spell_imports
    from output import finish, tidy

    finish({TARGET: tidy(render(), TARGET, "I")})

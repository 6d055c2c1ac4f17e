"""Keywords that are declared once: type, default, check and meaning in one line.

A `TypedDict` whose fields are `Annotated` with an `Option` is what type checkers and editors read.
The checks, the defaults, the signature that `help` shows and the reference come from it too.
"""

from __future__ import annotations

import inspect
import re
import ssl
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, TypeVar

from magnetar.client.authentication import TlsPolicy
from magnetar.client.encryption import ConsumerEncryption, ProducerEncryption
from magnetar.client.error import ConfigurationError
from magnetar.client.policy import (
    BackoffPolicy,
    BatchingPolicy,
    ConnectionPolicy,
    DeadLetterPolicy,
)
from magnetar.errors import nearest
from magnetar.wire.command import CompressionType, ProducerAccessMode

_Kinds = tuple[type[Any], ...]

_PHRASES: Final[Mapping[_Kinds, str]] = {
    (str,): "text",
    (int,): "a whole number",
    (bool,): "True or False",
    (Mapping,): "a mapping of text to text",
    (BackoffPolicy,): "a BackoffPolicy(initial, maximum)",
    (BatchingPolicy, bool): "True, False or a BatchingPolicy",
    (DeadLetterPolicy,): "a DeadLetterPolicy(max_redeliveries)",
    (ProducerEncryption,): "a ProducerEncryption(keys, names)",
    (ConsumerEncryption,): "a ConsumerEncryption(keys)",
    (ConnectionPolicy,): "a ConnectionPolicy",
    (TlsPolicy, ssl.SSLContext): "a TlsPolicy or an ssl.SSLContext",
}


def check_kind(word: str, value: Any, kinds: _Kinds, phrase: str | None = None) -> None:
    """Refuse a value of another kind; None stands for the default everywhere."""
    if value is None:
        return
    is_disguised = isinstance(value, bool) and bool not in kinds  # nobody counts with True
    if not isinstance(value, kinds) or is_disguised:
        raise ConfigurationError(f"{word} is {phrase or _PHRASES[kinds]}, not {value!r}")
    if kinds == (Mapping,):
        check_texts(word, value)
    elif kinds == (str,):
        check_text(word, value)


def check_texts(what: str, texts: Mapping[Any, Any]) -> None:
    for key, value in texts.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise ConfigurationError(
                f"{what} is a mapping of text to text, not of {key!r} to {value!r}"
            )
        if not (key.isascii() and value.isascii()):
            check_text(what, key)
            check_text(what, value)


def check_text(what: str, text: str) -> None:
    """Half a character cannot be sent; what is plain ASCII costs nothing to check."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ConfigurationError(f"{what} is not whole Unicode text: {text!r}") from None


T = TypeVar("T")

COMPRESSIONS: Final[Mapping[str, CompressionType]] = {
    "none": CompressionType.NONE,
    "lz4": CompressionType.LZ4,
    "zlib": CompressionType.ZLIB,
    "zstd": CompressionType.ZSTD,
    "snappy": CompressionType.SNAPPY,
}
ACCESS_MODES: Final[Mapping[str, ProducerAccessMode]] = {
    "shared": ProducerAccessMode.Shared,
    "exclusive": ProducerAccessMode.Exclusive,
    "wait_for_exclusive": ProducerAccessMode.WaitForExclusive,
    "exclusive_with_fencing": ProducerAccessMode.ExclusiveWithFencing,
}


def choose(what: str, word: str, known: Mapping[str, T]) -> T:
    found = known.get(word) if isinstance(word, str) else None
    if found is None:
        raise ConfigurationError(f"No {what} is called {word!r}; there are {', '.join(known)}")
    return found


def check_known(what: str, options: Iterable[str], known: Iterable[str]) -> None:
    """Refuse a keyword that does not exist, naming the nearest that does."""
    names = sorted(known)
    for word in options:
        if word not in names:
            meant = nearest(word, names)
            hint = f"did you mean {meant}?" if meant else f"there are {', '.join(names)}"
            raise ConfigurationError(f"{what} has no keyword {word!r}; {hint}")


def check_name(topic: object) -> None:
    if not isinstance(topic, str):
        raise ConfigurationError(
            f"A topic is text such as topic://tenant/namespace/name, not {topic!r}"
        )


F = TypeVar("F", bound=Callable[..., Any])
Parse = Callable[[str, Any], Any]
KEYWORDS: Final = "Keywords, with their defaults:"
_MODULES: Final = re.compile(r"\b(?:[a-z_]+\.)+(?=[A-Za-z])")


@dataclass(frozen=True, slots=True)
class Option:
    """What is known about a keyword besides its type."""

    default: Any
    """None stands for it too, wherever it is given."""
    meaning: str
    parse: Parse | None = None
    """From the name and what was given to what is used; without it the type is checked."""
    phrase: str | None = None
    """What it is, where its type does not say it."""


@dataclass(frozen=True, slots=True)
class Keyword:
    name: str
    hint: Any
    option: Option


@cache
def keywords(declared: Any) -> tuple[Keyword, ...]:
    """Those of a `TypedDict`, in the order they are declared."""
    found = []
    for name, hint in typing.get_type_hints(declared, include_extras=True).items():
        kind, option = typing.get_args(hint)
        found.append(Keyword(name, kind, option))
    return tuple(found)


def resolve(what: str, declared: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Every keyword with the value to use; refuses those that do not exist or do not fit."""
    known = keywords(declared)
    check_known(what, given, [each.name for each in known])
    values = {}
    for each in known:
        value, option = given.get(each.name), each.option
        if value is None:
            value = option.default
        elif option.parse is None:
            check_kind(each.name, value, runtime_kinds(each.hint), option.phrase)
        if option.parse is not None and value is not None:
            value = option.parse(each.name, value)
        values[each.name] = value
    return values


def one_of(words: Mapping[str, Any]) -> Parse:
    return lambda name, word: choose(name, word, words)


def describe(declared: Any) -> Callable[[F], F]:
    """Give a method with `**options` the signature and the text that `help` shows."""

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        own = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
        keyword = inspect.Parameter.KEYWORD_ONLY
        added = [
            inspect.Parameter(
                each.name, keyword, default=each.option.default, annotation=spell(each.hint)
            )
            for each in keywords(declared)
        ]
        function.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[*own, *added]
        )
        function.__options__ = declared  # type: ignore[attr-defined]
        lines = "\n".join(f"    {line}" for line in write_keywords(declared))
        text = inspect.cleandoc(function.__doc__ or "")
        function.__doc__ = f"{text}\n\n{KEYWORDS}\n\n{lines}".lstrip()
        return function

    return decorate


def mirror(original: Callable[..., Any]) -> Callable[[F], F]:
    """Give a method that passes its keywords on what `help` shows of the one that takes them."""

    def decorate(function: F) -> F:
        result = inspect.signature(function).return_annotation
        signature = inspect.signature(original).replace(return_annotation=result)
        function.__signature__ = signature  # type: ignore[attr-defined]
        function.__doc__ = original.__doc__
        function.__options__ = getattr(original, "__options__", None)  # type: ignore[attr-defined]
        return function

    return decorate


def write_keywords(declared: Any) -> Iterator[str]:
    for each in keywords(declared):
        yield f"{each.name} = {each.option.default!r}: {each.option.meaning}"


def spell(hint: Any) -> str:
    """A type as one writes it, without the modules it comes from."""
    return _MODULES.sub("", inspect.formatannotation(hint))


def runtime_kinds(hint: Any) -> tuple[type[Any], ...]:
    """The classes that a value may be of; None is for the default."""
    members = typing.get_args(hint) if isinstance(hint, UnionType) else (hint,)
    return tuple(typing.get_origin(each) or each for each in members if each is not NoneType)

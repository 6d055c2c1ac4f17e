"""Names of namespaces and topics, and how they are spelled in paths."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import Final
from urllib.parse import quote, unquote_plus

from magnetar.errors import InvalidName, shorten

_PART: Final = re.compile(r"[-=:.\w]+", re.ASCII)
_RELATIVE: Final = (".", "..")
_PARTITION: Final = re.compile(r"-partition-(0|[1-9][0-9]*)\Z")
_PARTITION_INDEX_MAX: Final = 2**31 - 1


class TopicDomain(StrEnum):
    PERSISTENT = "persistent"
    NON_PERSISTENT = "non-persistent"
    TOPIC = "topic"
    SEGMENT = "segment"


def is_valid_part(text: str) -> bool:
    """Tell whether `text` may name a tenant, a namespace or a cluster.

    Not `.` and `..`: names become parts of paths, and some resolve these.
    """
    return _PART.fullmatch(text) is not None and text not in _RELATIVE


@dataclass(frozen=True)
class NamespaceName:
    tenant: str
    local: str

    def __post_init__(self) -> None:
        if not (is_valid_part(self.tenant) and is_valid_part(self.local)):
            raise InvalidName(
                f"Namespace name is not valid: {shorten(self.tenant)}/{shorten(self.local)}"
            )

    def __str__(self) -> str:
        return f"{self.tenant}/{self.local}"


def parse_namespace(text: str) -> NamespaceName:
    parts = text.split("/")
    if len(parts) != 2:
        raise InvalidName(
            f"Namespace name is not valid: {shorten(text)!r}; expected tenant/namespace"
        )
    return NamespaceName(*parts)


def encode_local(local: str) -> str:
    """Spell a local name as one path component: HTML-form encoding, UTF-8."""
    return quote(local, safe="*-._ ", encoding="utf-8").replace(" ", "+").replace("~", "%7E")


def decode_local(component: str) -> str:
    return unquote_plus(component, encoding="utf-8", errors="strict")


@dataclass(frozen=True)
class TopicName:
    domain: TopicDomain
    namespace: NamespaceName
    local: str

    def __post_init__(self) -> None:
        if not self.local.strip():
            raise InvalidName("Topic name is not valid: the local part is blank")
        if self.local in _RELATIVE:
            raise InvalidName(f"Topic name is not valid: {self.local!r} is a step between folders")

    @cached_property
    def full(self) -> str:
        return f"{self.domain.value}://{self.namespace}/{self.local}"

    @cached_property
    def partition_index(self) -> int:
        """The K of a `-partition-K` suffix, or -1."""
        found = _PARTITION.search(self.local)
        if found is None or int(found.group(1)) > _PARTITION_INDEX_MAX:
            return -1
        return int(found.group(1))

    @property
    def is_partition(self) -> bool:
        return self.partition_index >= 0

    @property
    def is_persistent(self) -> bool:
        """Whether messages are kept on disk: every domain but `non-persistent`."""
        return self.domain is not TopicDomain.NON_PERSISTENT

    @cached_property
    def base(self) -> TopicName:
        """This name without its partition suffix."""
        if not self.is_partition:
            return self
        return TopicName(
            self.domain, self.namespace, self.local[: self.local.rindex("-partition-")]
        )

    @cached_property
    def encoded_local(self) -> str:
        return encode_local(self.local)

    def partition(self, index: int) -> TopicName:
        return TopicName(self.domain, self.namespace, f"{self.local}-partition-{index}")

    def __str__(self) -> str:
        return self.full


def parse_topic(text: str) -> TopicName:
    """Read `domain://tenant/namespace/local`, `tenant/namespace/local` or `local`.

    Nothing is remembered: the text may be a client's, who may not even use that topic.
    """
    scheme, separator, rest = text.partition("://")
    if not separator:
        parts = text.split("/")
        if len(parts) == 1:
            parts = ["public", "default", text]
        if len(parts) != 3:
            raise InvalidName(
                f"Invalid short topic name '{shorten(text)}', it should be in the format of"
                " <tenant>/<namespace>/<topic> or <topic>"
            )
        return TopicName(TopicDomain.PERSISTENT, NamespaceName(parts[0], parts[1]), parts[2])
    try:
        domain = TopicDomain(scheme.lower())
    except ValueError:
        known = ", ".join(TopicDomain)
        raise InvalidName(f"Invalid topic domain: '{shorten(scheme)}'; there are {known}") from None
    parts = rest.split("/", 2)
    if len(parts) != 3:
        raise InvalidName(
            f"Invalid topic name: {shorten(text)}; expected domain://tenant/namespace/topic"
        )
    if domain in (TopicDomain.PERSISTENT, TopicDomain.NON_PERSISTENT) and "/" in parts[2]:
        raise InvalidName(f"Invalid topic name: {shorten(text)}; a cluster part is not supported")
    return TopicName(domain, NamespaceName(parts[0], parts[1]), parts[2])


_REMEMBERED_BYTES: Final = 256


def parse_stored_topic(text: str) -> TopicName:
    """As `parse_topic`, for names that are in use: those of usual length are remembered."""
    return _remember_topic(text) if len(text) <= _REMEMBERED_BYTES else parse_topic(text)


_remember_topic: Final = lru_cache(maxsize=16384)(parse_topic)

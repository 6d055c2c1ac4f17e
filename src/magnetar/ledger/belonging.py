"""What a ledger was made for, as its properties say: the names under which Pulsar's tools know it.

Versions of this broker before these names said the same in words of their own; those are read too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from magnetar.errors import InvalidName, LedgerCorrupt
from magnetar.ledger.store import LedgerInfo
from magnetar.model.log_path import managed_name, parse_managed_name
from magnetar.model.name import decode_local, encode_local, parse_topic

_COMPONENT: Final = "component"
_LOG: Final = "pulsar/managed-ledger"
_CURSOR: Final = "pulsar/cursor"
_SCHEMA: Final = "pulsar/schemaId"
_COMPACTED: Final = "pulsar/compactedTopic"
_WRITER: Final = "writer"
_US: Final = "magnetar"
_FORMER_LOG: Final = "chain"
_FORMER_CURSOR: Final = "cursor"
_FORMER_COMPACTED: Final = "topic"


class UseKind(Enum):
    """Under the names that Pulsar writes."""

    LOG = "managed-ledger"
    SCHEMA = "schema"
    COMPACTED = "compacted-ledger"


@dataclass(frozen=True, slots=True)
class LedgerUse:
    """`owner` is the name of a log, a topic's full name as a rule, or the id of a schema; `cursor`
    is empty unless the ledger holds the states of one.
    """

    kind: UseKind
    owner: str
    cursor: str = ""

    def format(self) -> dict[str, str]:
        """The properties of a ledger that is made for this."""
        properties = {"application": "pulsar", _COMPONENT: self.kind.value}
        match self.kind:
            case UseKind.LOG:
                properties[_LOG] = _managed_name(self.owner)
                properties[_WRITER] = _US
                if self.cursor:
                    properties[_CURSOR] = encode_local(self.cursor)
            case UseKind.SCHEMA:
                properties[_SCHEMA] = self.owner
            case UseKind.COMPACTED:
                properties[_COMPACTED] = self.owner
        return properties


def parse_use(properties: Mapping[str, str]) -> LedgerUse | None:
    """None for a ledger that does not say what it is for."""
    if _LOG in properties:
        cursor = decode_local(properties.get(_CURSOR, ""))
        return LedgerUse(UseKind.LOG, _full_name(properties[_LOG]), cursor)
    if _SCHEMA in properties:
        return LedgerUse(UseKind.SCHEMA, properties[_SCHEMA])
    if _COMPACTED in properties:
        return LedgerUse(UseKind.COMPACTED, properties[_COMPACTED])
    if _FORMER_LOG in properties:
        cursor = properties.get(_FORMER_CURSOR, "")
        return LedgerUse(UseKind.LOG, properties[_FORMER_LOG], cursor)
    if _FORMER_COMPACTED in properties:
        return LedgerUse(UseKind.COMPACTED, properties[_FORMER_COMPACTED])
    return None


def is_former_compacted(properties: Mapping[str, str]) -> bool:
    """Whether a compacted ledger has the entries of versions before Pulsar's format."""
    return _FORMER_COMPACTED in properties


def is_ours(info: LedgerInfo) -> bool:
    """Whether this kind of broker wrote a ledger of a topic. Pulsar's tools pass over the word."""
    return info.properties.get(_WRITER) == _US


def belongs_to_log(info: LedgerInfo, log: str) -> bool:
    """Whether a ledger was made for a log or one of its cursors; one that does not say for what was
    made for any.
    """
    use = parse_use(info.properties)
    return use is None or (use.kind is UseKind.LOG and use.owner == log)


def check_use(info: LedgerInfo, wanted: LedgerUse) -> None:
    """Raise LedgerCorrupt when a ledger was made for something else: the record that names it is
    not to be trusted, and neither reading nor deleting would be right.
    """
    use = parse_use(info.properties)
    if use is not None and use != wanted:
        raise LedgerCorrupt(
            f"ledger {info.id} was made for {_words(use)}, not for {_words(wanted)}"
        )


def _words(use: LedgerUse) -> str:
    cursor = f", cursor {use.cursor}" if use.cursor else ""
    return f"the {use.kind.value} of {use.owner}{cursor}"


def _managed_name(log: str) -> str:
    """A log that is no topic's keeps its name."""
    try:
        return managed_name(parse_topic(log))
    except InvalidName:
        return log


def _full_name(managed: str) -> str:
    try:
        return parse_managed_name(managed).full
    except InvalidName:
        return managed

"""The row of a policy: where it is stored, how it is spelled, checked and combined.

Routes, validation, the client's tables, the verbs of the command line, what is in force and the
reference are derived from rows. The type of a value is that of the stored record's field: a row
names the field, and so costs the command line no import of the records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, NamedTuple, TypeAlias, TypeVar

from magnetar.operation.row import REQUIRED, Kind, Parameter, Reader

if TYPE_CHECKING:
    from magnetar.model.policy import BacklogQuota, RetentionPolicies

T = TypeVar("T")


class Level(StrEnum):
    NAMESPACE = "namespace"
    TOPIC = "topic"


_UNITS: Final[Mapping[str, Kind | Reader]] = {
    "text": Kind.TEXT,
    "count": Kind.NUMBER,
    "switch": Kind.FLAG,
    "names": Kind.NAMES,
    "number": Reader.FRACTION,
    "s": Reader.DURATION_S,
    "ms": Reader.DURATION_MS,
    "min": Reader.DURATION_MIN,
    "bytes": Reader.SIZE,
    "MB": Reader.SIZE_MB,
    "constant": Reader.CONSTANT,
    "file": Reader.FILE,
}


def option(text: str, *choices: str) -> Parameter:
    """A flag that fills a member of the value, or is the value, written as a line: its names, then
    `unit!` if it is required or `unit=preset`, then `.member`, then the help behind a colon.

    `{name}` is the name of the policy at its level, and its sentence is the help of what has none.
    """
    head, _, help = text.partition(":")
    words = head.split()
    flags = tuple(word for word in words if word[0] == "-")
    unit = next((word for word in words if word[0] not in "-."), "text")
    unit, _, preset = unit.partition("=")
    read = _UNITS[unit.rstrip("!")]
    return Parameter(
        next((word[1:] for word in words if word[0] == "."), ""),
        read if isinstance(read, Kind) else Kind.TEXT,
        default=REQUIRED if unit.endswith("!") else None,
        help=help.strip(),
        flags=flags,
        reader=read if isinstance(read, Reader) else None,
        choices=choices,
        preset=preset,
    )


class Toggle(NamedTuple):
    """A flag for on and one for off."""

    name: str = ""
    """The member of the value that it sets."""
    absent: Literal["refused", "off", "unset"] = "refused"
    """What it means that neither is given."""
    on: Parameter = option("-e --enable switch: switch it on")
    off: Parameter = option("-d --disable switch: switch it off")
    only_on: bool = False
    """Whether the other options count only when it is on."""


Checked: TypeAlias = Literal["always", "when set", "never"]
"""When the row's check applies at a level: always is also when a namespace is created with it. What
is never checked, Pulsar does not check either.
"""


class At(NamedTuple):
    """One level: the record's field, and how REST spells the policy there."""

    field: str
    path: str = ""
    """The field's name unless it is another."""
    name: str = ""
    """What people call it where that is not the row's name."""
    what: str = ""
    write: str = "POST"
    remove: str = "DELETE"
    """The method; POST writes null, and nothing means that it cannot be removed."""
    read_path: str = ""
    remove_path: str = ""
    in_query: bool = False
    """Whether the value stands in the query, under the name of the path."""
    by_cluster: bool = False
    """Whether the field is a map with a value for each cluster."""
    older: str = ""
    """A field that older brokers wrote, read where the other is not set."""
    inside: str = ""
    """The value's key, where the field is an object that holds more."""
    spread: tuple[tuple[str, str], ...] = ()
    """Members of the value with the fields that hold them, where there are several."""
    missing: str = ""
    """The refusal of a write without a body, where such a write does not remove."""
    bodyless: bool | None = None
    """What a write without a body sets."""
    unset: bool | int | None = None
    """What a read answers when nothing is set."""
    unset_by_broker: bool = False
    said: str = ""
    """What refusals call it where that is not its path."""
    checked: Checked = "always"
    operations: tuple[str, str, str] = ("", "", "")
    """The names of reading, setting and removing it, where they are not made of the path."""

    def operation(self, action: str) -> str:
        return self.operations[[*ACTIONS].index(action)] or f"{action}_{self.path}"


class QuorumMax(NamedTuple):
    """The most that policies may ask for."""

    ensemble: int = 5
    write: int = 5
    ack: int = 5


class Context(NamedTuple):
    """What a value must agree with."""

    level: Level = Level.NAMESPACE
    name: str = ""
    """What refusals call the policy."""
    quotas: tuple[BacklogQuota, ...] = ()
    retention: RetentionPolicies | None = None
    replication_clusters: tuple[str, ...] = ()
    allowed_clusters: tuple[str, ...] = ()
    quorum_max: QuorumMax = QuorumMax()
    partitions_max: int = 0
    message_bytes_max: int = 0


Check: TypeAlias = Callable[[T, Context], None]


Combine: TypeAlias = Literal["first", "count", "rate"]
"""How the levels combine: the topic's own value, else its global one, else the namespace's, else
the broker's. A count is one that is not negative, a rate one with a positive number.
"""


class Policy(NamedTuple, Generic[T]):
    name: str
    what: str
    topic: At | None = None
    namespace: At | None = None
    broker: str = ""
    """The configuration's key, or `member=key` for each member of the value; `a|b` is b where a
    is empty.
    """
    effective: str = ""
    """Its name among the policies in force; empty where that is several, or none."""
    combine: Combine = "first"
    check: Check[T] | None = None
    options: tuple[Parameter | Toggle, ...] | None = None
    """None: there are no verbs for it. Without any option the value is that of a bodyless write."""
    aliases: tuple[str, ...] = ()
    """Other words for the row's name; a level with a name of its own has none."""
    key: Parameter | None = None
    """Which of several values is meant; its name is that of the query parameter."""
    listed: bool = True
    """Whether clients know it by name."""
    routed: bool = True
    """Whether its routes are made from this row."""

    def place(self, level: Level) -> At:
        """The level as it is written, for a level that has it."""
        found = self.topic if level is Level.TOPIC else self.namespace
        assert found is not None, f"{self.name} is no policy of a {level}"
        return found

    def at(self, level: Level) -> At | None:
        """The level with all names filled in."""
        found = self.topic if level is Level.TOPIC else self.namespace
        if found is None:
            return None
        path = found.path or found.field
        return found._replace(
            path=path,
            name=found.name or self.name,
            what=found.what or self.what,
            said=found.said or path,
            read_path=found.read_path or path,
            remove_path=found.remove_path or path,
        )


AnyPolicy: TypeAlias = Policy[Any]


def policies_by_name(policies: Iterable[AnyPolicy], level: Level) -> Mapping[str, At]:
    """Those of a level that clients know, by the names that people use."""
    found = (policy.at(level) for policy in policies if policy.listed)
    return {at.name: at for at in found if at is not None}


ACTIONS: Final = {
    "get": "The {level}'s {path}.",
    "set": "Set the {level}'s {path}.",
    "remove": "Remove the {level}'s {path}.",
}
"""What can be done with a policy, with the sentence of the operation."""


def describe_missing(path: str) -> str:
    """The refusal of a topic's policy without a value."""
    return f"A value for {path} is needed; DELETE takes it away"

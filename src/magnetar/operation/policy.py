"""The row of a policy: where it is stored, how it is spelled, checked and combined.

Routes, validation, the client's tables, the verbs of the command line, what is in force and the
reference are derived from rows. The type of a value is that of the stored record's field: a row
names the field, and so costs the command line no import of the records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Final, Generic, Literal, NamedTuple, Never, TypeAlias, TypeVar

from magnetar.operation.row import REQUIRED, Kind, Parameter, Reader

if TYPE_CHECKING:
    from magnetar.model.policy import BacklogQuota, RetentionPolicies

T = TypeVar("T", contravariant=True)


class Level(StrEnum):
    NAMESPACE = "namespace"
    TOPIC = "topic"


class Option(NamedTuple):
    """A flag of the command line for a member of the value, or for the value."""

    flags: str
    """`{name}` is the name of the policy at its level."""
    read: Kind | Reader = Kind.TEXT
    member: str = ""
    """Empty for the value itself, which must be given; `*` for all members at once."""
    help: str = ""
    """The policy's sentence, where it has none."""
    broker: str = ""
    """The keys of the configuration that it is for the broker."""
    choices: tuple[str, ...] = ()
    preset: str = ""
    is_required: bool = False
    variable: str = ""

    def parameter(self, name: str = "", what: str = "") -> Parameter:
        is_value = not self.member and self.read is not Kind.FLAG
        return Parameter(
            self.member,
            self.read if isinstance(self.read, Kind) else Kind.TEXT,
            default=REQUIRED if self.is_required or is_value else None,
            help=self.help or what,
            flags=tuple(self.flags.format(name=name).split()),
            reader=self.read if isinstance(self.read, Reader) else None,
            choices=tuple(map(str, self.choices)),
            preset=self.preset,
            variable=self.variable,
        )


class Toggle(NamedTuple):
    """A flag for on and one for off."""

    member: str = ""
    absent: Literal["refused", "off", "unset"] = "refused"
    """What it means that neither is given."""
    broker: str = ""
    on: Option = Option("-e --enable", Kind.FLAG, help="switch it on")
    off: Option = Option("-d --disable", Kind.FLAG, help="switch it off")
    only_on: bool = False
    """Whether the other options count only when it is on."""


Checked: TypeAlias = Literal["always", "when set", "never"]
"""When the row's check applies at a level: always is also when a namespace is created with it. What
is never checked, Pulsar does not check either.
"""


class At(NamedTuple):
    """One level: the record's field, and how REST spells the policy there."""

    field: str = ""
    """The path of a topic's policy, or the name of a namespace's, unless it is another."""
    path: str = ""
    """The name in camel case unless it is another."""
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


@cache
def _named(at: At, level: Level, policy: str, what: str) -> At:
    name = at.name or policy
    first, *rest = name.split("-")
    path = at.path or first + "".join(word.capitalize() for word in rest)
    return at._replace(
        field=at.field or (path if level is Level.TOPIC else name.replace("-", "_")),
        path=path,
        name=name,
        what=at.what or what,
        said=at.said or path,
        read_path=at.read_path or path,
        remove_path=at.remove_path or path,
    )


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
    check: Check[T] | None = None
    options: tuple[Option | Toggle, ...] | None = None
    """None: there are no verbs for it. Without any option the value is that of a bodyless write."""
    combine: Combine = "first"
    effective: str = ""
    """The field of the policies in force, if there is one and it is not the name."""
    aliases: tuple[str, ...] = ()
    """Other words for the row's name; a level with a name of its own has none."""
    key: Parameter | None = None
    """Which of several values is meant, by its name in the request."""
    listed: bool = True
    """Whether clients know it by name."""
    routed: bool = True
    """Whether its routes are made from this row."""

    @property
    def broker(self) -> dict[str, list[str]]:
        """The keys of the configuration by the member of the value; the first that is set."""
        return {each.member: each.broker.split() for each in self.options or () if each.broker}

    def at(self, level: Level) -> At | None:
        """The level with all names filled in."""
        found = self.topic if level is Level.TOPIC else self.namespace
        return None if found is None else _named(found, level, self.name, self.what)

    def place(self, level: Level) -> At:
        """The same for a level that has it."""
        found = self.at(level)
        assert found is not None, f"{self.name} is no policy of a {level}"
        return found


AnyPolicy: TypeAlias = Policy[Never]
"""One whose values are of a type that only its record knows."""


def policies_at(level: Level, policies: Iterable[AnyPolicy]) -> Iterator[tuple[AnyPolicy, At]]:
    for policy in policies:
        at = policy.at(level)
        if at is not None:
            yield policy, at


def policies_by_name(policies: Iterable[AnyPolicy], level: Level) -> Mapping[str, At]:
    """Those of a level that clients know, by the names that people use."""
    return {at.name: at for policy, at in policies_at(level, policies) if policy.listed}


ACTIONS: Final = {
    "get": "The {level}'s {path}.",
    "set": "Set the {level}'s {path}.",
    "remove": "Remove the {level}'s {path}.",
}
"""What can be done with a policy, with the sentence of the operation."""


def describe_missing(path: str) -> str:
    """The refusal of a topic's policy without a value."""
    return f"A value for {path} is needed; DELETE takes it away"

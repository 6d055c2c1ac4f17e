"""The rows of the table of operations.

A row says everything about an operation but how it is carried out. The REST routes, their OpenAPI
description, the admin client, the commands and their help are derived from it; what carries it out
is the function of the same name in `broker/administration`.
"""

from __future__ import annotations

from copy import copy
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from magnetar.model.name import TopicDomain
from magnetar.model.permission import Need

JSON: Final = "application/json"
NDJSON: Final = "application/x-ndjson"
TEXT_PLAIN: Final = "text/plain; charset=utf-8"
BYTES: Final = "application/octet-stream"


class Kind(Enum):
    """What a parameter is to the admin client (its annotation) and on the command line."""

    TEXT = "str"
    NUMBER = "int"
    FLAG = "bool"
    NAMES = "Iterable[str]"
    PROPERTIES = "Mapping[str, str]"
    DOCUMENT = "Mapping[str, Any]"
    DOCUMENTS = "Iterable[Mapping[str, Any]]"
    MESSAGE_ID = "MessageId"


class Reader(Enum):
    """How the command line reads a value; without one it is read as its kind says."""

    SIZE = "size"
    DURATION_S = "duration_s"
    DURATION_MS = "duration_ms"
    HASH = "hash"
    PAIRS = "pairs"
    """Several pairs in one word."""
    DATETIME_MS = "datetime_ms"
    AGO_MS = "ago_ms"
    """A time, written as how far it is back from now."""
    MOMENT_MS = "moment_ms"
    """A time to come: of the day, with its date, or how far it is ahead."""
    DURATION_MIN = "duration_min"
    """Whole minutes; a negative number stands for no limit and stays."""
    SIZE_MB = "size_mb"
    FRACTION = "fraction"
    CONSTANT = "constant"
    """A choice that REST spells in capitals."""
    FILE = "file"
    """With a JSON object, whose members other flags replace."""


class Place(Enum):
    PATH = "path"
    QUERY = "query"
    BODY = "body"
    FIELD = "field"
    """A member of the body, which the client makes of all of them."""
    LOCAL = "local"
    """Not sent: an argument of a command that is made of several operations."""


class Result(Enum):
    """What an operation answers, as the admin client annotates it."""

    NOTHING = "None"
    NAMES = "Names"
    IDS = "Ids"
    NUMBER = "int"
    DOCUMENT = "Document"
    MAYBE_DOCUMENT = "Document | None"
    DOCUMENTS = "Documents"
    TABLE = "dict[str, Document]"
    COUNTS = "dict[str, int]"
    PROPERTIES = "dict[str, str]"
    FLAGS = "dict[str, bool]"
    GRANTS = "Grants"
    TEXT = "str"
    MAYBE_TEXT = "str | None"
    VERSION = "Version"
    VERSIONS = "Versions"
    MESSAGE_ID = "MessageId"
    MESSAGE_IDS = "dict[int, MessageId]"
    ENTRY = "StoredEntry"
    STREAM = "Iterator[str]"
    ANY = "Any"


class Form(Enum):
    """How many documents an operation answers, as the admin client annotates it."""

    ONE = "{}"
    MAYBE = "{} | None"
    LIST = "Sequence[{}]"
    BY_NAME = "dict[str, {}]"
    BY_GROUP = "dict[str, dict[str, {}]]"


class Answer(NamedTuple):
    """A document whose keys are known, or several of them."""

    kind: type
    """One of `model/answer`."""
    form: Form = Form.ONE

    @property
    def value(self) -> str:
        return self.form.value.format(self.kind.__name__)


Default: TypeAlias = str | int | bool | None


class _Required(Enum):
    REQUIRED = "required"


REQUIRED: Final = _Required.REQUIRED


class Parameter(NamedTuple):
    """One argument of an operation, by its Python name."""

    name: str
    kind: Kind = Kind.TEXT
    place: Place = Place.QUERY
    wire: str = ""
    """What REST calls it, where that is not the name in camel case."""
    default: Default | _Required = None
    help: str = ""
    """On the command line. What has none is not asked for there."""
    flags: tuple[str, ...] = ()
    """Its names on the command line; without any it is a word that stands by its place."""
    reader: Reader | None = None
    choices: tuple[str, ...] = ()
    many: bool = False
    """May be given again on the command line."""
    variable: str = ""
    missing: str = ""
    """The refusal where it is needed and not given."""
    policy: str = ""
    """A body that is the value of this policy is refused under its name."""
    media_types: tuple[str, ...] = (JSON,)
    text_limit: str = "property_value_bytes"
    """The row of the table of limits that every text of a body keeps to."""
    is_ignored: bool = False
    """Sent for the sake of other brokers; this one has no use for it."""
    absent: Default = None
    """What REST takes where it is not sent, if not the default."""
    header: str = ""
    """Where it stands in a request that has it not in the query."""
    preset: str = ""
    """What the command line takes where it is required and not given."""

    def asked(
        self,
        help: str,
        *flags: str,
        reader: Reader | None = None,
        choices: tuple[str, ...] = (),
        many: bool = False,
        variable: str = "",
        preset: str = "",
    ) -> Parameter:
        """The same, on the command line too."""
        return self._replace(
            help=help,
            flags=flags,
            reader=reader,
            choices=choices,
            many=many,
            variable=variable,
            preset=preset,
        )

    @property
    def is_required(self) -> bool:
        return self.default is REQUIRED

    @property
    def wire_name(self) -> str:
        if self.wire:
            return self.wire
        first, *rest = self.name.split("_")
        return first + "".join(word.capitalize() for word in rest)

    @property
    def option(self) -> str:
        """What the command line calls the value: the first long name, as Python spells it."""
        long = next((name for name in self.flags if name.startswith("--")), self.name)
        return long.lstrip("-").replace("-", "_")


def path(
    name: str,
    help: str = "",
    *flags: str,
    kind: Kind = Kind.TEXT,
    wire: str = "",
    default: _Required | None = REQUIRED,
) -> Parameter:
    """With None for a default, only some of the paths of the operation have it."""
    return Parameter(name, kind, Place.PATH, wire or name, default, help, flags)


def local(name: str, kind: Kind = Kind.TEXT, default: Default | _Required = None) -> Parameter:
    return Parameter(name, kind, Place.LOCAL, name, default)


def query(name: str, kind: Kind = Kind.TEXT, default: Default | _Required = None) -> Parameter:
    return Parameter(name, kind, Place.QUERY, default=default)


def flag(name: str, wire: str = "", default: bool = False) -> Parameter:
    return Parameter(name, Kind.FLAG, Place.QUERY, wire, default)


def body(
    name: str,
    kind: Kind,
    default: Default | _Required = REQUIRED,
    *,
    missing: str = "",
    policy: str = "",
) -> Parameter:
    return Parameter(name, kind, Place.BODY, name, default, missing=missing, policy=policy)


def field(
    name: str, kind: Kind = Kind.TEXT, default: Default | _Required = None, wire: str = ""
) -> Parameter:
    return Parameter(name, kind, Place.FIELD, wire or name, default)


TENANT: Final = path("tenant", "name of the tenant")
NAMESPACE: Final = path("namespace", "tenant/namespace")
TOPIC: Final = path("topic", "full name, tenant/namespace/topic, or a topic of public/default")
SUBSCRIPTION: Final = path("subscription", "name of the subscription", "-s", "--subscription")
FORCE: Final = flag("force")
COUNT: Final = local("count", Kind.NUMBER).asked("how many (1)", "-n", "--count", preset="1")
"""The command reads so many entries, from the first place on."""
READ_COMMITTED: Final = "READ_COMMITTED"
ISOLATION: Final = local("isolation").asked(
    "READ_UNCOMMITTED also shows what open and aborted transactions sent (READ_COMMITTED)",
    "-til",
    "--transaction-isolation-level",
    choices=(READ_COMMITTED, "READ_UNCOMMITTED"),
    preset=READ_COMMITTED,
)


class Verb(NamedTuple):
    """How an operation is called on the command line."""

    name: str
    help: str
    aliases: tuple[str, ...] = ()
    group: str = ""
    """Where it stands, if not in the group that is named like the operation's noun."""
    is_silent: bool = False
    """Whether it prints nothing although the operation answers something."""


DOMAINS: Final = (TopicDomain.PERSISTENT, TopicDomain.NON_PERSISTENT)


class Operation(NamedTuple):
    name: str
    """`noun.verb`; the admin client has the verb as a method of the noun."""
    doc: str
    method: str = ""
    """Empty for what is composed of other operations, by the client or by the command."""
    path: str = ""
    need: Need | None = None
    """What it takes of the caller; None for what is not served here."""
    parameters: tuple[Parameter, ...] = ()
    result: Result | Answer = Result.NOTHING
    verbs: tuple[Verb, ...] = ()
    status: int = 0
    """Reads answer 200 and writes 204, unless a row says otherwise."""
    for_owner: bool = False
    """Whether only the broker that owns the namespace can carry it out."""
    produces: tuple[str, ...] = (JSON,)
    """The first unless the caller asks for another."""
    domains: tuple[TopicDomain, ...] = DOMAINS
    """The kinds of topic that a `{domain}` of the path stands for."""
    domain: TopicDomain | None = None
    """That of its topic, where the path does not say."""
    also: tuple[str, ...] = ()
    """Other paths under which the same is offered."""
    sends: tuple[tuple[str, Default], ...] = ()
    """What the client adds to the query for the sake of other brokers."""
    is_written: bool = False
    """Whether the client's method is written by hand: it does more than make this call."""
    is_internal: bool = False
    """Whether only brokers or the console ask for it: the admin client has no method of it."""

    @property
    def noun(self) -> str:
        return self.name.partition(".")[0]

    @property
    def verb(self) -> str:
        return self.name.partition(".")[2]

    @property
    def only_looks(self) -> bool:
        """Whether it shows something and changes nothing; a text says what was done, unless the
        broker answers with it.
        """
        bodiless = (Result.NOTHING,) if self.method == "GET" else (Result.NOTHING, Result.TEXT)
        return self.method in ("GET", "") and self.result not in bodiless

    @property
    def answer_status(self) -> int:
        return self.status or (200 if self.method == "GET" else 204)


class Table:
    """Collects the rows of a noun; paths stand below its root, `shared` parameters come first."""

    def __init__(
        self,
        noun: str,
        root: str = "",
        *shared: Parameter,
        for_owner: bool = False,
        domains: tuple[TopicDomain, ...] = DOMAINS,
        domain: TopicDomain | None = None,
        roots: tuple[str, ...] = (),
        is_internal: bool = False,
    ) -> None:
        """`roots` are others under which the same is offered."""
        self._noun = noun
        self._root = root
        self._shared = shared
        self._for_owner = for_owner
        self._domains = domains
        self._domain = domain
        self._roots = roots
        self._is_internal = is_internal
        self.rows: list[Operation] = []

    def below(self, path: str, *shared: Parameter) -> Table:
        """Of the same rows, with paths and parameters that go on from those of this one."""
        table = copy(self)
        table._root += path
        table._roots = tuple(root + path for root in self._roots)
        table._shared += shared
        return table

    def add(
        self,
        verb: str,
        call: str,
        need: Need,
        doc: str,
        *parameters: Parameter,
        result: Result | Answer = Result.NOTHING,
        cli: Verb | tuple[Verb, ...] = (),
        status: int = 0,
        for_owner: bool | None = None,
        produces: tuple[str, ...] = (JSON,),
        domains: tuple[TopicDomain, ...] = (),
        also: tuple[str, ...] = (),
        sends: tuple[tuple[str, Default], ...] = (),
        is_written: bool = False,
    ) -> None:
        """`call` is the method and the path, as `GET /stats`; `also` are other paths below the same
        roots.
        """
        method, _, path = call.partition(" ")
        roots = (self._root, *self._roots)
        first, *others = (root + each for each in (path, *also) for root in roots)
        self.rows.append(
            Operation(
                f"{self._noun}.{verb}",
                doc,
                method,
                first,
                need,
                (*self._shared, *parameters),
                result,
                (cli,) if isinstance(cli, Verb) else cli,
                status,
                self._for_owner if for_owner is None else for_owner,
                produces,
                domains or self._domains,
                self._domain,
                tuple(others),
                sends,
                is_written,
                self._is_internal,
            )
        )

    def compose(
        self,
        verb: str,
        doc: str,
        *parameters: Parameter,
        call: str = "",
        result: Result | Answer = Result.NOTHING,
        cli: Verb | tuple[Verb, ...] = (),
    ) -> None:
        """What has no route of its own, or one that only other brokers have."""
        method, _, path = call.partition(" ")
        self.rows.append(
            Operation(
                f"{self._noun}.{verb}",
                doc,
                method,
                self._root + path,
                parameters=(*self._shared, *parameters),
                result=result,
                verbs=(cli,) if isinstance(cli, Verb) else cli,
                is_written=not method,
            )
        )

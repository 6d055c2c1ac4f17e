"""The options of source and sink, parsed and checked; every refusal is a sentence."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final, TypeVar

from magnetar import ConfigurationError
from magnetar.columns import parse_size
from magnetar.errors import InvalidName, MagnetarError, nearest
from magnetar.model.name import TopicDomain, TopicName, parse_namespace, parse_topic
from magnetar.spark.access import ANONYMOUS, OPTIONS, Access
from magnetar.spark.admission import Limits
from magnetar.spark.client_option import ClientOptions, parse_client
from magnetar.spark.decryption import ANY, Decryption, OnEncrypted
from magnetar.spark.slice import KeyOrder

E = TypeVar("E", bound=StrEnum)


class InvalidOption(MagnetarError):
    """An invalid option, or two that exclude each other."""


class ValueFormat(StrEnum):
    BYTES = "bytes"
    SCHEMA = "schema"
    """Typed as the schema that is registered for the topic says."""

    @classmethod
    def _missing_(cls, value: object) -> ValueFormat | None:
        return cls.BYTES if value == "raw" else None


class BadValue(StrEnum):
    FAIL = "fail"
    NULL = "null"


class DirectRead(StrEnum):
    AUTO = "auto"
    NEVER = "never"


class Options:
    """Reads options by name, whatever their case, and remembers which were asked for."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = {key.lower(): value for key, value in given.items()}
        self._written = {key.lower(): key for key in given}
        self._known: dict[str, str] = {}

    def text(self, name: str, default: str | None = None) -> str | None:
        self._known[name.lower()] = name
        value = self._given.get(name.lower(), default)
        return value if value is None else str(value).strip()

    def need(self, name: str, example: str) -> str:
        value = self.text(name)
        if not value:
            raise InvalidOption(
                f'The option {name} is needed, such as .option("{name}", "{example}")'
            )
        return value

    def flag(self, name: str, default: bool) -> bool:
        value = (self.text(name) or str(default)).lower()
        if value not in ("true", "false"):
            raise InvalidOption(f"{name} is true or false, not {value!r}")
        return value == "true"

    def number(self, name: str, default: int | None = None, *, least: int = 1) -> int | None:
        value = self.text(name)
        if value is None:
            return default
        if not value.isdecimal() or int(value) < least:
            raise InvalidOption(f"{name} is a number from {least} on, not {value!r}")
        return int(value)

    def size(self, name: str, default: int | None = None, *, least: int = 1) -> int | None:
        value = self.text(name)
        if value is None:
            return default
        try:
            found = parse_size(name, value)
        except ConfigurationError as error:
            raise InvalidOption(error.sentence) from None
        if found < least:
            raise InvalidOption(f"{name} must be above {least - 1}")
        return found

    def seconds(self, name: str, default: float) -> float:
        value = self.text(name)
        return default if value is None else parse_seconds(name, value)

    def choice(self, name: str, kind: type[E], default: E) -> E:
        value = self.text(name)
        if value is None:
            return default
        try:
            return kind(value.lower())
        except ValueError:
            raise InvalidOption(f"{name} is {_either(kind)}, not {value!r}") from None

    def prefixed(self, prefix: str) -> dict[str, str]:
        found = {k: v for k, v in self._given.items() if k.startswith(prefix.lower())}
        self._known.update(zip(found, found, strict=True))
        return {key[len(prefix) :]: value for key, value in found.items()}

    def together(self, *names: str) -> None:
        """Refuse any two of these."""
        there = [name for name in names if name.lower() in self._given]
        if len(there) > 1:
            raise InvalidOption(
                f"{there[0]} and {there[1]} contradict each other; give one of them"
            )

    def check_known(self) -> None:
        unknown = sorted(set(self._given) - set(self._known) - {"path"})
        if unknown:
            # Spark hands options over in lower case: what is meant is shown as it is written.
            written = self._written[unknown[0]]
            meant = nearest(written, self._known.values())
            hint = f"did you mean {meant}?" if meant else "see docs/spark.md for those there are"
            raise InvalidOption(f"There is no option {written}; {hint}")


def _either(kind: type[StrEnum]) -> str:
    return " or ".join(member.value for member in kind)


_SECONDS: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|seconds?|minutes?|hours?)?")
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_seconds(name: str, text: str) -> float:
    found = _SECONDS.fullmatch(text.strip().lower())
    if found is None:
        raise InvalidOption(f"{name} is a time such as '500ms', '30s' or '15m', not {text!r}")
    unit = found[2] or "s"
    return float(found[1]) * _UNITS[unit if unit == "ms" else unit[0]]


@dataclass(frozen=True, slots=True)
class Broker:
    """Where the broker is and who asks."""

    service_url: str
    admin_url: str
    access: Access = ANONYMOUS
    timeout_s: float = 60.0
    client: ClientOptions = field(default_factory=dict)


def parse_broker(options: Options) -> Broker:
    try:
        client = parse_client(options.prefixed("client."))
    except ConfigurationError as error:
        raise InvalidOption(error.sentence) from None
    return Broker(
        options.need("serviceUrl", "pulsar://localhost:6650"),
        options.need("adminUrl", "http://localhost:8080").rstrip("/"),
        parse_access(options),
        options.seconds("operationTimeout", 60.0),
        client,
    )


def parse_access(options: Options) -> Access:
    texts = {name: options.text(option) for name, option in OPTIONS.items()}
    flags = {
        name: options.flag(OPTIONS[name], default=False)
        for name in ("tls_insecure", "tls_any_host")
    }
    try:
        return Access(**{name: text or None for name, text in texts.items()} | flags)  # type: ignore[arg-type]
    except ConfigurationError as error:
        raise InvalidOption(error.sentence) from None


@dataclass(frozen=True, slots=True)
class Selection:
    """Which topics: those named, or those of a namespace that match."""

    topics: tuple[str, ...] = ()
    namespace: str | None = None
    pattern: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    parts: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """Of topics of which not all is read: the numbers of segments or partitions."""


def parse_selection(options: Options) -> Selection:
    options.together("topic", "topics", "topicPattern", "namespace", "assign")
    properties = _parse_pairs(options.text("propertyFilters") or "")
    named = options.text("topic") or options.text("topics")
    pattern, namespace = options.text("topicPattern"), options.text("namespace")
    if properties and namespace is None:
        raise InvalidOption(
            "propertyFilters choose among the topics of a namespace; give namespace too"
        )
    if named:
        names = [each.strip() for each in named.split(",") if each.strip()]
        return Selection(tuple(dict.fromkeys(topic_key(name) for name in names)))
    assigned = options.text("assign")
    if assigned:
        return _parse_assigned(assigned)
    if pattern:
        return _parse_pattern(pattern)
    if namespace:
        try:
            return Selection(namespace=str(parse_namespace(namespace)), properties=properties)
        except InvalidName as error:
            raise InvalidOption(error.sentence) from None
    raise InvalidOption("Name what to read with topic, topics, topicPattern, namespace or assign")


def parse_name(text: str) -> TopicName:
    try:
        name = parse_topic(text)
    except InvalidName as error:
        raise InvalidOption(error.sentence) from None
    if name.domain is TopicDomain.NON_PERSISTENT:
        raise InvalidOption(f"{name} keeps nothing that could be read later")
    if name.domain is TopicDomain.SEGMENT:
        raise InvalidOption(f"{name} is one segment; name the topic:// it belongs to")
    return name


def topic_key(text: str) -> str:
    """The name without its domain, which a migration changes."""
    name = parse_name(text)
    return f"{name.namespace}/{name.local}"


def _parse_assigned(text: str) -> Selection:
    try:
        stated = json.loads(text)
    except ValueError:
        stated = None
    parts = {}
    for name, numbers in stated.items() if isinstance(stated, dict) else ():
        is_list = isinstance(numbers, list) and all(type(each) is int for each in numbers)
        if is_list and numbers and min(numbers) >= 0:
            parts[topic_key(name)] = frozenset(numbers)
    if not parts or not isinstance(stated, dict) or len(parts) < len(stated):
        raise InvalidOption(
            'assign is JSON of segments or partitions by topic, such as {"orders": [0, 2]},'
            f" not {text!r}"
        )
    return Selection(tuple(parts), parts=parts)


def _parse_pattern(pattern: str) -> Selection:
    plain = re.sub(r"^(persistent|topic)://", "", pattern)
    parts = plain.split("/", 2)
    if len(parts) != 3:
        raise InvalidOption(
            f"topicPattern is tenant/namespace/<regular expression>, not {pattern!r}"
        )
    try:
        re.compile(parts[2])
        return Selection(namespace=str(parse_namespace("/".join(parts[:2]))), pattern=parts[2])
    except (re.error, InvalidName) as error:
        raise InvalidOption(f"topicPattern {pattern!r} cannot be used: {error}") from None


def _parse_pairs(text: str) -> dict[str, str]:
    pairs = {}
    for each in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = each.partition("=")
        if not equals:
            raise InvalidOption(f"propertyFilters are key=value, joined by commas, not {each!r}")
        pairs[key.strip()] = value.strip()
    return pairs


class Edge(StrEnum):
    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class Bound:
    """Where reading begins or ends: an edge, a time, or the places of a checkpoint; and of some
    topics elsewhere.
    """

    edge: Edge | None = None
    at_ms: int | None = None
    stated: Mapping[str, Any] | None = None
    by_topic: Mapping[str, Bound] = field(default_factory=dict)

    def of(self, topic: str) -> Bound:
        return self.by_topic.get(topic, self)

    @property
    def has_time(self) -> bool:
        return any(each.at_ms is not None for each in (self, *self.by_topic.values()))


_OTHERS: Final = "*"


def parse_bound(options: Options, offsets: str, time: str, default: Edge, others: Edge) -> Bound:
    """`others` is for topics that JSON by topic does not name."""
    options.together(offsets, time)
    moment = options.text(time)
    if moment is not None:
        return Bound(at_ms=parse_moment(time, moment))
    text = options.text(offsets)
    if text is None:
        return Bound(default)
    if text.lower() in list(Edge):
        return Bound(Edge(text.lower()))
    try:
        document = json.loads(text)
    except ValueError:
        document = None
    bound = _parse_one(offsets, document)
    if bound is not None:
        return bound
    if not isinstance(document, dict) or not document:
        raise InvalidOption(
            f"{offsets} is earliest, latest, a checkpoint's JSON or JSON by topic, not {text!r}"
        )
    by_topic = {
        each if each == _OTHERS else topic_key(each): _parse_named(offsets, each, stated)
        for each, stated in document.items()
        if each != "hold"
    }
    return replace(by_topic.pop(_OTHERS, Bound(others)), by_topic=by_topic)


def _parse_named(name: str, topic: str, stated: object) -> Bound:
    bound = _parse_one(name, stated)
    if bound is None:
        raise InvalidOption(
            f'{name} of {topic} is "earliest", "latest", {{"at": a time}} or a checkpoint,'
            f" not {json.dumps(stated)}"
        )
    return bound


def _parse_one(name: str, stated: Any) -> Bound | None:
    """None for what does not say where in one topic."""
    match stated:
        case "earliest" | "latest" as edge:
            return Bound(Edge(edge))
        case {"start": "earliest" | "latest" as edge}:
            return Bound(Edge(edge))
        case {"at": str() | int() as moment}:
            return Bound(at_ms=parse_moment(name, str(moment)))
        case {"positions": dict()}:
            return Bound(stated=stated)
        case _:
            return None


def parse_moment(name: str, text: str) -> int:
    """Milliseconds since 1970, or a time as ISO 8601 writes it; without a zone it is UTC."""
    if text.isdecimal():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidOption(
            f"{name} is a time such as 2026-01-31T12:00:00Z or milliseconds, not {text!r}"
        ) from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


@dataclass(frozen=True, slots=True)
class SourceOptions:
    broker: Broker
    selection: Selection
    start: Bound
    end: Bound
    limits: Limits
    key_order: KeyOrder
    value_format: ValueFormat
    bad_value: BadValue
    direct_read: DirectRead
    fail_on_loss: bool
    columns: tuple[str, ...]
    task_bytes: int
    tasks_max: int
    tasks_min: int
    batch_rows: int
    batch_bytes: int
    window_bytes: int
    inline_bytes: int
    hold: bool
    hold_name: str | None
    decryption: Decryption
    push_down: bool = False


def parse_source(given: Mapping[str, str], *, is_stream: bool) -> SourceOptions:
    options = Options(given)
    limits = Limits(
        options.number("maxMessagesPerTrigger"),
        options.size("maxBytesPerTrigger"),
        options.number("minMessagesPerTrigger"),
        options.seconds("maxTriggerDelay", 900.0),
    )
    if limits.messages_min and limits.messages_max and limits.messages_min > limits.messages_max:
        raise InvalidOption(
            "minMessagesPerTrigger is above maxMessagesPerTrigger: nothing could be read"
        )
    if limits.messages_min is None and options.text("maxTriggerDelay") is not None:
        raise InvalidOption(
            "maxTriggerDelay bounds the wait for minMessagesPerTrigger; give that too"
        )
    if is_stream:
        for name in ("endingOffsets", "endingTime"):
            if options.text(name) is not None:
                raise InvalidOption(
                    f"{name} ends a batch query; a streaming one ends by trigger(availableNow=True)"
                )
    hold_name = options.text("holdName")
    hold = options.flag("hold", default=True)
    if hold_name and not hold:
        raise InvalidOption(
            "holdName names the hold that hold=false switches off; give one of them"
        )
    parsed = SourceOptions(
        broker=parse_broker(options),
        selection=parse_selection(options),
        start=parse_bound(
            options,
            "startingOffsets",
            "startingTime",
            Edge.LATEST if is_stream else Edge.EARLIEST,
            Edge.EARLIEST,
        ),
        end=parse_bound(options, "endingOffsets", "endingTime", Edge.LATEST, Edge.LATEST),
        limits=limits,
        key_order=options.choice("keyOrder", KeyOrder, KeyOrder.SEGMENT),
        value_format=options.choice("valueFormat", ValueFormat, ValueFormat.BYTES),
        bad_value=options.choice("badValue", BadValue, BadValue.FAIL),
        direct_read=options.choice("directRead", DirectRead, DirectRead.AUTO),
        fail_on_loss=options.flag("failOnDataLoss", default=True),
        columns=_parse_columns(options.text("columns")),
        task_bytes=options.size("taskBytes", 64 << 20) or 1,
        tasks_max=options.number("maxTasks", 1000) or 1,
        tasks_min=options.number("minPartitions", 1) or 1,
        batch_rows=options.number("batchRows", 50_000) or 1,
        batch_bytes=options.size("batchBytes", 16 << 20) or 1,
        window_bytes=options.size("windowBytes", 32 << 20) or 1,
        inline_bytes=options.size("inlineBytes", 0, least=0) or 0,
        hold=hold,
        hold_name=hold_name,
        decryption=_parse_decryption(options),
        push_down=options.flag("pushDown", default=False),
    )
    options.check_known()
    for name, bound in (("startingOffsets", parsed.start), ("endingOffsets", parsed.end)):
        foreign = set(bound.by_topic) - set(parsed.selection.topics)
        if foreign and parsed.selection.topics:
            raise InvalidOption(f"{name} names {min(foreign)}, which the query does not read")
    return parsed


def _parse_decryption(options: Options) -> Decryption:
    text = options.text("decryptionKeys")
    on_failure = options.choice("onEncrypted", OnEncrypted, OnEncrypted.FAIL)
    if text is None:
        return Decryption(on_failure=on_failure)
    try:
        keys = json.loads(text)
    except ValueError:
        keys = {ANY: text}
    if not isinstance(keys, dict) or not all(isinstance(each, str) for each in keys.values()):
        raise InvalidOption(
            "decryptionKeys is the path of a private key in PEM, or a JSON object of such paths by"
            f" the names of the keys, not {text!r}"
        )
    return Decryption(keys, on_failure)


def _parse_columns(text: str | None) -> tuple[str, ...]:
    return tuple(each.strip() for each in (text or "").split(",") if each.strip())

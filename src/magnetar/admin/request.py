"""What a client asked, as far as it stands in the path, the query and the headers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qs, unquote

import msgspec

from magnetar.admin.body import unfit
from magnetar.errors import BadRequest, InvalidName, PreconditionFailed
from magnetar.model.caller import ANONYMOUS, Caller
from magnetar.model.limit import Limits, check_local, check_text
from magnetar.model.name import NamespaceName, TopicDomain, TopicName, decode_local
from magnetar.model.subscription import check_subscription_name
from magnetar.operation.policy import describe_missing

_TRUE: Final = frozenset(("true", "1", "yes"))
_FALSE: Final = frozenset(("false", "0", "no", ""))
_SLASHED: Final = (TopicDomain.TOPIC, TopicDomain.SEGMENT)
"""The kinds of topic whose local name may hold slashes."""
_LONG_MAX: Final = 2**63 - 1
_PARTS: Final[Mapping[str, str]] = {
    "tenant": "tenant_name_bytes",
    "cluster": "tenant_name_bytes",
    "namespace": "namespace_name_bytes",
    "subscription": "subscription_name_bytes",
    "key": "property_key_bytes",
}
"""The row of the table of limits that each keeps to, if not `text_bytes`."""


@dataclass(frozen=True, slots=True)
class Call:
    """A request that found its route: what its path, query, headers and body say.

    `path` and `parts` are still percent-encoded, header names are in lower case.
    """

    path: str
    query_text: str
    parts: Mapping[str, str]
    queries: Mapping[str, tuple[str, ...]]
    headers: Mapping[str, str]
    caller: Caller = ANONYMOUS
    is_tls: bool = False
    address: str = ""
    payload: Any = None
    has_relay: bool = False
    """Whether calls about what other brokers own are carried there; else the caller is sent."""
    is_gone: Callable[[], bool] = lambda: False
    """Whether the client closed the connection: an answer would have no reader."""

    # What the path says
    def text(self, name: str) -> str:
        """A component with its percent escapes resolved; a plus sign stays one."""
        try:
            return unquote(self.parts[name], errors="strict")
        except UnicodeDecodeError:
            raise BadRequest(f"{name} in the path is not UTF-8") from None

    def integer(self, name: str) -> int:
        return _parse_integer(name, self.text(name))

    @property
    def tenant(self) -> str:
        return self.text("tenant")

    @property
    def namespace(self) -> NamespaceName:
        return self._read_namespace("Namespace name is not valid")

    def _read_namespace(self, sentence: str) -> NamespaceName:
        try:
            return NamespaceName(self.tenant, self.text("namespace"))
        except InvalidName:
            raise InvalidName(sentence) from None

    @property
    def domain(self) -> TopicDomain:
        return TopicDomain(self.parts["domain"])

    @property
    def topic(self) -> TopicName:
        """The topic's component is form-encoded: `+` is a space, `%2F` a slash of the name."""
        domain = self.domain if "domain" in self.parts else TopicDomain.PERSISTENT
        namespace = self._read_namespace("Tenant name or namespace is not valid")
        try:
            local = decode_local(self.parts["topic"])
            if local != local.strip() or ("/" in local and domain not in _SLASHED):
                raise InvalidName("Topic name is not valid")
            return TopicName(domain, namespace, local)
        except (UnicodeDecodeError, InvalidName):
            raise InvalidName("Topic name is not valid") from None

    @property
    def subscription(self) -> str:
        """Form-encoded by the Java tools, percent-encoded twice by the Go ones: resolve both.

        A literal plus sign survives; a name that itself contains a percent escape does not.
        """
        try:
            name = decode_local(self.parts["subscription"])
            name = unquote(name, errors="strict") if "%" in name else name
        except UnicodeDecodeError:
            raise PreconditionFailed("Subscription name is not valid") from None
        check_subscription_name(name)
        return name

    # What the query says
    def values(self, name: str) -> tuple[str, ...]:
        return self.queries.get(name, ())

    def query(self, name: str) -> str | None:
        values = self.values(name)
        return values[0] if values else None

    def flag(self, name: str, default: bool = False) -> bool:
        value = self.query(name)
        if value is None:
            return default
        if value.lower() in _TRUE:
            return True
        if value.lower() in _FALSE:
            return False
        raise BadRequest(f"{name} is true or false, not {value!r}")

    def number(self, name: str) -> int | None:
        value = self.query(name)
        return None if value is None or value == "" else _parse_integer(name, value)

    def policy_value(self, name: str, schema: Any) -> Any:
        """The value of a topic's policy, when it stands in the query."""
        text = (self.query(name) or "").strip()
        if not text:
            raise PreconditionFailed(describe_missing(name))
        try:
            return msgspec.convert(text, schema, strict=False)
        except msgspec.ValidationError as error:
            raise unfit(name, str(error)) from None


def parse_query(text: str) -> dict[str, tuple[str, ...]]:
    try:
        found = parse_qs(text, keep_blank_values=True, errors="strict", max_num_fields=1000)
    except ValueError as error:  # bytes that are no UTF-8, or too many fields
        raise BadRequest(f"the query cannot be read: {error}") from None
    return {name: tuple(values) for name, values in found.items()}


def _parse_integer(name: str, text: str) -> int:
    digits = text[1:] if text[:1] == "-" else text
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 19):
        raise BadRequest(f"{name} is a whole number, not {text!r}")
    value = int(text)
    if not -_LONG_MAX - 1 <= value <= _LONG_MAX:
        raise BadRequest(f"{name} is out of range: {text}")
    return value


def check_parts(limits: Limits, parts: Mapping[str, str]) -> None:
    """The components of a path, still percent-encoded, by the names that the route gives them."""
    for name, part in parts.items():
        text = unquote(part, errors="replace")
        if name == "topic":
            check_local(limits, text)
        else:
            check_text(limits, _PARTS.get(name, "text_bytes"), text)

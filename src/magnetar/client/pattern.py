"""Topics chosen by a regular expression over their names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from magnetar.client.error import ConfigurationError
from magnetar.client.lookup import Lookup
from magnetar.errors import InvalidName
from magnetar.model.name import (
    NamespaceName,
    TopicDomain,
    TopicName,
    parse_namespace,
    parse_topic,
)

_MODES: Final = {
    TopicDomain.PERSISTENT: "PERSISTENT",
    TopicDomain.NON_PERSISTENT: "NON_PERSISTENT",
}


@dataclass(frozen=True, slots=True)
class TopicPattern:
    """All topics of one namespace whose local name matches as a whole."""

    domain: TopicDomain
    namespace: NamespaceName
    local: re.Pattern[str]
    interval: float
    """Seconds between two looks for new topics."""

    async def find(self, lookup: Lookup) -> list[TopicName]:
        """A partitioned topic counts once."""
        names = await lookup.list_topics(self.namespace, mode=_MODES[self.domain])
        found = {parse_topic(name).base: None for name in names}
        return sorted(
            (topic for topic in found if self.local.fullmatch(topic.local)), key=lambda t: t.full
        )


def parse_pattern(text: str, *, interval: float) -> TopicPattern:
    """Read `[domain://]tenant/namespace/expression`, or an expression over public/default."""
    scheme, separator, rest = text.partition("://")
    if not separator:
        scheme, rest = "persistent", text
    try:
        domain = TopicDomain(scheme)
    except ValueError:
        domain = TopicDomain.TOPIC
    if domain not in _MODES:
        raise ConfigurationError(
            f"A pattern is persistent://… or non-persistent://…, not {scheme}://…;"
            " a consumer with namespace= follows scalable topics"
        )
    parts = rest.split("/", 2)
    if len(parts) == 1:
        parts = ["public", "default", rest]
    if len(parts) != 3:
        raise ConfigurationError(f"Not a pattern: {text!r}; expected tenant/namespace/expression")
    try:
        return TopicPattern(
            domain, parse_namespace("/".join(parts[:2])), re.compile(parts[2]), interval
        )
    except InvalidName as error:
        raise ConfigurationError(
            f"{error.sentence}; only the topic itself may be a pattern"
        ) from None
    except re.error as error:
        raise ConfigurationError(f"Not a regular expression: {parts[2]!r}: {error}") from None

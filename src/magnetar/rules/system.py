"""Which topics belong to the broker itself."""

from __future__ import annotations

from typing import Final

from magnetar.errors import NotAllowed
from magnetar.model.name import NamespaceName, TopicDomain, TopicName

CHANGE_EVENTS: Final = "__change_events"
"""Where a namespace's topic policies are kept by the system-topic backend."""
SYSTEM_TENANT: Final = "pulsar"
SYSTEM_NAMESPACE: Final = NamespaceName(SYSTEM_TENANT, "system")
SYSTEM_TOPICS: Final = frozenset(
    {
        CHANGE_EVENTS,
        "__transaction_buffer_snapshot",
        "__transaction_buffer_snapshot_indexes",
        "__transaction_buffer_snapshot_segments",
    }
)
_COORDINATOR_PREFIX: Final = "__transaction_log_"
_PENDING_ACK_SUFFIX: Final = "__transaction_pending_ack"


def is_system_topic(name: TopicName) -> bool:
    """A partition is one when its topic is."""
    local = name.base.local
    return (
        name.namespace == SYSTEM_NAMESPACE
        or local in SYSTEM_TOPICS
        or local.startswith(_COORDINATOR_PREFIX)
        or local.endswith(_PENDING_ACK_SUFFIX)
    )


def is_change_events(name: TopicName) -> bool:
    return name.domain is TopicDomain.PERSISTENT and name.base.local == CHANGE_EVENTS


def is_own(name: TopicName) -> bool:
    """Whether a broker made it for itself: a system topic, or the one of its health check."""
    return name.namespace.tenant == SYSTEM_TENANT or is_system_topic(name)


def takes_policies(name: TopicName) -> bool:
    """The broker's own topics take none, so that none has to be read before they are there."""
    return not is_own(name)


def takes_transactions(name: TopicName) -> bool:
    """Whether transactions may span a topic: it keeps what is written, and is not a broker's."""
    return name.domain in (TopicDomain.PERSISTENT, TopicDomain.SEGMENT) and not is_own(name)


def check_takes_transactions(name: TopicName) -> None:
    if not takes_transactions(name):
        raise NotAllowed(f"No transaction can span {name}")


def change_events_of(namespace: NamespaceName) -> TopicName:
    return TopicName(TopicDomain.PERSISTENT, namespace, CHANGE_EVENTS)

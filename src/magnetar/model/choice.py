"""The words that policies choose from, as Pulsar spells them."""

from __future__ import annotations

from enum import StrEnum


class BacklogQuotaType(StrEnum):
    DESTINATION_STORAGE = "destination_storage"
    MESSAGE_AGE = "message_age"


class BacklogAction(StrEnum):
    """What happens to producers, or to the backlog, when the quota is exceeded."""

    PRODUCER_REQUEST_HOLD = "producer_request_hold"
    PRODUCER_EXCEPTION = "producer_exception"
    CONSUMER_BACKLOG_EVICTION = "consumer_backlog_eviction"


class InactiveTopicDeleteMode(StrEnum):
    WITHOUT_SUBSCRIPTIONS = "delete_when_no_subscriptions"
    SUBSCRIPTIONS_CAUGHT_UP = "delete_when_subscriptions_caught_up"


class OffloadedReadPriority(StrEnum):
    BOOKKEEPER_FIRST = "BOOKKEEPER_FIRST"
    TIERED_STORAGE_FIRST = "TIERED_STORAGE_FIRST"


class SubscriptionAuthMode(StrEnum):
    NONE = "None"
    PREFIX = "Prefix"


class SubscriptionTypeName(StrEnum):
    EXCLUSIVE = "Exclusive"
    SHARED = "Shared"
    FAILOVER = "Failover"
    KEY_SHARED = "Key_Shared"

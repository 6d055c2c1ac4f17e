"""How far a subscription is behind, in messages."""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from magnetar.broker.subscription import Subscription
from magnetar.errors import BrokerError


class Lag(NamedTuple):
    entries: int = 0
    messages: int = 0
    is_exact: bool = True
    """Whether the messages are counted; else their number is an estimate."""


def measure_lag(subscription: Subscription) -> Lag:
    """Counted, or estimated while what an earlier owner of the log wrote is being counted."""
    entries, log = subscription.backlog, subscription.topic.log
    if not entries:
        return Lag()
    messages = log.reader.tally.unacknowledged(subscription.cursor)
    if messages is not None:
        return Lag(entries, messages)
    log.reader.tally.count_soon(subscription.cursor.first_unacked())
    return Lag(entries, round(entries * log.reader.tally.messages_per_entry), is_exact=False)


async def count_lag(subscription: Subscription) -> Lag:
    """The same, after a first step of counting: enough for most backlogs."""
    lag = measure_lag(subscription)
    if not lag.is_exact:
        with suppress(BrokerError):  # an estimate is better than no answer
            await subscription.topic.log.reader.tally.count(subscription.cursor.first_unacked())
        lag = measure_lag(subscription)
    return lag

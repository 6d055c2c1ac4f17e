"""Subscriptions of a topic, below its path."""

from __future__ import annotations

from magnetar.admin.entry import entry_response
from magnetar.admin.request import Call
from magnetar.admin.response import BYTES
from magnetar.admin.route import Body, Priority, Query, Table
from magnetar.broker.administration.message_id import MessageId, parse_position
from magnetar.broker.api import BrokerApi
from magnetar.model.permission import TOPIC_CONSUME

TABLE = Table("subscriptions", "/admin/v2/{domain}/{tenant}/{namespace}/{topic}")

_POSITION = Body(MessageId, required=True, missing="A position is required")
_START = Body(MessageId | str)


async def list_subscriptions(api: BrokerApi, call: Call) -> object:
    """Names of a topic's subscriptions; of all partitions together."""
    return await api.subscriptions.list(call.topic)


async def create_subscription(api: BrokerApi, call: Call) -> object:
    """Create a subscription at a position, at the end unless told."""
    await api.subscriptions.create(
        call.topic,
        call.subscription,
        parse_position(call.payload),
        replicated=call.flag("replicated"),
    )
    return None


async def delete_subscription(api: BrokerApi, call: Call) -> object:
    """Delete a subscription without consumers, or with them when forced."""
    await api.subscriptions.delete(call.topic, call.subscription, force=call.flag("force"))
    return None


async def skip_all(api: BrokerApi, call: Call) -> object:
    """Acknowledge the whole backlog."""
    await api.subscriptions.skip_all(call.topic, call.subscription)
    return None


async def skip_messages(api: BrokerApi, call: Call) -> object:
    """Acknowledge the next entries of the backlog."""
    await api.subscriptions.skip(call.topic, call.subscription, call.integer("count"))
    return None


async def reset_to_time(api: BrokerApi, call: Call) -> object:
    """Move a subscription to what was published at or after a time."""
    await api.subscriptions.reset_to_time(call.topic, call.subscription, call.integer("timestamp"))
    return None


async def reset_to_position(api: BrokerApi, call: Call) -> object:
    """Move a subscription to a message id."""
    await api.subscriptions.reset_to_position(
        call.topic, call.subscription, parse_position(call.payload)
    )
    return None


async def expire_by_age(api: BrokerApi, call: Call) -> object:
    """Acknowledge what is older than some seconds."""
    await api.subscriptions.expire(call.topic, call.subscription, call.integer("seconds"))
    return None


async def expire_to_position(api: BrokerApi, call: Call) -> object:
    """Acknowledge everything up to a message id."""
    await api.subscriptions.expire_to(call.topic, call.subscription, parse_position(call.payload))
    return None


async def expire_all_by_age(api: BrokerApi, call: Call) -> object:
    """Acknowledge what is older than some seconds, in every subscription."""
    await api.subscriptions.expire_all(call.topic, call.integer("seconds"))
    return None


async def peek_message(api: BrokerApi, call: Call) -> object:
    """The nth unacknowledged entry, counted from 1."""
    found = await api.subscriptions.peek(call.topic, call.subscription, call.integer("number"))
    return entry_response(*found)


async def get_properties(api: BrokerApi, call: Call) -> object:
    """A subscription's properties."""
    return await api.subscriptions.properties(call.topic, call.subscription)


async def set_properties(api: BrokerApi, call: Call) -> object:
    """Replace a subscription's properties."""
    await api.subscriptions.set_properties(call.topic, call.subscription, call.payload or {})
    return None


async def analyze_backlog(api: BrokerApi, call: Call) -> object:
    """Count a subscription's backlog entry by entry."""
    return await api.subscriptions.analyze_backlog(call.topic, call.subscription)


async def get_replicated(api: BrokerApi, call: Call) -> object:
    """Whether a subscription's state follows the messages to other clusters."""
    return await api.subscriptions.replicated(call.topic, call.subscription)


ONE = "/subscription/{subscription}"
P0, P2 = Priority.P0, Priority.P2

TABLE.add("GET", "/subscriptions", list_subscriptions, TOPIC_CONSUME, priority=P0)
TABLE.add(
    "PUT",
    ONE,
    create_subscription,
    TOPIC_CONSUME,
    priority=P0,
    body=_START,
    query=(Query("replicated", default=False),),
)
TABLE.add(
    "DELETE",
    ONE,
    delete_subscription,
    TOPIC_CONSUME,
    priority=P0,
    query=(Query("force", default=False),),
)
TABLE.add("POST", f"{ONE}/skip_all", skip_all, TOPIC_CONSUME)
TABLE.add("POST", f"{ONE}/skip/{{count}}", skip_messages, TOPIC_CONSUME)
TABLE.add("POST", f"{ONE}/resetcursor/{{timestamp}}", reset_to_time, TOPIC_CONSUME)
TABLE.add("POST", f"{ONE}/resetcursor", reset_to_position, TOPIC_CONSUME, body=_POSITION)
TABLE.add("POST", f"{ONE}/expireMessages/{{seconds}}", expire_by_age, TOPIC_CONSUME)
TABLE.add("POST", f"{ONE}/expireMessages", expire_to_position, TOPIC_CONSUME, body=_POSITION)
TABLE.add("POST", "/all_subscription/expireMessages/{seconds}", expire_all_by_age, TOPIC_CONSUME)
TABLE.add("GET", f"{ONE}/position/{{number}}", peek_message, TOPIC_CONSUME, produces=BYTES)
TABLE.add("GET", f"{ONE}/properties", get_properties, TOPIC_CONSUME, priority=P2)
TABLE.add(
    "PUT",
    f"{ONE}/properties",
    set_properties,
    TOPIC_CONSUME,
    priority=P2,
    body=Body(dict[str, str]),
)
TABLE.add("POST", f"{ONE}/analyzeBacklog", analyze_backlog, TOPIC_CONSUME, priority=P2, status=200)
TABLE.add("GET", f"{ONE}/replicatedSubscriptionStatus", get_replicated, TOPIC_CONSUME, priority=P2)

"""/admin/v2/segments: what controllers ask of the brokers that own segments."""

from __future__ import annotations

from typing import Final

from magnetar.admin.request import Call
from magnetar.admin.route import Body, Query, Table
from magnetar.broker.api import BrokerApi
from magnetar.errors import BadRequest
from magnetar.model.name import TopicDomain
from magnetar.model.permission import SUPER_USER
from magnetar.model.segment import SegmentName, parse_descriptor

TABLE: Final = Table(
    "segments",
    "/admin/v2/segments/{tenant}/{namespace}/{topic}/{descriptor}",
    fixed={"domain": TopicDomain.TOPIC.value},
)


def _segment(call: Call) -> SegmentName:
    return SegmentName(call.topic, *parse_descriptor(call.text("descriptor")))


async def create_segment(api: BrokerApi, call: Call) -> object:
    """Make a segment of the layout, with subscriptions that begin at its first message."""
    await api.segments.create(_segment(call), call.payload or ())
    return None


async def terminate_segment(api: BrokerApi, call: Call) -> object:
    """Let a segment take no more messages; one that serves hashes is split."""
    await api.segments.terminate(_segment(call))
    return None


async def delete_segment(api: BrokerApi, call: Call) -> object:
    """Delete a segment that no layout names any more; by force, the data of one that stays."""
    await api.segments.delete(_segment(call), force=call.flag("force"), caller=call.request.caller)
    return None


async def create_subscription(api: BrokerApi, call: Call) -> object:
    """Make a subscription of one segment, at its first message."""
    await api.segments.create_subscription(_segment(call), call.subscription)
    return None


async def delete_subscription(api: BrokerApi, call: Call) -> object:
    """Delete a subscription of one segment; also one that is gone."""
    await api.segments.delete_subscription(_segment(call), call.subscription)
    return None


async def get_backlog(api: BrokerApi, call: Call) -> object:
    """How many entries of a segment a subscription has left."""
    return await api.segments.backlog(_segment(call), call.subscription)


async def seek_subscription(api: BrokerApi, call: Call) -> object:
    """Move a subscription of one segment to a time."""
    timestamp_ms = call.number("timestamp")
    if timestamp_ms is None:
        raise BadRequest("timestamp is needed: milliseconds since 1970")
    await api.segments.seek(_segment(call), call.subscription, timestamp_ms)
    return None


async def clear_backlog(api: BrokerApi, call: Call) -> object:
    """Acknowledge everything in one segment."""
    await api.segments.skip_all(_segment(call), call.subscription)
    return None


ONE: Final = "/subscription/{subscription}"

TABLE.add("PUT", "", create_segment, SUPER_USER, body=Body(tuple[str, ...]))
TABLE.add("POST", "/terminate", terminate_segment, SUPER_USER)
TABLE.add("DELETE", "", delete_segment, SUPER_USER, query=(Query("force", default=False),))
TABLE.add("PUT", ONE, create_subscription, SUPER_USER)
TABLE.add("DELETE", ONE, delete_subscription, SUPER_USER)
TABLE.add("GET", f"{ONE}/backlog", get_backlog, SUPER_USER)
TABLE.add("POST", f"{ONE}/seek", seek_subscription, SUPER_USER, query=(Query("timestamp", int),))
TABLE.add("POST", f"{ONE}/skip-all", clear_backlog, SUPER_USER)

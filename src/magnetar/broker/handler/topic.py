"""Where producers and consumers get the topics from that they attach to."""

from __future__ import annotations

from typing import Protocol

from magnetar.broker.catalog import AnyTopic
from magnetar.model.name import TopicName


class TopicSource(Protocol):
    async def attach_topic(self, name: TopicName, *, may_create: bool = True) -> AnyTopic:
        """The topic that a client attaches to: a segment, or a regular one."""

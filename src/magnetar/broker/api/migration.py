"""Regular topics that are to become scalable ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from magnetar.broker.scalable.refusal import Door
from magnetar.errors import InvalidName, TopicMigrated
from magnetar.model.caller import Caller
from magnetar.model.name import TopicName
from magnetar.wire.migration import format_rehearsal

if TYPE_CHECKING:
    from magnetar.broker.service import Service


class MigrationApi:
    def __init__(self, service: Service) -> None:
        self._migrations = service.scalable.migrations
        self._refusals = service.scalable.refusals

    async def rehearse(self, topic: TopicName, *, segments: int | None) -> Mapping[str, Any]:
        """What would be done, what is in the way, what is left to read."""
        _check_name(topic)
        return format_rehearsal(await self._migrations.rehearse(topic, segments=segments))

    async def run(self, topic: TopicName, *, force: bool, segments: int | None) -> None:
        """From one moment to the next, and for ever; `force` locks clients out that cannot
        follow.
        """
        _check_name(topic)
        await self._migrations.run(topic, force=force, segments=segments)

    def on_refused(
        self, refused: TopicMigrated, *, path: str, address: str, version: str, caller: Caller
    ) -> None:
        """A call by the name of a regular topic was refused, because the topic is scalable."""
        self._refusals.on_refused(
            Door.REST, refused.sentence, topic=path, address=address, version=version, caller=caller
        )


def _check_name(topic: TopicName) -> None:
    if "/" in topic.local:
        raise InvalidName(f"No regular topic is called {topic.local!r}")

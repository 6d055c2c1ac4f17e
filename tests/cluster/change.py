"""Changes of layouts that are asked for while something breaks, and seen to their end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from magnetar.client.admin import AdminClient
from magnetar.errors import MagnetarError
from magnetar.testing.member import ClusterBroker
from tests.cluster.brokers import Members
from tests.cluster.workload import await_true

DELAY_S = 0.04
Change = Callable[[AdminClient, str], None]


def active(brokers: Members, topic: str) -> list[int]:
    with brokers.admin() as admin:
        segments = admin.scalable_topics.metadata(topic)["segments"]
    return sorted(int(name) for name, each in segments.items() if each["state"] == "ACTIVE")


def asking(
    brokers: Members, asked: ClusterBroker, change: Change, topic: str
) -> Callable[[], None]:
    """Ask for a change aside: its answer may be lost with the broker that was to give it."""

    def ask() -> None:
        with suppress(MagnetarError), brokers.admin(asked) as admin:
            change(admin, topic)

    thread = threading.Thread(target=ask)
    thread.start()
    return thread.join


def split(admin: AdminClient, topic: str) -> None:
    admin.scalable_topics.split(topic, 0)


def merge(admin: AdminClient, topic: str) -> None:
    admin.scalable_topics.merge(topic, 0, 1)


def migrate(admin: AdminClient, topic: str) -> None:
    admin.scalable_topics.migrate_to_scalable(topic, segments=2)


def unload_all(admin: AdminClient, topic: str) -> None:
    admin.namespaces.unload("public/default")


def plan_changes(brokers: Members) -> dict[str, Change]:
    """New topics, each with the change that it is to go through."""
    return {
        brokers.new_scalable("split", segments=1): split,
        brokers.new_scalable("merged", segments=2): merge,
        brokers.new_topic("migrated"): migrate,
    }


def finish_changes(brokers: Members, changes: dict[str, Change]) -> None:
    """Each change happened, or it was refused whole and can be asked for again."""
    for topic, change in changes.items():
        scalable = topic.replace("persistent://", "topic://")
        wanted = 1 if change is merge else 2

        def look(
            scalable: str = scalable,
            topic: str = topic,
            change: Change = change,
            wanted: int = wanted,
        ) -> bool:
            with suppress(MagnetarError):
                if len(active(brokers, scalable)) == wanted:
                    return True
            with suppress(MagnetarError), brokers.admin() as admin:
                change(admin, topic)
            return False

        await_true(look, f"{scalable} has {wanted} active segments")

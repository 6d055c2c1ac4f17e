"""What concerns many topics: where they lie among bundles, and where their policies come from."""

from typing import Any, NotRequired, TypedDict


class TopicHashPositions(TypedDict):
    """Where topics of a bundle lie, as Pulsar tells it."""

    namespace: str
    bundle: str
    topicHashPositions: dict[str, int]


class PolicyOrigin(TypedDict):
    """A policy, and every level that sets it, the nearest first."""

    name: str
    what: str
    path: str
    inQuery: bool
    write: str
    remove: str
    removePath: str
    key: str
    source: str
    levels: dict[str, Any]
    isEditable: bool
    value: NotRequired[Any]

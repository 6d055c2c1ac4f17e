"""Consumers as dispatch sees them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Generic, NamedTuple, TypeVar

from magnetar.errors import ConsumerBusy
from magnetar.model.subscription import SubscriptionType
from magnetar.rules.dispatch.selector import SlotRange

C = TypeVar("C")


class Sharing(NamedTuple):
    """How a consumer wants to share the subscription; all that are attached must agree. The modes
    are those of Key_Shared.
    """

    kind: SubscriptionType
    is_sticky: bool = False
    is_bucketed: bool = False
    allow_out_of_order: bool = False


def check_agreement(attached: Sharing, wanted: Sharing) -> None:
    """Raise ConsumerBusy unless a newcomer wants the same as the consumers that are attached."""
    if wanted.kind is not attached.kind:
        raise ConsumerBusy(
            f"Subscription is of different type: {attached.kind.label} is in use,"
            f" {wanted.kind.label} was asked for"
        )
    if wanted != attached:
        raise ConsumerBusy("Subscription is of different type: the Key_Shared modes differ")


class Member(Generic[C]):
    """The permits of a consumer, and what it holds unacknowledged. Written by the machine that the
    consumer was added to; anyone may read it.
    """

    __slots__ = (
        "blocked",
        "blocked_permits",
        "consumer",
        "name",
        "number",
        "order",
        "pending",
        "permits",
        "priority",
        "ranges",
        "unacked",
        "writable",
    )

    def __init__(
        self,
        consumer: C,
        *,
        name: str,
        number: int = 0,
        priority: int = 0,
        ranges: Sequence[tuple[int, int]] = (),
    ) -> None:
        self.consumer: Final = consumer
        self.name: Final = name
        self.number = number
        self.priority: Final = priority
        """Lower is served first."""
        self.order = 0
        """Which of those that came to the machine it is; set by it."""
        self.ranges: Final = tuple(SlotRange(*each) for each in ranges)
        self.permits = 0
        self.blocked = False
        """Too much is unacknowledged: nothing is delivered, and permits are put aside."""
        self.blocked_permits = 0
        self.unacked = 0
        """Messages, where entries are tracked one by one."""
        self.pending: Final[dict[tuple[int, int], int]] = {}
        """Entries that are unacknowledged, and how many messages of each."""
        self.writable = True

    @property
    def can_receive(self) -> bool:
        return self.permits > 0 and not self.blocked and self.writable

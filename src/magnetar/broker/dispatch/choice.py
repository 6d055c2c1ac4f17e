"""Which dispatcher serves a subscription: the first consumer's wish decides, the others must
agree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.broker.consumer import Consumer, SubscriptionType
from magnetar.broker.dispatch.dispatcher import Dispatcher
from magnetar.broker.dispatch.keyshared import KeySharedDispatcher
from magnetar.broker.dispatch.shared import SharedDispatcher
from magnetar.broker.dispatch.single import SingleActiveDispatcher
from magnetar.errors import ConsumerBusy

if TYPE_CHECKING:
    from magnetar.broker.subscription import Subscription


def check_agreement(first: Consumer, consumer: Consumer) -> None:
    """Raise unless a newcomer wants the same as the `first` consumer that is attached."""
    if consumer.kind is not first.kind:
        raise ConsumerBusy(
            f"Subscription is of different type: {first.kind.label} is in use,"
            f" {consumer.kind.label} was asked for"
        )
    if consumer.kind is SubscriptionType.KEY_SHARED and _mode(consumer) != _mode(first):
        raise ConsumerBusy("Subscription is of different type: the Key_Shared modes differ")


def _mode(consumer: Consumer) -> tuple[bool, bool, bool]:
    return consumer.is_sticky, consumer.is_bucketed, consumer.allow_out_of_order


def is_fit(dispatcher: Dispatcher, consumer: Consumer) -> bool:
    """Whether a dispatcher without consumers can go on with this one."""
    if isinstance(dispatcher, KeySharedDispatcher):
        return consumer.kind is SubscriptionType.KEY_SHARED and dispatcher.fits(consumer)
    return dispatcher.kind is consumer.kind


def make_dispatcher(subscription: Subscription, consumer: Consumer) -> Dispatcher:
    match consumer.kind:
        case SubscriptionType.EXCLUSIVE | SubscriptionType.FAILOVER:
            return SingleActiveDispatcher(subscription, consumer.kind)
        case SubscriptionType.SHARED:
            return SharedDispatcher(subscription)
        case SubscriptionType.KEY_SHARED:
            return KeySharedDispatcher(
                subscription,
                is_sticky=consumer.is_sticky,
                is_bucketed=consumer.is_bucketed,
                allow_out_of_order=consumer.allow_out_of_order,
            )

"""The types of policies: those of the fields of the stored records. The command line needs none."""

from __future__ import annotations

from types import NoneType, UnionType
from typing import Any, Final, Union, get_args, get_origin

from msgspec import structs

from magnetar.model.policy import Policies, TopicPolicies
from magnetar.operation.policy import AnyPolicy, Level

_TYPES: Final = {
    level: {each.name: each.type for each in structs.fields(record)}
    for level, record in ((Level.NAMESPACE, Policies), (Level.TOPIC, TopicPolicies))
}


def value_type(policy: AnyPolicy, level: Level, *, all_keys: bool = False) -> Any:
    """What a value is read as: the type of the record's field, or of what it holds for each key."""
    at = policy.place(level)
    if at.spread:
        return value_type(policy, Level.NAMESPACE)
    kind = _without_none(_TYPES[level][at.older if at.inside else at.field])
    is_map = at.by_cluster or (policy.key is not None and not all_keys)
    return get_args(kind)[1] if is_map else kind


def _without_none(kind: Any) -> Any:
    if get_origin(kind) not in (Union, UnionType):
        return kind
    (found,) = (each for each in get_args(kind) if each is not NoneType)
    return found

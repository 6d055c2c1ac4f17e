"""The value of a policy in the record of a namespace or topic, found through the policy's row."""

from __future__ import annotations

from types import NoneType, UnionType
from typing import Annotated, Any, Final, Never, TypeVar, Union, cast, get_args, get_origin

from msgspec import Struct, ValidationError, convert, structs

from magnetar.errors import PreconditionFailed
from magnetar.model.choice import BacklogQuotaType
from magnetar.model.policy import BacklogQuota, Policies, SubscriptionPolicies, TopicPolicies
from magnetar.model.validation import check_topic_buckets
from magnetar.operation.policy import AnyPolicy, Context, Level, policies_at
from magnetar.operation.policy_table import POLICIES

R = TypeVar("R", Policies, TopicPolicies)

_UNSET: Final[dict[Level, Policies | TopicPolicies]] = {
    Level.NAMESPACE: Policies(),
    Level.TOPIC: TopicPolicies(),
}
_TYPES: Final = {
    level: {each.name: each.type for each in structs.fields(record)}
    for level, record in _UNSET.items()
}


def value_type(policy: AnyPolicy, level: Level, *, all_keys: bool = False) -> Any:
    """What a value is read as: the type of the record's field, or of what it holds for each key."""
    at = policy.place(level)
    if at.spread:
        return value_type(policy, Level.NAMESPACE)
    kind = _TYPES[level][at.older if at.inside else at.field]
    if get_origin(kind) in (Union, UnionType):
        (kind,) = (each for each in get_args(kind) if each is not NoneType)
    is_map = at.by_cluster or (policy.key is not None and not at.inside and not all_keys)
    return get_args(kind)[1] if is_map else kind


def find_slot(policy: AnyPolicy, level: Level, cluster: str, key: str | None = None) -> str:
    """The key of one value, where the record's field is a map; without `key` there are several.

    Raise PreconditionFailed for a key that is none.
    """
    at = policy.place(level)
    if at.by_cluster:
        return cluster
    if policy.key is None:
        return at.inside
    return "" if key is None else key if at.inside else parse_key(key)


def read_value(
    policy: AnyPolicy, level: Level, record: Policies | TopicPolicies, slot: str = ""
) -> Any:
    """What the record says, or None; all values by key where there are several."""
    at = policy.place(level)
    if at.spread:
        members = {member: getattr(record, field) for member, field in at.spread}
        if members[at.spread[0][0]] is None:
            return None
        kind = value_type(policy, level)
        return kind(**{name: value for name, value in members.items() if value is not None})
    value = getattr(record, at.field)
    if slot:
        value = (value or {}).get(slot)
    if isinstance(value, SubscriptionPolicies):
        return value.dispatchRate
    if slot and slot == at.inside:
        return getattr(record, at.older) if value is None else int(value)
    return None if value == () and level is Level.TOPIC else value


def spell_value(policy: AnyPolicy, level: Level, value: Any) -> dict[str, Any]:
    """The fields of a record that hold this value; None is what a record without it has."""
    at = policy.place(level)
    if at.spread:
        return {field: None if value is None else getattr(value, of) for of, field in at.spread}
    return {at.field: getattr(_UNSET[level], at.field) if value is None else value}


def apply_value(policy: AnyPolicy, level: Level, record: R, value: Any, slot: str = "") -> R:
    """The record with this value; None removes it."""
    at = policy.place(level)
    if not slot:
        return structs.replace(record, **spell_value(policy, level, value))
    if isinstance(value, BacklogQuota):
        value = structs.replace(value, limit=value.size, limitSize=value.size)
    held = {each: kept for each, kept in (getattr(record, at.field) or {}).items() if each != slot}
    if value is not None:
        is_own = at.inside and slot != at.inside
        held[slot] = SubscriptionPolicies(dispatchRate=value) if is_own else value
    if slot != at.inside:
        return structs.replace(record, **{at.field: held})
    older = {at.older: getattr(_UNSET[level], at.older)}
    return structs.replace(record, **{at.field: held or None}, **older)


def parse_key(text: str | None) -> BacklogQuotaType:
    """The quota a request means; the size of the backlog unless it says otherwise."""
    if not text:
        return BacklogQuotaType.DESTINATION_STORAGE
    try:
        return BacklogQuotaType(text)
    except ValueError:
        kinds = " and ".join(BacklogQuotaType)
        raise PreconditionFailed(
            f"Invalid value for backlogQuotaType: {text!r}; there are {kinds}"
        ) from None


def check_value(policy: AnyPolicy, value: object, context: Context) -> None:
    """Raise the refusal that an administrator is answered with."""
    at = policy.place(context.level)
    if policy.check is not None and at.checked != "never":
        policy.check(cast(Never, value), context._replace(name=at.said))
    kind = value_type(policy, context.level)
    if get_origin(kind) is Annotated and isinstance(kind.__metadata__[0], type(Struct)):
        try:
            convert(value, kind.__metadata__[0])
        except ValidationError as error:
            raise PreconditionFailed(f"Invalid value for {at.path}: {error}") from None


def check_policies(policies: Policies, context: Context) -> None:
    """Everything a namespace may be created with."""
    check_topic_buckets(policies.numberOfTopicBuckets)
    context = context._replace(retention=policies.retention_policies)
    for policy, at in policies_at(Level.NAMESPACE, POLICIES):
        if policy.check is not None and at.checked == "always":
            value = read_value(policy, Level.NAMESPACE, policies)
            for each in value.values() if policy.key or at.by_cluster else (value,):
                if each is not None:
                    check_value(policy, each, context)

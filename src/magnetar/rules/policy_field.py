"""The value of a policy in the record of a namespace or topic, found through the policy's row."""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeVar, get_origin

from msgspec import Struct, ValidationError, convert, structs

from magnetar.errors import PreconditionFailed
from magnetar.model.choice import BacklogQuotaType
from magnetar.model.policy import BacklogQuota, Policies, TopicPolicies
from magnetar.model.validation import check_topic_buckets
from magnetar.operation.policy import AnyPolicy, Context, Level
from magnetar.operation.policy_table import POLICIES
from magnetar.operation.policy_type import value_type

R = TypeVar("R", Policies, TopicPolicies)

_UNSET: Final[dict[Level, Policies | TopicPolicies]] = {
    Level.NAMESPACE: Policies(),
    Level.TOPIC: TopicPolicies(),
}


def read_value(
    policy: AnyPolicy, level: Level, record: Policies | TopicPolicies, *, cluster: str
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
    if at.by_cluster:
        value = value.get(cluster)
    elif at.inside:
        value = (value or {}).get(at.inside)
        return getattr(record, at.older) if value is None else int(value)
    return None if value == () and level is Level.TOPIC else value


def spell_value(policy: AnyPolicy, level: Level, value: Any) -> dict[str, Any]:
    """The fields of a record that hold this value; None is what a record without it has."""
    at = policy.place(level)
    if at.spread:
        return {field: None if value is None else getattr(value, of) for of, field in at.spread}
    return {at.field: getattr(_UNSET[level], at.field) if value is None else value}


def apply_value(
    policy: AnyPolicy, level: Level, record: R, value: Any, *, cluster: str, key: str = ""
) -> R:
    """The record with this value; None removes it."""
    at = policy.place(level)
    if isinstance(value, BacklogQuota):
        value = structs.replace(value, limit=value.size, limitSize=value.size)
    name: str = cluster if at.by_cluster else at.inside
    kind = parse_key(key) if policy.key is not None else name
    if not kind:
        return structs.replace(record, **spell_value(policy, level, value))
    held = {each: kept for each, kept in (getattr(record, at.field) or {}).items() if each != kind}
    if value is not None:
        held[kind] = value
    if not at.inside:
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
    at = policy.at(context.level)
    assert at is not None
    if policy.check is not None and at.checked != "never":
        policy.check(value, context._replace(name=at.said))
    kind = value_type(policy, context.level)
    if get_origin(kind) is Annotated and isinstance(kind.__metadata__[0], type(Struct)):
        try:
            convert(value, kind.__metadata__[0])
        except ValidationError as error:
            raise PreconditionFailed(f"Invalid value for {at.path}: {error}") from None


def check_policies(policies: Policies, context: Context) -> None:
    """Everything a namespace may be created with."""
    check_topic_buckets(policies.numberOfTopicBuckets)
    for policy in POLICIES:
        at = policy.namespace
        if at is None or policy.check is None or at.checked != "always":
            continue
        value = read_value(policy, Level.NAMESPACE, policies, cluster="")
        for each in value.values() if policy.key is not None else (value,):
            if each is not None:
                check_value(policy, each, context._replace(retention=policies.retention_policies))

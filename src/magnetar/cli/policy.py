"""The verbs `get-`, `set-` and `remove-` of each policy, made from its row."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from magnetar.cli.command import NAMESPACE, TOPIC, Argument, Options, UsageError, Verb, switch
from magnetar.cli.derive import derive_argument
from magnetar.cli.example import example_of
from magnetar.operation.policy import AnyPolicy, At, Level, Toggle, policies_at
from magnetar.operation.policy_table import POLICIES, SUBSCRIPTION_RATE
from magnetar.operation.row import Reader

_SENTENCES: Final = {"get": "show", "set": "set", "remove": "unset"}
_APPLIED: Final = switch("-ap --applied", "what holds, be it set here, above or by default")
_SUBSCRIPTION: Final = Argument("-s --subscription", "of this subscription alone", default="")
_GLOBAL: Final = switch("-g --global", "the setting for all clusters")
_NOWHERE: Final = At()


def policy_arguments(policy: AnyPolicy, at: At = _NOWHERE) -> Iterator[Argument]:
    """The flags that a value is built from."""
    is_first = True
    for option in policy.options or ():
        for each in (option.on, option.off) if isinstance(option, Toggle) else (option,):
            parameter = each.parameter(at.name, at.what)
            argument = derive_argument(parameter)
            # An example sets something: what must be set, or else what stands first.
            yield (
                argument._replace(example=example_of(parameter), in_example=True)
                if is_first
                else argument
            )
            is_first = False


def build_value(policy: AnyPolicy, options: Options, at: At = _NOWHERE) -> Any:
    """What was given, by the members of the value, or the value itself."""
    given: dict[str, Any] = {}
    for option in policy.options or ():
        if isinstance(option, Toggle):
            is_on = _choose(option, options)
            given |= {} if is_on is None else {option.member: is_on}
            if option.only_on and not is_on:
                break
            continue
        value = getattr(options, option.parameter(at.name).option)
        if option.read is Reader.CONSTANT and value is not None:
            value = value.upper().replace("-", "_")
        if value is not None:
            given |= _read(value) if option.member == "*" else {option.member: value}
    if not policy.options:
        return at.bodyless
    if not given:
        raise UsageError("magnetar: give at least one value to set")
    return given.get("", given)


def _choose(toggle: Toggle, options: Options) -> bool | None:
    flags = (toggle.on.parameter(), toggle.off.parameter())
    is_on, is_off = (bool(getattr(options, each.option)) for each in flags)
    if toggle.absent == "off":
        return is_on
    if is_on == is_off and (is_on or toggle.absent == "refused"):
        raise UsageError("magnetar: give one of " + " and ".join(each.flags[-1] for each in flags))
    return None if is_on == is_off else is_on


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"magnetar: {path} cannot be read as JSON: {error}") from None
    if not isinstance(found, dict):
        raise UsageError(f"magnetar: {path} holds no JSON object")
    return found


def policy_verbs(level: Level, policies: Iterable[AnyPolicy] = POLICIES) -> tuple[Verb, ...]:
    return tuple(
        verb
        for policy, at in policies_at(level, policies)
        if policy.options is not None
        for verb in _verbs(policy, at, level)
    )


def _verbs(policy: AnyPolicy, at: At, level: Level) -> Iterator[Verb]:
    is_topic = level is Level.TOPIC
    whose = (_SUBSCRIPTION,) if is_topic and policy is SUBSCRIPTION_RATE else ()
    scope = (*whose, _GLOBAL) if is_topic else ()
    keys = () if policy.key is None else (policy.key,)
    key = tuple(derive_argument(each) for each in keys)
    arguments: dict[str, tuple[Argument, ...]] = {
        "get": (*whose, _APPLIED, _GLOBAL) if is_topic else (),
        "set": (*policy_arguments(policy, at), *key, *scope),
        "remove": (*key, *scope),
    }

    def run(action: str, admin: Any, options: Options) -> Any:
        value = (build_value(policy, options, at),) if action == "set" else ()
        query = {each.target: getattr(options, each.target) for each in whose}
        if action != "get":
            query |= {each.name: getattr(options, each.option) for each in keys}
        elif is_topic:
            query["applied"] = options.applied
        if is_topic:
            query["is_global"] = vars(options)["global"]
            method = getattr(admin.topic_policies, action)
            return method(options.topic, at.name, *value, **query)
        method = getattr(admin.namespaces, f"{action}_policy".removeprefix("get_"))
        return method(options.namespace, at.name, *value, **query)

    aliases = policy.aliases if at.name == policy.name else ()
    for action, taken in arguments.items():
        if action != "remove" or at.remove:
            yield Verb(
                f"{action}-{at.name}",
                f"{_SENTENCES[action]}: {at.what}",
                (TOPIC if is_topic else NAMESPACE, *taken),
                partial(run, action),
                aliases=tuple(f"{action}-{alias}" for alias in aliases),
                shows=action == "get",
                only_looks=action == "get",
            )


NAMESPACE_VERBS: Final = (
    Verb(
        "clear-offload-deletion-lag",
        "remove how long moved data stays where it was",
        (NAMESPACE,),
        lambda a, o: a.namespaces.remove_policy(o.namespace, "offload-deletion-lag"),
        shows=False,
    ),
    *policy_verbs(Level.NAMESPACE),
)
TOPIC_VERBS: Final = policy_verbs(Level.TOPIC)
VERBS: Final = (
    Verb(
        "delete",
        "remove every policy of a topic",
        (TOPIC,),
        lambda a, o: a.topic_policies.delete(o.topic),
        shows=False,
    ),
    Verb(
        "backend",
        "what keeps the policies of a namespace's topics, and why",
        (NAMESPACE,),
        lambda a, o: a.topic_policies.backend(o.namespace),
    ),
    *TOPIC_VERBS,
)

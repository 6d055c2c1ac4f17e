"""The verbs `get-`, `set-` and `remove-` of each policy, made from its row."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from magnetar.cli.command import NAMESPACE, TOPIC, Options, Part, UsageError, Verb, switch
from magnetar.cli.derive import derive_part
from magnetar.operation.policy import AnyPolicy, At, Level, Toggle
from magnetar.operation.policy_table import POLICIES, SUBSCRIPTION_RATE
from magnetar.operation.row import Parameter, Reader

_SENTENCES: Final = {"get": "show", "set": "set", "remove": "unset"}
_APPLIED: Final = switch("-ap --applied", "what holds, be it set here, above or by default")
_SUBSCRIPTION: Final = Part("-s --subscription", "of this subscription alone", default="")
_GLOBAL: Final = switch("-g --global", "the setting for all clusters")
_NOWHERE: Final = At("")


def _named(option: Parameter, at: At) -> Parameter:
    flags = tuple(flag.format(name=at.name) for flag in option.flags)
    return option._replace(flags=flags, help=option.help or at.what)


def policy_parts(policy: AnyPolicy, at: At = _NOWHERE) -> Iterator[Part]:
    """The flags that a value is built from."""
    for option in policy.options or ():
        if isinstance(option, Toggle):
            yield derive_part(option.on)
            yield derive_part(option.off)
        else:
            yield derive_part(_named(option, at))


def build_value(policy: AnyPolicy, options: Options, at: At = _NOWHERE) -> Any:
    """What was given, by the members of the value, or the value itself."""
    given: dict[str, Any] = {}
    for option in policy.options or ():
        if isinstance(option, Toggle):
            value = _choose(option, options)
        else:
            value = getattr(options, _named(option, at).option)
            if option.reader is Reader.CONSTANT and value is not None:
                value = value.upper().replace("-", "_")
            if option.reader is Reader.FILE:
                given = {} if value is None else _read(value)
                continue
        if value is not None:
            given[option.name] = value
        if isinstance(option, Toggle) and option.only_on and not value:
            break
    if not policy.options:
        return at.bodyless
    if not given:
        raise UsageError("magnetar: give at least one value to set")
    return given.get("", given)


def _choose(toggle: Toggle, options: Options) -> bool | None:
    is_on, is_off = (bool(getattr(options, each.option)) for each in (toggle.on, toggle.off))
    if toggle.absent == "off":
        return is_on
    if is_on == is_off and (is_on or toggle.absent == "refused"):
        raise UsageError(f"magnetar: give one of {toggle.on.flags[-1]} and {toggle.off.flags[-1]}")
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
    rows = ((policy, policy.at(level)) for policy in policies if policy.options is not None)
    return tuple(
        verb for policy, at in rows if at is not None for verb in _verbs(policy, at, level)
    )


def _verbs(policy: AnyPolicy, at: At, level: Level) -> Iterator[Verb]:
    is_topic = level is Level.TOPIC
    owner: tuple[Part, ...] = (TOPIC if is_topic else NAMESPACE,)
    whose: tuple[Part, ...] = (_SUBSCRIPTION,) if is_topic and policy is SUBSCRIPTION_RATE else ()
    scope: tuple[Part, ...] = (*whose, _GLOBAL) if is_topic else ()
    key = () if policy.key is None else (derive_part(policy.key),)

    def call(action: str, admin: Any, options: Options, *value: Any, **query: Any) -> Any:
        if whose:
            query["subscription"] = options.subscription
        if is_topic:
            query["is_global"] = vars(options)["global"]
            method = getattr(admin.topic_policies, action)
            return method(options.topic, at.name, *value, **query)
        method = getattr(admin.namespaces, f"{action}_policy".removeprefix("get_"))
        return method(options.namespace, at.name, *value, **query)

    def kept(options: Options) -> dict[str, Any]:
        if policy.key is None:
            return {}
        return {policy.key.name: getattr(options, policy.key.option)}

    def get(admin: Any, options: Options) -> Any:
        return call("get", admin, options, **({"applied": options.applied} if is_topic else {}))

    def set_(admin: Any, options: Options) -> None:
        call("set", admin, options, build_value(policy, options, at), **kept(options))

    def remove(admin: Any, options: Options) -> None:
        call("remove", admin, options, **kept(options))

    applied: tuple[Part, ...] = (*whose, _APPLIED, _GLOBAL) if is_topic else ()
    yield _verb("get", policy, at, (*owner, *applied), get)
    yield _verb("set", policy, at, (*owner, *policy_parts(policy, at), *key, *scope), set_)
    if at.remove:
        yield _verb("remove", policy, at, (*owner, *key, *scope), remove)


def _verb(
    action: str,
    policy: AnyPolicy,
    at: At,
    parts: tuple[Part, ...],
    run: Callable[[Any, Options], Any],
) -> Verb:
    aliases = policy.aliases if at.name == policy.name else ()
    return Verb(
        f"{action}-{at.name}",
        f"{_SENTENCES[action]}: {at.what}",
        parts,
        run,
        aliases=tuple(f"{action}-{alias}" for alias in aliases),
        shows=action == "get",
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

"""The three verbs of each policy: get, set and remove, for namespaces and for topics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from magnetar.cli.command import NAMESPACE, TOPIC, Flag, Options, Part, Switch, Verb
from magnetar.cli.form import Form
from magnetar.cli.limit import QUOTA_TYPE
from magnetar.cli.policy import forms_of
from magnetar.client.admin.policy import NAMESPACE_POLICIES, SUBSCRIPTION_POLICY, TOPIC_POLICIES

_SENTENCES: Final = {"get": "show", "set": "set", "remove": "unset"}
_APPLIED = Switch(("-ap", "--applied"), "what holds, be it set here, above or by default")
_SUBSCRIPTION = Flag(("-s", "--subscription"), "of this subscription alone", default="")
_GLOBAL = Switch(("-g", "--global"), "the setting for all clusters", "is_global")


def namespace_verbs() -> tuple[Verb, ...]:
    def verbs() -> Iterator[Verb]:
        for form in forms_of(NAMESPACE_POLICIES):
            yield _namespace_get(form)
            yield _namespace_set(form)
            if NAMESPACE_POLICIES[form.key].remove is not None:
                yield _namespace_remove(form)

    return tuple(verbs())


def topic_verbs() -> tuple[Verb, ...]:
    def verbs() -> Iterator[Verb]:
        for form in forms_of(TOPIC_POLICIES):
            yield _topic_get(form)
            yield _topic_set(form)
            if TOPIC_POLICIES[form.key].remove is not None:
                yield _topic_remove(form)

    return tuple(verbs())


def _verb(
    action: str,
    form: Form,
    parts: tuple[Part, ...],
    run: Callable[[Any, Options], Any],
) -> Verb:
    return Verb(
        f"{action}-{form.key}",
        f"{_SENTENCES[action]}: {form.what}",
        parts,
        run,
        aliases=tuple(f"{action}-{alias}" for alias in form.aliases),
        shows=action == "get",
    )


def _query(form: Form, options: Options) -> dict[str, Any]:
    return {"backlogQuotaType": options.type} if form.key == "backlog-quota" else {}


def _remove_parts(form: Form) -> tuple[Flag, ...]:
    return (QUOTA_TYPE,) if form.key == "backlog-quota" else ()


def _namespace_get(form: Form) -> Verb:
    def run(admin: Any, options: Options) -> Any:
        return admin.namespaces.policy(options.namespace, form.key)

    return _verb("get", form, (NAMESPACE,), run)


def _namespace_set(form: Form) -> Verb:
    def run(admin: Any, options: Options) -> None:
        query = _query(form, options)
        admin.namespaces.set_policy(options.namespace, form.key, form.build(options), **query)

    return _verb("set", form, (NAMESPACE, *form.parts), run)


def _namespace_remove(form: Form) -> Verb:
    def run(admin: Any, options: Options) -> None:
        admin.namespaces.remove_policy(options.namespace, form.key, **_query(form, options))

    return _verb("remove", form, (NAMESPACE, *_remove_parts(form)), run)


def _whose(form: Form) -> tuple[Flag, ...]:
    return (_SUBSCRIPTION,) if form.key == SUBSCRIPTION_POLICY else ()


def _whose_query(form: Form, options: Options) -> dict[str, Any]:
    query: dict[str, Any] = {"is_global": options.is_global}
    if form.key == SUBSCRIPTION_POLICY:
        query["subscription"] = options.subscription
    return query


def _topic_get(form: Form) -> Verb:
    def run(admin: Any, options: Options) -> Any:
        whose = _whose_query(form, options)
        return admin.topic_policies.get(options.topic, form.key, applied=options.applied, **whose)

    return _verb("get", form, (TOPIC, *_whose(form), _APPLIED, _GLOBAL), run)


def _topic_set(form: Form) -> Verb:
    def run(admin: Any, options: Options) -> None:
        query = {**_query(form, options), **_whose_query(form, options)}
        admin.topic_policies.set(options.topic, form.key, form.build(options), **query)

    return _verb("set", form, (TOPIC, *form.parts, *_whose(form), _GLOBAL), run)


def _topic_remove(form: Form) -> Verb:
    def run(admin: Any, options: Options) -> None:
        query = {**_query(form, options), **_whose_query(form, options)}
        admin.topic_policies.remove(options.topic, form.key, **query)

    return _verb("remove", form, (TOPIC, *_remove_parts(form), *_whose(form), _GLOBAL), run)

"""Which backend keeps the topic policies, as the configuration says."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, TypeVar

from magnetar.broker.resource import Resources
from magnetar.broker.topicpolicy.contract import DisabledTopicPolicies, TopicPoliciesService
from magnetar.broker.topicpolicy.legacy import LegacyAwareTopicPolicies
from magnetar.broker.topicpolicy.metadata import MetadataStoreTopicPolicies
from magnetar.broker.topicpolicy.system import SystemTopicPolicies
from magnetar.errors import InvalidConfiguration
from magnetar.runtime.clock import Clock
from magnetar.runtime.configuration import Configuration
from magnetar.runtime.log import Log

if TYPE_CHECKING:
    from magnetar.broker.service import Service

GROUP: Final = "magnetar.topic_policies"
"""Entry points of this group name backends of other packages; each is called with nothing."""
_PULSAR: Final = "org.apache.pulsar.broker.service"
_KINDS: Final[Mapping[str, type[TopicPoliciesService]]] = {
    f"{_PULSAR}.SystemTopicBasedTopicPoliciesService": SystemTopicPolicies,
    f"{_PULSAR}.MetadataStoreTopicPoliciesService": MetadataStoreTopicPolicies,
    SystemTopicPolicies.name: SystemTopicPolicies,
    MetadataStoreTopicPolicies.name: MetadataStoreTopicPolicies,
}

_CLASS_PATH: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*[.:][A-Za-z_]\w*")

_log = Log(__name__)

Made = TypeVar("Made", bound=TopicPoliciesService)


def choose_topic_policies(
    config: Configuration, resources: Resources, *, clock: Clock
) -> TopicPoliciesService:
    """Raise InvalidConfiguration, naming the backend, when one that is needed cannot be made."""
    if not config.topicLevelPoliciesEnabled:
        return DisabledTopicPolicies("topicLevelPoliciesEnabled is false")
    name = config.topicPoliciesServiceClassName.strip() or SystemTopicPolicies.name
    if _KINDS.get(name) is SystemTopicPolicies:
        if not config.systemTopicEnabled:
            _log.warning("topics have no policies: system topics are off", backend=name)
            return DisabledTopicPolicies(f"systemTopicEnabled is false, and {name} needs them")
        return SystemTopicPolicies(config)
    configured = _make(name, lambda: _find(name)(resources, clock))
    if not config.systemTopicEnabled:
        return configured
    return LegacyAwareTopicPolicies(
        _make(SystemTopicPolicies.name, lambda: SystemTopicPolicies(config)), configured
    )


def start_topic_policies(kept: TopicPoliciesService, service: Service) -> None:
    """Raise InvalidConfiguration, naming the backend, when it does not start."""
    try:
        kept.start(service)
    # As when it was made: it may be anybody's.
    except Exception as error:
        name = service.config.topicPoliciesServiceClassName
        raise _invalid(f"{name} does not start: {error!r}") from error


def _invalid(sentence: str) -> InvalidConfiguration:
    return InvalidConfiguration(f"topicPoliciesServiceClassName: {sentence}")


def _make(name: str, make: Callable[[], Made]) -> Made:
    try:
        return make()
    except InvalidConfiguration:
        raise
    # A backend of somebody else's may fail in any way; the operator must learn which one it was.
    except Exception as error:
        raise _invalid(f"{name} cannot be made: {error!r}") from error


def _find(name: str) -> Callable[[Resources, Clock], TopicPoliciesService]:
    if _KINDS.get(name) is MetadataStoreTopicPolicies:
        return lambda resources, clock: MetadataStoreTopicPolicies(resources, clock=clock)
    for point in entry_points(group=GROUP, name=name):
        kind = point.load()
        return lambda resources, clock: _check(name, kind())
    if _CLASS_PATH.fullmatch(name) and _is_package(re.split("[.:]", name)[0]):
        found = _import(name)
        return lambda resources, clock: _check(name, found())
    known = [*_KINDS, *sorted(point.name for point in entry_points(group=GROUP))]
    raise _invalid(
        f"no backend is called {name!r}; there are {', '.join(known)}, and any class of a Python"
        " package, as package.module.Class"
    )


def _is_package(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ValueError:  # a module that was made by hand
        return True


def _import(name: str) -> type[TopicPoliciesService]:
    """The class behind `package.module.Class` or `package.module:Class`."""
    module, _, attribute = name.partition(":") if ":" in name else name.rpartition(".")
    try:
        found = getattr(import_module(module), attribute, None)
    except ImportError as error:
        raise _invalid(f"{name} cannot be imported: {error}") from None
    if found is None:
        raise _invalid(f"{module} has no class {attribute}")
    if not isinstance(found, type) or not issubclass(found, TopicPoliciesService):
        raise _invalid(f"{name} is no class of TopicPoliciesService")
    return found


def _check(name: str, made: object) -> TopicPoliciesService:
    if not isinstance(made, TopicPoliciesService):
        raise _invalid(f"{name} makes a {type(made).__name__}, which is no TopicPoliciesService")
    kind = type(made)
    if (
        kind.register_listener is TopicPoliciesService.register_listener
        and kind.register_listener_async is TopicPoliciesService.register_listener_async
    ):
        raise _invalid(f"{name} offers neither register_listener_async nor register_listener")
    made.name = made.name or name
    return made

"""Which backend keeps the topic policies, as the configuration says."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import entry_points
from typing import Final

from magnetar.broker.resource import Resources
from magnetar.broker.topicpolicy.contract import DisabledTopicPolicies, TopicPoliciesService
from magnetar.broker.topicpolicy.legacy import LegacyAwareTopicPolicies
from magnetar.broker.topicpolicy.metadata import MetadataStoreTopicPolicies
from magnetar.broker.topicpolicy.system import SystemTopicPolicies
from magnetar.errors import InvalidConfiguration
from magnetar.runtime.clock import Clock
from magnetar.runtime.configuration import Configuration
from magnetar.runtime.log import Logger

GROUP: Final = "magnetar.topic_policies"
"""Entry points of this group name backends of other packages; each is called with nothing."""
_PULSAR: Final = "org.apache.pulsar.broker.service"
_SYSTEM: Final = (f"{_PULSAR}.SystemTopicBasedTopicPoliciesService", SystemTopicPolicies.name)
_METADATA: Final = (
    f"{_PULSAR}.MetadataStoreTopicPoliciesService",
    MetadataStoreTopicPolicies.name,
)
_CLASS_PATH: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*[.:][A-Za-z_]\w*")

_log = Logger(__name__)


def choose_topic_policies(
    config: Configuration, resources: Resources, *, clock: Clock
) -> TopicPoliciesService:
    """Raise InvalidConfiguration, naming the backend, when one that is needed cannot be made."""
    if not config.topicLevelPoliciesEnabled:
        return DisabledTopicPolicies("topicLevelPoliciesEnabled is false")
    name = config.topicPoliciesServiceClassName.strip() or SystemTopicPolicies.name
    if name in _SYSTEM:
        if not config.systemTopicEnabled:
            _log.warning("topics have no policies: system topics are off", backend=name)
            return DisabledTopicPolicies(f"systemTopicEnabled is false, and {name} needs them")
        return SystemTopicPolicies(config)
    configured = (
        MetadataStoreTopicPolicies(resources, clock=clock) if name in _METADATA else _make(name)
    )
    if not config.systemTopicEnabled:
        return configured
    return LegacyAwareTopicPolicies(SystemTopicPolicies(config), configured)


def invalid_backend(sentence: str) -> InvalidConfiguration:
    return InvalidConfiguration(f"topicPoliciesServiceClassName: {sentence}")


def _make(name: str) -> TopicPoliciesService:
    """A backend of another package."""
    try:
        made = _find(name)()
    except InvalidConfiguration:
        raise
    # It may fail in any way; the operator must learn which one it was.
    except Exception as error:
        raise invalid_backend(f"{name} cannot be made: {error!r}") from error
    if not isinstance(made, TopicPoliciesService):
        raise invalid_backend(
            f"{name} makes a {type(made).__name__}, which is no TopicPoliciesService"
        )
    made.name = made.name or name
    return made


def _find(name: str) -> Callable[[], object]:
    points = entry_points(group=GROUP)
    for point in points.select(name=name):
        found: Callable[[], object] = point.load()
        return found
    if _CLASS_PATH.fullmatch(name):
        module, _, attribute = name.partition(":") if ":" in name else name.rpartition(".")
        try:
            return _check_class(name, module, getattr(import_module(module), attribute, None))
        except ImportError as error:
            if error.name != module.split(".")[0]:
                raise invalid_backend(f"{name} cannot be imported: {error}") from None
    known = [*_SYSTEM, *_METADATA, *sorted(point.name for point in points)]
    raise invalid_backend(
        f"no backend is called {name!r}; there are {', '.join(known)}, and any class of a Python"
        " package, as package.module.Class"
    )


def _check_class(name: str, module: str, found: object) -> type[TopicPoliciesService]:
    if found is None:
        raise invalid_backend(f"{module} has no class {name.removeprefix(module)[1:]}")
    if not isinstance(found, type) or not issubclass(found, TopicPoliciesService):
        raise invalid_backend(f"{name} is no class of TopicPoliciesService")
    return found

"""Which backend the configuration asks for, and what it says when there is none."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from magnetar.broker.policy import PolicyService
from magnetar.broker.resource import Resources
from magnetar.broker.topicpolicy.contract import (
    DisabledTopicPolicies,
    PolicyChange,
    TopicPoliciesService,
)
from magnetar.broker.topicpolicy.legacy import LegacyAwareTopicPolicies
from magnetar.broker.topicpolicy.metadata import MetadataStoreTopicPolicies
from magnetar.broker.topicpolicy.system import SystemTopicPolicies
from magnetar.errors import InvalidConfiguration, MethodNotAllowed
from magnetar.metadata.backends.memory import MemoryStore, MemoryTree
from magnetar.model.name import TopicName
from magnetar.model.policy import TopicPolicies
from magnetar.runtime.clock import SystemClock
from magnetar.runtime.configuration import Configuration
from tests.contract.policy_place import NAMESPACE, TOPIC, Ear, Shop, run

PULSAR = "org.apache.pulsar.broker.service"


def choose(**settings: object) -> TopicPoliciesService:
    async def body() -> TopicPoliciesService:
        store = MemoryStore(MemoryTree(SystemClock()))
        resources = Resources(store, store, clock=SystemClock())
        return PolicyService(resources, Configuration(settings), clock=SystemClock()).backend

    return asyncio.run(body())


class Notebook(TopicPoliciesService):
    """A backend of another package."""

    notes: dict[tuple[TopicName, bool], TopicPolicies]

    def __init__(self) -> None:
        self.notes = {}

    async def get(self, topic: TopicName, *, is_global: bool) -> TopicPolicies | None:
        return self.notes.get((topic, is_global))

    async def update(self, topic: TopicName, change: PolicyChange, *, is_global: bool) -> None:
        self.notes[topic, is_global] = change(self.notes.get((topic, is_global)))
        self.notify(topic)

    async def delete(self, topic: TopicName, *, keep_global: bool = False) -> None:
        self.notes.pop((topic, False), None)
        self.notify(topic)


class Partial(TopicPoliciesService):
    """Lacks all that a backend must have."""


class Broken(Notebook):
    def __init__(self) -> None:
        raise OSError("no pencil")


class Late(Notebook):
    def start(self, service: object) -> None:
        raise OSError("no paper")


class Moody(Notebook):
    async def get(self, topic: TopicName, *, is_global: bool) -> TopicPolicies | None:
        raise ZeroDivisionError("its own trouble")


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package whose entry points name the backends of this module."""
    package = tmp_path / "notebook-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: notebook\nVersion: 1.0\n")
    names = ("Notebook", "Partial", "Broken", "Late", "Moody")
    points = [f"{name.lower()} = {__name__}:{name}" for name in names]
    points += ["list = builtins:list", "missing = no.such.module:Thing"]
    (package / "entry_points.txt").write_text("\n".join(["[magnetar.topic_policies]", *points, ""]))
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        ({}, SystemTopicPolicies),
        ({"topicPoliciesServiceClassName": ""}, SystemTopicPolicies),
        ({"topicPoliciesServiceClassName": "system-topic"}, SystemTopicPolicies),
        (
            {"topicPoliciesServiceClassName": f"{PULSAR}.SystemTopicBasedTopicPoliciesService"},
            SystemTopicPolicies,
        ),
        ({"systemTopicEnabled": False}, DisabledTopicPolicies),
        ({"topicLevelPoliciesEnabled": False}, DisabledTopicPolicies),
        (
            {"topicPoliciesServiceClassName": f"{PULSAR}.MetadataStoreTopicPoliciesService"},
            LegacyAwareTopicPolicies,
        ),
        (
            {"topicPoliciesServiceClassName": "metadata-store", "systemTopicEnabled": False},
            MetadataStoreTopicPolicies,
        ),
        ({"topicPoliciesServiceClassName": "notebook"}, LegacyAwareTopicPolicies),
        (
            {"topicPoliciesServiceClassName": "notebook", "systemTopicEnabled": False},
            Notebook,
        ),
        (
            {
                "topicPoliciesServiceClassName": f"{__name__}.Notebook",
                "systemTopicEnabled": False,
            },
            Notebook,
        ),
        (
            {
                "topicPoliciesServiceClassName": f"{__name__}:Notebook",
                "systemTopicEnabled": False,
            },
            Notebook,
        ),
    ],
)
def test_the_configuration_chooses(
    settings: dict[str, object], kind: type[TopicPoliciesService]
) -> None:
    assert type(choose(**settings)).__name__ == kind.__name__


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("com.example.Unknown", "no backend is called 'com.example.Unknown'; there are .*notebook"),
        ("json.Unknown", "json has no class Unknown"),
        ("json.unknown.Thing", "cannot be imported: No module named 'json.unknown'"),
        ("json.loads", "json.loads is no class of TopicPoliciesService"),
        ("json:JSONDecoder", "json:JSONDecoder is no class of TopicPoliciesService"),
        (f"{__name__}.Broken", "Broken cannot be made: OSError"),
        ("broken", "broken cannot be made: OSError"),
        ("missing", "missing cannot be made: ModuleNotFoundError"),
        ("list", "list makes a list"),
        ("partial", "partial cannot be made: TypeError.*get"),
    ],
)
def test_a_backend_that_cannot_be_is_named(name: str, sentence: str) -> None:
    for with_system_topics in (True, False):
        with pytest.raises(InvalidConfiguration, match=sentence):
            choose(topicPoliciesServiceClassName=name, systemTopicEnabled=with_system_topics)


def test_a_backend_that_does_not_start_keeps_the_broker_from_starting(tmp_path: Path) -> None:
    async def body(shop: Shop) -> None:
        raise AssertionError("it started")

    with pytest.raises(InvalidConfiguration, match="late does not start: OSError"):
        run(body, tmp_path, topicPoliciesServiceClassName="late")


def test_a_backend_of_another_package_serves_topics(tmp_path: Path) -> None:
    async def body(shop: Shop) -> None:
        topic = await shop.service.catalog.load_topic(TOPIC, create=True)
        ear = await Ear.at(shop)
        policies = shop.service.policies
        await policies.update(TOPIC, lambda each: replace(each, messageTTLInSeconds=9))
        assert topic.policy.message_ttl_s == 9
        assert ear.heard == [9]
        assert await shop.backend.describe_backend(NAMESPACE) == (
            "notebook",
            "shop/eu has no __change_events, so the configured notebook serves it",
        )
        assert await shop.store.children("/admin/topic-policies") == ()

    run(body, tmp_path, topicPoliciesServiceClassName="notebook")


def test_whatever_a_backend_does_topics_load(tmp_path: Path) -> None:
    async def body(shop: Shop) -> None:
        topic = await shop.service.catalog.load_topic(TOPIC, create=True)
        assert topic.policy.retention_ms == -1

    run(body, tmp_path, topicPoliciesServiceClassName="moody")


def test_without_topic_policies_nothing_is_set_and_topics_load(tmp_path: Path) -> None:
    async def body(shop: Shop) -> None:
        with pytest.raises(MethodNotAllowed):
            await shop.set(messageTTLInSeconds=1)
        assert await shop.ttl() is None
        await shop.backend.delete(TOPIC)
        ear = await Ear.at(shop)
        topic = await shop.service.catalog.load_topic(TOPIC, create=True)
        assert topic.policy.message_ttl_s == 0
        assert ear.heard == []
        name, reason = await shop.backend.describe_backend(NAMESPACE)
        assert (name, reason) == ("disabled", "topicLevelPoliciesEnabled is false")

    run(body, tmp_path, topicLevelPoliciesEnabled=False)

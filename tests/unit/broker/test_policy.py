"""Topic policies in the stores, and what is in force while they change."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from msgspec import structs

from magnetar.broker.policy import PolicyService
from magnetar.broker.resource import Resources
from magnetar.broker.topicpolicy.metadata import topic_policies_path
from magnetar.errors import MethodNotAllowed, NotAllowed
from magnetar.metadata.backends.memory import MemoryStore, MemoryTree
from magnetar.metadata.backends.sqlite import SqliteStore
from magnetar.metadata.store import ABSENT, ANY_VERSION, MetadataStore, Record
from magnetar.model.document import encode_document
from magnetar.model.name import NamespaceName, TopicName, parse_topic
from magnetar.model.policy import AutoTopicCreationOverride, Policies, TopicPolicies
from magnetar.rules.policy import AutoTopicCreation
from magnetar.runtime.clock import SystemClock
from magnetar.runtime.configuration import Configuration
from magnetar.testing.memory_ledger import MemoryLedgerStore
from tests.unit.broker.broker_place import assemble

NAMESPACE = NamespaceName("t", "n")
TOPIC = parse_topic("persistent://t/n/orders eu")
OTHER = parse_topic("persistent://t/n/other")
LOCAL_PATH = "/admin/topic-policies/local/t/n/persistent/orders+eu"
GLOBAL_PATH = "/admin/topic-policies/global/t/n/persistent/orders+eu"


@dataclass
class Scene:
    resources: Resources
    policies: PolicyService
    config: Configuration
    local: MetadataStore
    configuration: MetadataStore
    heard: list[tuple[NamespaceName, TopicName | None]] = field(default_factory=list)

    async def set_ttl(self, seconds: int | None, *, is_global: bool = False) -> None:
        await self.policies.update(
            TOPIC,
            lambda policies: structs.replace(policies, messageTTLInSeconds=seconds),
            is_global=is_global,
        )

    def ttl(self, name: TopicName = TOPIC) -> int:
        return self.policies.in_force.get(name).message_ttl_s


def run(
    body: Callable[[Scene], Awaitable[None]],
    *,
    settings: dict[str, object] | None = None,
    folder: Path | None = None,
) -> None:
    async def scoped() -> None:
        clock = SystemClock()
        local: MetadataStore = MemoryStore(MemoryTree(clock))
        configuration: MetadataStore = MemoryStore(MemoryTree(clock))
        if folder is not None:
            local = configuration = await SqliteStore.open(folder / "metadata.db", clock=clock)
        config = Configuration(
            {"topicPoliciesServiceClassName": "metadata-store", **(settings or {})}
        )
        resources = Resources(local, configuration, clock=clock)
        service = assemble(config, clock, resources, MemoryLedgerStore())
        policies = service.policies
        scene = Scene(resources, policies, config, local, configuration)
        await resources.namespaces.create(NAMESPACE, Policies())
        policies.in_force.listen(lambda namespace, topic: scene.heard.append((namespace, topic)))
        await body(scene)
        await service.close()
        await policies.close()
        resources.close()
        await local.close()
        await configuration.close()

    asyncio.run(scoped())


def test_each_scope_has_its_place_and_its_store() -> None:
    async def body(scene: Scene) -> None:
        await scene.set_ttl(10)
        await scene.set_ttl(20, is_global=True)
        assert await scene.local.get(LOCAL_PATH) is not None
        assert await scene.configuration.get(GLOBAL_PATH) is not None
        assert await scene.local.get(GLOBAL_PATH) is None
        local = await scene.policies.get(TOPIC)
        shared = await scene.policies.get(TOPIC, is_global=True)
        assert local == TopicPolicies(messageTTLInSeconds=10)
        assert shared == TopicPolicies(messageTTLInSeconds=20, isGlobal=True)

    run(body)


def test_a_partition_has_the_policies_of_its_topic() -> None:
    async def body(scene: Scene) -> None:
        partition = TOPIC.partition(3)
        assert topic_policies_path(partition, is_global=False) == LOCAL_PATH
        await scene.policies.in_force.load(partition)
        await scene.set_ttl(10)
        assert scene.ttl(partition) == 10
        assert await scene.policies.get(partition) == TopicPolicies(messageTTLInSeconds=10)

    run(body)


@pytest.mark.parametrize("on_disk", [False, True])
def test_a_change_is_in_force_when_the_call_returns(tmp_path: Path, on_disk: bool) -> None:
    async def body(scene: Scene) -> None:
        await scene.policies.in_force.load(TOPIC)
        assert scene.ttl() == 0
        await scene.set_ttl(20, is_global=True)
        assert scene.ttl() == 20
        await scene.set_ttl(10)
        assert scene.ttl() == 10
        await scene.set_ttl(None)
        assert scene.ttl() == 20
        await scene.set_ttl(None, is_global=True)
        assert scene.ttl() == 0
        await scene.resources.namespaces.update(
            NAMESPACE, lambda policies: structs.replace(policies, message_ttl_in_seconds=7)
        )
        assert scene.ttl() == 7
        assert scene.heard == [(NAMESPACE, TOPIC)] * 4 + [(NAMESPACE, None)]

    run(body, folder=tmp_path if on_disk else None)


def test_policies_set_before_are_in_force_on_load() -> None:
    async def body(scene: Scene) -> None:
        await scene.set_ttl(10)
        await scene.policies.in_force.load(TOPIC)
        await scene.policies.in_force.load(OTHER)
        assert (scene.ttl(), scene.ttl(OTHER)) == (10, 0)
        assert scene.heard == []

    run(body)


def test_removing_the_record_clears_the_scope_at_once() -> None:
    async def body(scene: Scene) -> None:
        await scene.policies.in_force.load(TOPIC)
        await scene.set_ttl(20, is_global=True)
        await scene.set_ttl(10)
        await scene.policies.delete(TOPIC, keep_global=True)
        assert scene.ttl() == 20
        await scene.policies.delete(TOPIC)
        await scene.policies.delete(TOPIC)
        assert scene.ttl() == 0
        assert await scene.policies.get(TOPIC, is_global=True) is None

    run(body)


def test_a_removal_from_a_topic_without_policies_writes_nothing() -> None:
    async def body(scene: Scene) -> None:
        await scene.policies.update(
            TOPIC,
            lambda policies: structs.replace(policies, messageTTLInSeconds=None),
            skip_if_absent=True,
        )
        assert await scene.local.get(LOCAL_PATH) is None

    run(body)


def test_changes_by_another_broker_reach_listeners() -> None:
    async def body(scene: Scene) -> None:
        await scene.policies.in_force.load(TOPIC)
        await scene.local.put(
            LOCAL_PATH,
            encode_document(TopicPolicies(messageTTLInSeconds=33)),
            expect=ANY_VERSION,
        )
        await scene.policies.in_force.catch_up()
        assert scene.ttl() == 33
        assert scene.heard == [(NAMESPACE, TOPIC)]
        await scene.configuration.put(
            "/admin/policies/t/n",
            encode_document(Policies(max_producers_per_topic=2)),
            expect=ANY_VERSION,
        )
        await scene.policies.in_force.catch_up()
        assert scene.policies.in_force.get(TOPIC).max_producers == 2

    run(body)


def test_a_burst_of_changes_ends_with_the_last_value() -> None:
    async def body(scene: Scene) -> None:
        await scene.policies.in_force.load(TOPIC)
        for seconds in range(1, 30):
            await scene.local.put(
                LOCAL_PATH,
                encode_document(TopicPolicies(messageTTLInSeconds=seconds)),
                expect=ANY_VERSION,
            )
        await scene.policies.in_force.catch_up()
        assert scene.ttl() == 29

    run(body)


def test_a_record_that_cannot_be_read_leaves_what_was_in_force() -> None:
    async def body(scene: Scene) -> None:
        await scene.policies.in_force.load(TOPIC)
        await scene.set_ttl(10)
        await scene.local.put(LOCAL_PATH, b"not json", expect=ANY_VERSION)
        await scene.policies.in_force.catch_up()
        assert scene.ttl() == 10
        await scene.policies.delete(TOPIC)
        assert scene.ttl() == 0

    run(body)


def test_a_listener_that_raises_disturbs_nobody() -> None:
    async def body(scene: Scene) -> None:
        def fail(namespace: NamespaceName, topic: TopicName | None) -> None:
            raise RuntimeError("listener")

        scene.policies.in_force.listen(fail)
        again: list[object] = []
        scene.policies.in_force.listen(lambda namespace, topic: again.append(topic))
        await scene.policies.in_force.load(TOPIC)
        await scene.set_ttl(10)
        await scene.set_ttl(11)
        assert again == [TOPIC, TOPIC]

    run(body)


def test_a_dynamic_key_of_the_broker_takes_effect() -> None:
    async def body(scene: Scene) -> None:
        await scene.policies.in_force.load(TOPIC)
        assert scene.policies.in_force.get(TOPIC).publish_rate is None
        scene.config.update_dynamic("maxPublishRatePerTopicInMessages", "50")
        rate = scene.policies.in_force.get(TOPIC).publish_rate
        assert rate is not None
        assert rate.messages == 50
        assert scene.heard == [(NAMESPACE, None)]

    run(body)


def test_what_was_missed_while_disconnected_is_read_again() -> None:
    async def body(scene: Scene) -> None:
        await scene.policies.in_force.load(TOPIC)
        assert isinstance(scene.local, MemoryStore)
        scene.local.disconnect()
        other = MemoryStore(scene.local._tree)
        await other.put(
            LOCAL_PATH,
            encode_document(TopicPolicies(messageTTLInSeconds=5)),
            expect=ANY_VERSION,
        )
        scene.local.reconnect()
        await scene.policies.in_force.catch_up()
        assert scene.ttl() == 5

    run(body)


def test_policies_are_refused_when_switched_off() -> None:
    async def body(scene: Scene) -> None:
        with pytest.raises(MethodNotAllowed):
            await scene.set_ttl(10)
        await scene.policies.in_force.load(TOPIC)
        assert scene.ttl() == 0
        assert await scene.policies.get(TOPIC) is None
        await scene.policies.delete(TOPIC)

    run(body, settings={"topicLevelPoliciesEnabled": False})


def test_topics_of_the_broker_itself_take_no_policies() -> None:
    async def body(scene: Scene) -> None:
        with pytest.raises(NotAllowed):
            await scene.policies.update(
                parse_topic("persistent://pulsar/localhost:8080/healthcheck"),
                lambda policies: policies,
            )

    run(body)


def test_merged_and_applied_show_where_values_come_from() -> None:
    async def body(scene: Scene) -> None:
        await scene.set_ttl(10)
        await scene.policies.update(
            TOPIC,
            lambda policies: structs.replace(
                policies, messageTTLInSeconds=20, maxProducerPerTopic=3
            ),
            is_global=True,
        )
        await scene.resources.namespaces.update(
            NAMESPACE, lambda policies: structs.replace(policies, max_consumers_per_topic=4)
        )
        merged = await scene.policies.get_merged(TOPIC)
        assert merged == TopicPolicies(messageTTLInSeconds=10, maxProducerPerTopic=3)
        applied = await scene.policies.get_applied(TOPIC)
        assert applied.messageTTLInSeconds == 10
        assert applied.maxConsumerPerTopic == 4
        assert applied.maxUnackedMessagesOnConsumer == scene.config.maxUnackedMessagesPerConsumer

    run(body)


def test_automatic_creation_asks_the_namespace_first() -> None:
    async def body(scene: Scene) -> None:
        assert await scene.policies.auto_topic_creation(NAMESPACE) == AutoTopicCreation(True, 0)
        override = AutoTopicCreationOverride(allowAutoTopicCreation=False)
        await scene.resources.namespaces.update(
            NAMESPACE,
            lambda policies: structs.replace(policies, autoTopicCreationOverride=override),
        )
        assert await scene.policies.auto_topic_creation(NAMESPACE) == AutoTopicCreation(False, 0)

    run(body)


def test_a_namespace_that_goes_takes_its_topics_policies_along() -> None:
    async def body(scene: Scene) -> None:
        await scene.set_ttl(10)
        await scene.set_ttl(20, is_global=True)
        await scene.policies.delete_namespace(NAMESPACE)
        assert await scene.local.children("/admin/topic-policies/local") == ()
        assert await scene.configuration.children("/admin/topic-policies/global") == ()

    run(body)


class GatedStore(MemoryStore):
    """A get has its answer at once and delivers it when the test says so."""

    def __init__(self, tree: MemoryTree) -> None:
        super().__init__(tree)
        self.gate = asyncio.Event()
        self.gate.set()

    async def get(self, path: str) -> Record | None:
        record = await super().get(path)
        await self.gate.wait()
        return record


def test_a_topic_loaded_while_its_policies_change_has_the_new_ones() -> None:
    async def body() -> None:
        tree = MemoryTree(SystemClock())
        store, other = GatedStore(tree), MemoryStore(tree)
        resources = Resources(store, store, clock=SystemClock())
        config = Configuration({"topicPoliciesServiceClassName": "metadata-store"})
        policies = assemble(config, SystemClock(), resources, MemoryLedgerStore()).policies
        store.gate.clear()
        loading = asyncio.gather(policies.in_force.load(TOPIC))
        await asyncio.sleep(0)
        value = encode_document(Policies(message_ttl_in_seconds=5))
        await other.put("/admin/policies/t/n", value, expect=ABSENT)
        store.gate.set()
        await loading
        assert policies.in_force.get(TOPIC).message_ttl_s == 5
        await policies.close()

    asyncio.run(body())


def test_a_load_on_disk_never_misses_a_change(tmp_path: Path) -> None:
    async def body(scene: Scene) -> None:
        for seconds in range(1, 40):
            scene.policies.in_force.forget(TOPIC)
            await asyncio.gather(scene.set_ttl(seconds), scene.policies.in_force.load(TOPIC))
            await scene.policies.in_force.catch_up()
            assert scene.ttl() == seconds

    run(body, folder=tmp_path)

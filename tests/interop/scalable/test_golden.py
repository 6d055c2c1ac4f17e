"""Recorded conversations of a published client, played to our broker."""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import Iterator
from pathlib import Path

import pytest

from magnetar.testing.broker import HOST, MagnetarBroker
from magnetar.wire.command import BaseCommand
from tests.interop.scalable.replay import Action, Replay, Trigger
from tests.interop.scalable.tape import Line, load_tape

QUIET = frozenset({BaseCommand.SUCCESS, BaseCommand.REACHED_END_OF_TOPIC})
"""What a broker may say as it likes, for nobody waits for it."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MagnetarBroker]:
    data: Path = tmp_path_factory.mktemp("golden") / "data"
    settings = {
        "brokerDeduplicationEnabled": True,
        "scalableTopicConsumerSessionGracePeriodSeconds": 2,
    }
    with MagnetarBroker(data=data, set=settings) as running:
        yield running


class Scene:
    """A namespace of its own for one recording, and the admin calls that were made in it."""

    def __init__(self, broker: MagnetarBroker, name: str) -> None:
        self.broker = broker
        self.name = name
        self.call("PUT", "/admin/v2/tenants/golden", '{"allowedClusters":["standalone"]}')
        self.call("PUT", f"/admin/v2/namespaces/golden/{name}")

    def call(self, method: str, path: str, body: str = "") -> int:
        connection = http.client.HTTPConnection(HOST, self.broker.web_port, timeout=20)
        try:
            headers = {"Content-Type": "application/json"}
            connection.request(method, path, body or None, headers)
            response = connection.getresponse()
            response.read()
            return response.status
        finally:
            connection.close()

    def create(self, topic: str = "orders", *, segments: int = 1, properties: str = "") -> None:
        path = f"/admin/v2/scalable/golden/{self.name}/{topic}?numInitialSegments={segments}"
        assert self.call("PUT", path, properties) == 204

    def later(self, method: str, path: str, body: str = "") -> Action:
        async def act() -> None:
            where = f"/admin/v2/scalable/golden/{self.name}/{path}"
            assert await asyncio.to_thread(self.call, method, where, body) == 204

        return act

    def play(self, replay: Replay) -> list[BaseCommand]:
        return asyncio.run(replay.run(self.name))


def shows_epoch(epoch: int) -> Trigger:
    """The first sign of a change: producers are sent away, or the layout comes."""

    def is_sign(line: Line) -> bool:
        if line.is_client or line.command is None:
            return False
        if line.type == BaseCommand.SCALABLE_TOPIC_UPDATE:
            return bool(line.body.dag.epoch == epoch)
        return line.type == BaseCommand.CLOSE_PRODUCER

    return is_sign


def sealed_and_its_children(line: Line) -> bool:
    """An assignment of a drained segment beside what came out of it: ours leaves it out."""
    return (
        line.type == BaseCommand.SCALABLE_TOPIC_ASSIGNMENT_UPDATE
        and not line.is_client
        and line.body.assignment.layout_epoch > 0
        and len(line.body.assignment.segments) > 1
    )


def only_drained(line: Line) -> bool:
    """In the recording of a merge all was read before: ours hands out the child at once."""
    return (
        line.type == BaseCommand.SCALABLE_TOPIC_ASSIGNMENT_UPDATE
        and line.body.assignment.layout_epoch == 1
        and all(each.segment_id < 2 for each in line.body.assignment.segments)
    )


def beyond(commands: list[BaseCommand]) -> list[BaseCommand]:
    return [command for command in commands if command.type not in QUIET]


@pytest.mark.parametrize(
    ("name", "segments"),
    [
        ("produce-2-segments", 2),
        ("produce-batched", 2),
        ("stream-consumer", 2),
        ("queue-consumer", 2),
        ("checkpoint-consumer", 2),
    ],
)
def test_a_conversation_without_change_goes_word_for_word(
    broker: MagnetarBroker, name: str, segments: int
) -> None:
    scene = Scene(broker, name)
    scene.create(segments=segments)
    assert beyond(scene.play(Replay(broker.port))) == []


@pytest.mark.parametrize("name", ["regular-topic", "regular-partitioned-topic"])
def test_a_regular_topic_looks_like_a_layout_of_legacy_segments(
    broker: MagnetarBroker, name: str
) -> None:
    scene = Scene(broker, name)
    if name == "regular-partitioned-topic":
        path = f"/admin/v2/persistent/golden/{name}/{topic_of(name)}/partitions"
        assert scene.call("PUT", path, "3") == 204
    assert beyond(scene.play(Replay(broker.port))) == []


def topic_of(name: str) -> str:
    """The local name that a recording looks up first."""
    looked_up = (line for line in load_tape(name) if line.type == BaseCommand.LOOKUP)
    return str(next(looked_up).body.topic).rsplit("/", 1)[-1]


@pytest.mark.parametrize(
    ("name", "segments", "path"),
    [
        ("split-during-produce", 1, "orders/split/0"),
        ("split-during-queue-consume", 1, "orders/split/0"),
        ("split-during-stream-consume", 1, "orders/split/0"),
        ("merge", 2, "orders/merge/0/1"),
    ],
)
def test_a_split_and_a_merge_are_told_as_they_were_recorded(
    broker: MagnetarBroker, name: str, segments: int, path: str
) -> None:
    scene = Scene(broker, name)
    scene.create(segments=segments)
    acts = [(shows_epoch(1), scene.later("POST", path))]
    is_skipped = only_drained if name == "merge" else lambda line: False
    replay = Replay(broker.port, acts, is_skipped, sealed_and_its_children)
    assert beyond(scene.play(replay)) == []
    assert not acts


def test_topics_of_a_namespace_come_and_go_as_they_were_recorded(broker: MagnetarBroker) -> None:
    scene = Scene(broker, "namespace-watch")
    scene.create("a", properties='{"team":"red"}')
    scene.create("b", properties='{"team":"blue"}')

    def tells_of(word: str) -> Trigger:
        return lambda line: (
            line.type == BaseCommand.WATCH_SCALABLE_TOPICS_UPDATE
            and not line.is_client
            and word in str(line.body)
        )

    def is_closed_by_broker(line: Line) -> bool:
        return line.type == BaseCommand.CLOSE_CONSUMER and not line.is_client

    acts = [
        (tells_of("added"), scene.later("PUT", "c", '{"team":"red"}')),
        (is_closed_by_broker, scene.later("DELETE", "a?force=true")),
    ]
    extra = scene.play(Replay(broker.port, acts))
    assert not acts
    told = [each.scalableTopicUpdate for each in extra]
    assert [(each.session_id, each.HasField("error")) for each in told] == [(1, True)]


@pytest.mark.parametrize("name", ["two-stream-consumers", "checkpoint-group"])
def test_a_group_is_told_as_it_was_recorded_save_who_keeps_what(
    broker: MagnetarBroker, name: str
) -> None:
    """Ours moves no more segments than it must, so shares differ; the words do not."""
    scene = Scene(broker, name)
    scene.create(segments=4 if name == "two-stream-consumers" else 2)

    def is_share(line: Line) -> bool:
        return line.type in (
            BaseCommand.SCALABLE_TOPIC_ASSIGNMENT_UPDATE,
            BaseCommand.SCALABLE_TOPIC_SUBSCRIBE_RESPONSE,
        )

    extra = beyond(scene.play(Replay(broker.port, differs=is_share)))
    kinds = {command.type for command in extra}
    assert kinds <= {BaseCommand.SCALABLE_TOPIC_ASSIGNMENT_UPDATE}


def test_what_fails_there_fails_here_with_the_same_code(broker: MagnetarBroker) -> None:
    """The recorded broker makes no scalable topic because it is looked up; later ones do."""
    scene = Scene(broker, "errors")
    scene.create()
    creation = "/admin/v2/namespaces/golden/errors/autoTopicCreation"
    assert scene.call("POST", creation, '{"allowAutoTopicCreation": false}') == 204

    def is_dialled_again(line: Line) -> bool:
        """The recorded client goes on dialling after its subscribe failed."""
        return line.connection > 4

    def is_stream_of_regular_topic(line: Line) -> bool:
        """The recorded broker has no such thing."""
        is_answer = line.type == BaseCommand.SCALABLE_TOPIC_SUBSCRIBE_RESPONSE
        return is_answer and "persistent://" in line.body.message

    replay = Replay(broker.port, is_skipped=is_dialled_again, differs=is_stream_of_regular_topic)
    kinds = {command.type for command in scene.play(replay)}
    assert kinds <= QUIET | {BaseCommand.SCALABLE_TOPIC_ASSIGNMENT_UPDATE}


def test_clients_go_through_a_migration_as_it_was_recorded(broker: MagnetarBroker) -> None:
    """Ours sends producers away itself, as before a split, and tells once more who controls the
    topic.
    """
    scene = Scene(broker, "migrate")
    partitions = "/admin/v2/persistent/golden/migrate/regular/partitions"
    assert scene.call("PUT", partitions, "2") == 204

    def shows_sealed(line: Line) -> bool:
        is_layout = line.type == BaseCommand.SCALABLE_TOPIC_UPDATE and not line.is_client
        return is_layout and any(each.state == 1 for each in line.body.dag.segments)

    acts = [(shows_sealed, scene.later("POST", "regular/migrate"))]
    extra = beyond(scene.play(Replay(broker.port, acts)))
    assert not acts
    assert {command.type for command in extra} <= {
        BaseCommand.CLOSE_PRODUCER,
        BaseCommand.SCALABLE_TOPIC_UPDATE,
    }


def test_a_classic_client_is_kept_out_after_a_migration(broker: MagnetarBroker) -> None:
    """The recorded broker lets it read on, and lets it look for what it cannot use."""
    scene = Scene(broker, "v4-on-migrated")
    tape = list(load_tape(scene.name))
    asked = [line for line in tape if line.type == BaseCommand.PARTITIONED_METADATA]
    began = next(place for place, line in enumerate(tape) if line == asked[1])
    after = tape[began:]
    subscribed = {
        line.body.request_id
        for line in after
        if line.type == BaseCommand.SUBSCRIBE and line.is_client
    }

    def is_let_in(line: Line) -> bool:
        return line.type == BaseCommand.SUCCESS and line.body.request_id in subscribed

    def is_let_look(line: Line) -> bool:
        kinds = (BaseCommand.PARTITIONED_METADATA_RESPONSE, BaseCommand.LOOKUP_RESPONSE)
        return line.type in kinds and line in after

    acts = [(lambda line: line == asked[1], scene.later("POST", "regular/migrate"))]
    extra = scene.play(Replay(broker.port, acts, is_let_in, is_let_look))
    assert not acts
    refused = [each.error for each in extra if each.type == BaseCommand.ERROR]
    assert {each.request_id for each in refused} == subscribed
    for refusal in refused:
        assert refusal.error == 11  # TopicNotFound
        assert f"topic://golden/{scene.name}/regular" in refusal.message

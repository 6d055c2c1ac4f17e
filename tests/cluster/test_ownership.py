"""Brokers that share bookies, as processes: a topic goes on elsewhere, whatever its owner does."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from magnetar.testing.bookkeeper import BookieCluster
from magnetar.testing.member import ClusterBroker
from tests.crash.member import TOPIC, Publisher, read_all, until

SESSION_MS = 4_000


class Pair:
    """Two brokers on metadata of their own; one of them owns the topic."""

    def __init__(self, stack: ExitStack, bookies: BookieCluster) -> None:
        zookeeper = bookies.zookeeper
        settings = {
            "metadataStoreSessionTimeoutMillis": SESSION_MS,
            "clusterName": "north",
            "bookkeeperMetadataServiceUri": f"zk+hierarchical://{zookeeper.hosts}/ledgers",
        }
        metadata = zookeeper.new_url()
        self.brokers = [
            stack.enter_context(ClusterBroker(metadata, name=name, set=settings))
            for name in ("first", "second")
        ]

    @property
    def url(self) -> str:
        """A client that knows both finds the topic wherever it is."""
        places = [each.service_url.removeprefix("pulsar://") for each in self.brokers]
        return f"pulsar://{','.join(places)}"

    def named_by(self, broker: ClusterBroker) -> ClusterBroker | None:
        """The owner as a broker names it."""
        path = TOPIC.replace("://", "/")
        try:
            with urllib.request.urlopen(f"{broker.admin_url}/lookup/v2/topic/{path}") as answer:
                url = json.load(answer)["brokerUrl"]
        except urllib.error.HTTPError:
            return None
        [owner] = [each for each in self.brokers if each.service_url == url]
        return owner

    def owner(self) -> ClusterBroker:
        owner = self.named_by(self.brokers[0])
        assert owner is not None
        return owner

    def other(self, broker: ClusterBroker) -> ClusterBroker:
        [other] = [each for each in self.brokers if each is not broker]
        return other


@pytest.fixture
def pair(bookies: BookieCluster) -> Iterator[Pair]:
    with ExitStack() as stack:
        yield Pair(stack, bookies)


@pytest.fixture
def publisher(pair: Pair) -> Iterator[Publisher]:
    publisher = Publisher(pair.url)
    publisher.more()
    yield publisher
    publisher.close()


def check_whole(publisher: Publisher, url: str) -> None:
    """Everything that was acknowledged can be read."""
    publisher.stop()
    assert set(publisher.acknowledged) <= set(read_all(url))


def test_a_topic_goes_on_elsewhere_when_its_owner_is_killed(
    pair: Pair, publisher: Publisher
) -> None:
    owner = pair.owner()
    other = pair.other(owner)
    owner.kill()
    publisher.more()
    assert pair.named_by(other) is other
    check_whole(publisher, other.service_url)


def test_a_broker_that_stops_hands_its_topics_over(pair: Pair, publisher: Publisher) -> None:
    owner = pair.owner()
    other = pair.other(owner)
    owner.stop()
    assert pair.named_by(other) is other
    publisher.more()
    check_whole(publisher, other.service_url)
    assert "bundle unloaded" in owner.read_log()


def test_a_topic_moves_to_the_broker_that_an_operator_names(
    pair: Pair, publisher: Publisher
) -> None:
    for _ in range(3):
        owner = pair.owner()
        other = pair.other(owner)
        bundle = _get_text(f"{owner.admin_url}/lookup/v2/topic/{_path()}/bundle")
        target = other.admin_url.removeprefix("http://")
        path = f"namespaces/public/default/{bundle}/unload?destinationBroker={target}"
        request = urllib.request.Request(f"{owner.admin_url}/admin/v2/{path}", method="PUT")
        urllib.request.urlopen(request).close()
        assert pair.owner() is other
        publisher.more()
    check_whole(publisher, pair.owner().service_url)


def test_an_owner_that_wakes_after_the_end_of_its_session_does_no_harm(
    pair: Pair, publisher: Publisher
) -> None:
    owner = pair.owner()
    other = pair.other(owner)
    owner.pause()
    until(lambda: pair.named_by(other) is other)
    later = Publisher(other.service_url)
    later.more()
    owner.resume()
    later.more()
    publisher.more()  # its client finds the new owner
    until(lambda: pair.named_by(owner) is other)
    later.close()
    publisher.stop()
    assert {*later.acknowledged, *publisher.acknowledged} <= set(read_all(other.service_url))
    assert "bundles are given up" in owner.read_log()


def test_a_loaded_topic_is_served_while_zookeeper_is_away(
    pair: Pair, publisher: Publisher, bookies: BookieCluster
) -> None:
    bookies.zookeeper.pause()
    publisher.more()
    bookies.zookeeper.resume()
    publisher.more()
    check_whole(publisher, pair.url)


def _path() -> str:
    return TOPIC.replace("://", "/")


def _get_text(url: str) -> str:
    with urllib.request.urlopen(url) as answer:
        return str(answer.read().decode())

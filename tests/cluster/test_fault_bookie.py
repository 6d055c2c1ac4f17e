"""Bookies that are paused, killed, full and replaced while clients work and ledgers roll over."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from magnetar import PulsarClient
from magnetar.broker.broker_directory import BROKERS
from magnetar.model.bookie import LEDGERS
from magnetar.testing.bookkeeper import Bookie, format_cluster
from magnetar.testing.broker import HOST
from magnetar.testing.member import ClusterBroker
from magnetar.testing.process import ProcessServer, ServerFailed
from magnetar.testing.zookeeper import ZookeeperEnsemble
from tests.cluster.brokers import SETTINGS, BrokerCluster, Members
from tests.cluster.change import DELAY_S, asking, finish_changes, plan_changes, unload_all
from tests.cluster.workload import LONG_S, Workload, await_true

DISK_BYTES = 96 << 20
LIMITS = {"diskUsageThreshold": 0.95, "diskUsageWarnThreshold": 0.94}
ONE_COPY = {
    "bookkeeperEnsemble": 1,
    "bookkeeperWriteQuorum": 1,
    "bookkeeperAckQuorum": 1,
    "managedLedgerMaxMarkDeleteRate": 0.0,
}


def test_any_bookie_may_be_paused_and_killed(brokers: BrokerCluster) -> None:
    """Two of three are left, which is what an ensemble of two needs. Entries wait for a paused one
    until it has had its time, and then go to another.
    """
    with Workload(brokers.service_url, brokers.new_topic("bookie")) as work:
        for victim in brokers.bookies.bookies:
            work.more()
            work.fault(f"{victim.name} is paused")
            victim.pause()
            work.more(200)
            victim.resume()
            work.more()
            work.fault(f"{victim.name} is killed")
            victim.kill()
            work.more(100)
            victim.await_unlisted()
            victim.start()


@contextmanager
def small_disk(place: Path) -> Iterator[Path]:
    """A file system of its own that is soon full."""
    place.mkdir()
    made = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(place)]
    if subprocess.run(made, capture_output=True, check=False).returncode:
        pytest.skip("no file system may be mounted here: it takes root, or CAP_SYS_ADMIN")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_bookie_whose_disk_is_full_takes_no_more_and_serves_what_it_has(
    brokers: BrokerCluster, tmp_path: Path
) -> None:
    bookies = brokers.bookies
    with small_disk(tmp_path / "small") as disk:
        settings = {"ledgerDirectories": str(disk), "diskCheckInterval": 500} | LIMITS
        full = bookies.add_bookie(settings)
        read_only = f"{LEDGERS}/available/readonly/{full.address}"
        try:
            with Workload(brokers.service_url, brokers.new_topic("full")) as work:
                # The ensembles of new ledgers are the two that are left.
                others = bookies.bookies[:2]
                for other in others:
                    other.stop()
                work.more(200)
                for other in others:
                    other.launch()
                for other in others:
                    other.await_serving()
                work.fault("the disk of a bookie is full")
                with suppress(OSError), (disk / "filler").open("wb", buffering=0) as filler:
                    while True:
                        filler.write(bytes(1 << 16))
                await_true(
                    lambda: read_only in bookies.zookeeper.ephemeral_keys(),
                    "the bookie is read-only",
                )
                work.more(200)
                (disk / "filler").unlink()
                await_true(
                    lambda: read_only not in bookies.zookeeper.ephemeral_keys(),
                    "the bookie takes entries again",
                )
                work.more(100)
        finally:
            bookies.bookies.remove(full)
            full.close()


def start_together(*servers: ProcessServer) -> None:
    for server in servers:
        server.launch()
    for server in servers:
        server.await_serving()


@pytest.mark.timeout(300)
def test_the_leader_of_three_zookeepers_and_a_bookie_are_killed_during_changes_and_recovery(
    tmp_path: Path,
) -> None:
    """While clients publish: first during a split, a merge, a migration and the unloading of all
    bundles; then, when they are back, while a broker recovers what another one left that was killed
    too.
    """
    with ExitStack() as stack:
        ensemble = stack.enter_context(ZookeeperEnsemble())
        format_cluster(ensemble.hosts)
        bookies = [
            Bookie(ensemble, name=f"bookie-{number}", home=tmp_path / str(number))
            for number in range(3)
        ]
        members = [
            ClusterBroker(ensemble.url, name=f"broker-{number}", set=SETTINGS)
            for number in range(2)
        ]
        for server in (*bookies, *members):
            stack.callback(server.close)
        start_together(*bookies)
        start_together(*members)
        brokers = Members(members)
        changes = plan_changes(brokers)
        works = [stack.enter_context(Workload(brokers.service_url, each)) for each in changes]
        for work in works:
            work.more()
            work.fault("the leader of ZooKeeper and a bookie are killed during changes")
        leader = ensemble.leader
        joins = [asking(brokers, members[1], change, topic) for topic, change in changes.items()]
        joins.append(asking(brokers, members[1], unload_all, ""))
        time.sleep(DELAY_S)
        leader.kill()
        bookies[0].kill()
        for join in joins:
            join()
        for work in works:
            work.more()
        start_together(leader, bookies[0])
        for work in works:
            work.fault("a broker is killed, and a leader and a bookie while another recovers")
        leader, listed = ensemble.leader, f"{BROKERS}/{HOST}:{members[0].web_port}"
        members[0].kill()
        await_true(lambda: listed not in leader.ephemeral_keys(), "its session has ended")
        leader.kill()
        bookies[1].kill()
        finish_changes(brokers, changes)
        for work in works:
            work.more(100)


def store_once(brokers: BrokerCluster) -> tuple[str, Bookie]:
    """A topic with three messages in a closed ledger, and the one bookie that has them."""
    topic = brokers.new_topic("once")
    with brokers.admin() as admin, PulsarClient(brokers.service_url) as client:
        admin.topics.create(topic)
        admin.topic_policies.set(topic, "persistence", ONE_COPY)
        with client.producer(topic, batching=False) as producer:
            sent = [producer.send(b"%d" % number) for number in range(3)]
        client.consumer(topic, "behind", initial_position="earliest").close()
        admin.topics.unload(topic)
    [segment] = brokers.read_ledger(sent[0].ledger_id).segments
    [address] = segment.bookies
    return topic, brokers.bookies.bookie_at(address)


def pass_lost_ledger(brokers: BrokerCluster, topic: str) -> None:
    """A topic takes messages and delivers them to those who are behind what is lost. Others stay
    before it until an operator decides; nothing is deleted.
    """
    with brokers.admin() as admin, PulsarClient(brokers.service_url) as client:
        with client.producer(topic) as producer:
            after = producer.send(b"after")
        owner = brokers.owner(topic)
        with client.consumer(topic, "behind") as consumer:
            await_true(lambda: f"topic={topic} " in owner.read_log(), "the log names the topic")
            assert consumer.receive(timeout=0.1) is None
        [line] = [each for each in owner.read_log().splitlines() if f"topic={topic} " in each][:1]
        assert "read failed" in line and "no bookie gives it" in line
        assert "if they are gone for good, pass it by a reset behind it" in line
        assert len(admin.topics.internal_stats(topic)["ledgers"]) == 2
        admin.subscriptions.reset_to_id(topic, "behind", after)
        with client.consumer(topic, "behind") as consumer:
            message = consumer.receive(timeout=LONG_S)
            assert message is not None and message.data == b"after"


def test_a_bookie_that_is_read_only_takes_no_more_and_is_replaced_by_an_empty_one(
    brokers: BrokerCluster,
) -> None:
    """What nothing but the lost bookie had is lost; the rest of its topic is served."""
    bookies = brokers.bookies
    topic, victim = store_once(brokers)
    with Workload(brokers.service_url, brokers.new_topic("replaced")) as work:
        work.more()
        work.fault("a bookie becomes read-only")
        victim.stop()
        victim.settings["forceReadOnlyBookie"] = True
        victim.start()
        work.more()
        work.fault("a bookie loses its disk")
        victim.kill()
        victim.wipe()
        # Under its old name it would answer for entries that it has lost.
        with pytest.raises(ServerFailed, match="InvalidCookie"):
            victim.start()
        victim.kill()
        bookies.bookies.remove(victim)
        added = bookies.add_bookie()
        work.more()
        assert added.is_serving
    pass_lost_ledger(brokers, topic)

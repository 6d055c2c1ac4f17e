"""The console of a cluster: what all brokers carry, and what one counts of its bookies."""

from __future__ import annotations

import os
import shutil

import pytest

from magnetar import PulsarClient
from tests.cluster.brokers import BrokerCluster
from tests.console.test_browser import CONSOLE, play


@pytest.mark.timeout(240)
def test_brokers_and_bookies_are_shown(brokers: BrokerCluster) -> None:
    browser = os.environ.get("CHROMIUM", "/usr/bin/chromium")
    if not shutil.which("node") or not shutil.which(browser):
        pytest.skip("the console is tested with Node.js 20 and Chromium: install both")
    assert (CONSOLE / "node_modules" / "playwright-core").is_dir(), "run `make console-tools`"
    topic = brokers.new_topic("shown")
    with PulsarClient(brokers.service_url) as client:
        client.producer(topic).send(b"stored")
        for broker in brokers.brokers:
            with brokers.admin(broker) as admin:
                found = admin.brokers.overview()
            assert len(found["brokers"]) == 3 and found["topics"]["producers"] == 1
    owner = brokers.owner(topic)
    with brokers.admin(owner) as admin:
        found = admin.brokers.overview()
    used = sorted(found["brokers"][found["brokerId"]]["bookies"])
    assert used
    other = next(each for each in brokers.brokers if each is not owner)
    shown = {"brokers": sorted(found["brokers"]), "bookies": used, "topic": topic}
    play("cluster", owner, **shown, elsewhere=other.admin_url)

"""The blocking client, without a broker."""

from __future__ import annotations

import sys
import threading

from magnetar import PulsarClient


def test_threads_that_ask_at_once_share_one_admin_client() -> None:
    meeting = threading.Barrier(8)
    found: set[int] = set()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # so that threads overtake each other
    try:
        for _ in range(20):
            with PulsarClient("pulsar://localhost:1", admin_url="http://localhost:1") as client:

                def ask(client: PulsarClient = client) -> None:
                    meeting.wait(30)
                    found.add(id(client.admin))

                threads = [threading.Thread(target=ask) for _ in range(8)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                assert found == {id(client.admin)}
                found.clear()
    finally:
        sys.setswitchinterval(interval)

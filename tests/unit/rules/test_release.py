from __future__ import annotations

import pytest

from magnetar.rules.release import shares_buckets


@pytest.mark.parametrize(
    ("client_version", "expected"),
    [
        ("Pulsar-Java-v5.0.0-M1", False),
        ("Pulsar-Java-v5.0.0-M1-SNAPSHOT", True),
        ("Pulsar-Java-v5.0.0-M2", True),
        ("Pulsar-Java-v5.0.0", True),
        ("Pulsar-Java-v5.1.3", True),
        ("Pulsar-Java-v4.0.9", False),
        ("Pulsar-Java-v5.0.0-M1 (embedded)", False),
        ("Pulsar-CPP-v5.0.0", False),
        ("Pulsar-Java-v5", False),
        ("Magnetar-Python-v0.1.0-web shop", True),
        ("", False),
    ],
)
def test_entry_buckets_are_for_java_clients_after_the_first_milestone_and_for_ours(
    client_version: str, expected: bool
) -> None:
    assert shares_buckets(client_version) is expected

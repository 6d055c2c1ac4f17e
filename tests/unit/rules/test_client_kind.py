from __future__ import annotations

import pytest

from magnetar.rules.client_kind import may_be_scalable


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("Pulsar-Java-v5.0.0-M1", True),
        ("Pulsar-Java-v10.1.0", True),
        ("Pulsar-CPP-v5.0.0", True),
        ("Magnetar-Python-v0.1.0", True),
        ("Magnetar-Python-v0.1.0-billing", True),
        ("Pulsar-Java-v4.1.2", False),
        ("Pulsar-Java-v2.11.0-SNAPSHOT", False),
        ("Pulsar-CPP-v4.2.0", False),
        ("Pulsar-CPP-v4.2.0-billing 5.0", False),
        ("Pulsar Go 0.14.0", False),
        ("DotPulsar 5.0", False),
        ("", False),
    ],
)
def test_a_library_is_known_by_its_version(version: str, expected: bool) -> None:
    assert may_be_scalable(version, announces=False) is expected
    assert may_be_scalable(version, announces=True)

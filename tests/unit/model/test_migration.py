from __future__ import annotations

import pytest

from magnetar.model.migration import LOCKS, PREPARATIONS, lock_path, parse_lock_path
from magnetar.model.name import parse_topic

TOPIC = parse_topic("topic://shop/eu/a b~ü")


def test_the_topic_of_a_lock_is_read_from_its_path() -> None:
    assert parse_lock_path(lock_path(TOPIC)) == TOPIC


@pytest.mark.parametrize(
    "path", [LOCKS, f"{LOCKS}/shop", f"{LOCKS}/shop/eu", f"{PREPARATIONS}/shop/eu/orders"]
)
def test_other_paths_are_no_locks(path: str) -> None:
    assert parse_lock_path(path) is None

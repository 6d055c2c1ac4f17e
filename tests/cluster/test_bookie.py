"""The servers that the other tests of this folder rely on."""

from __future__ import annotations

import pytest

from magnetar.testing.bookkeeper import BookieCluster
from magnetar.testing.process import ServerFailed


def test_bookies_are_registered_when_they_serve(bookies: BookieCluster) -> None:
    assert all(bookie.is_registered and bookie.is_serving for bookie in bookies.bookies)


def test_a_killed_bookie_is_unlisted_with_its_session_and_serves_again_on_its_data(
    bookies: BookieCluster,
) -> None:
    victim = bookies.bookies[0]
    victim.kill()
    assert not victim.is_serving
    victim.await_unlisted()
    victim.start()
    assert victim.is_registered and victim.is_serving


def test_a_paused_bookie_answers_nothing_until_it_goes_on(bookies: BookieCluster) -> None:
    victim = bookies.bookies[1]
    victim.pause()
    assert not victim.is_serving
    victim.resume()
    victim.await_serving()


def test_a_bookie_that_lost_its_data_refuses_to_start_under_its_old_name() -> None:
    with BookieCluster(1) as cluster:
        [victim] = cluster.bookies
        victim.kill()
        victim.wipe()
        with pytest.raises(ServerFailed, match="InvalidCookie"):
            victim.start()
        assert cluster.add_bookie().is_serving

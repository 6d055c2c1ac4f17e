"""The servers that the other tests of this folder rely on."""

from __future__ import annotations

from magnetar.testing.bookkeeper import BookieCluster


def test_bookies_are_registered_when_they_serve_and_paused_ones_answer_nothing(
    bookies: BookieCluster,
) -> None:
    assert all(bookie.is_registered and bookie.is_serving for bookie in bookies.bookies)
    victim = bookies.bookies[1]
    victim.pause()
    assert not victim.is_serving
    victim.resume()
    victim.await_serving()

from __future__ import annotations

import pytest

from magnetar.rules.scalable_watch import (
    Diff,
    LayoutFeed,
    NamespaceWatch,
    is_known,
    matches_filters,
)


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, True),
        ({"team": "red"}, True),
        ({"team": "red", "tier": "1"}, True),
        ({"team": "Red"}, False),
        ({"team": "red", "zone": "x"}, False),
    ],
)
def test_every_filter_must_match_exactly(filters: dict[str, str], expected: bool) -> None:
    assert matches_filters({"team": "red", "tier": "1"}, filters) is expected


def started(topics: list[str], filters: dict[str, str]) -> NamespaceWatch:
    watch = NamespaceWatch(filters)
    watch.start(topics)
    return watch


def test_a_watch_tells_the_difference_once() -> None:
    watch = started(["b", "a"], {"team": "red"})
    assert watch.flush() is None
    watch.change("c", {"team": "red"})
    watch.change("a", None)
    watch.change("d", {"team": "blue"})
    assert watch.untold_count == 2
    assert watch.flush() == Diff(("c",), ("a",))
    assert watch.flush() is None


def test_changes_that_undo_each_other_are_not_told() -> None:
    watch = started(["a"], {})
    for topic, properties in (("b", {}), ("b", None), ("a", None), ("a", {"x": "y"})):
        watch.change(topic, properties)
    assert watch.untold_count == 0 and watch.flush() is None


def test_a_topic_whose_properties_no_longer_match_is_removed() -> None:
    watch = started(["a"], {"team": "red"})
    watch.change("a", {"team": "blue"})
    assert watch.flush() == Diff((), ("a",))


def test_a_returning_watcher_with_the_same_list_needs_no_snapshot() -> None:
    assert is_known("ad97d07d", "ad97d07d")
    assert not is_known("ad97d07d", "00000000")
    assert not is_known("ad97d07d", None)


def test_while_one_push_is_sent_later_ones_merge_into_the_newest() -> None:
    feed = LayoutFeed[str]().offer(0, "first")
    content, feed = feed.take()
    assert content == "first"
    feed = feed.offer(1, "second").offer(2, "third")
    assert feed.take() == (None, feed)
    content, feed = feed.done().take()
    assert content == "third"
    assert feed.done().take()[0] is None


def test_a_reading_that_finished_late_is_dropped() -> None:
    _, feed = LayoutFeed[str]().offer(5, "new").take()
    assert feed.offer(4, "old").done().take()[0] is None


def test_the_same_content_is_not_sent_twice() -> None:
    _, feed = LayoutFeed[str]().offer(1, "same").take()
    assert feed.done().offer(2, "same").take()[0] is None
    # gone astray and back while the first was being sent
    assert feed.offer(2, "other").offer(3, "same").done().take()[0] is None


def test_another_owner_of_the_same_version_is_news() -> None:
    _, feed = LayoutFeed[str]().offer(1, "layout").take()
    assert feed.done().offer(1, "layout with controller").take()[0] == "layout with controller"

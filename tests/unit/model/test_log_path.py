"""Where topics stand, with and without buckets."""

from __future__ import annotations

import pytest

from magnetar.model.log_path import (
    bucket_of,
    bucket_paths,
    is_bucket,
    log_path,
    without_bucket,
)
from magnetar.model.name import NamespaceName, TopicDomain, encode_local, parse_topic

NAMESPACE = NamespaceName("tenant", "namespace")
EXAMPLE = {
    "$0": ["ptopic-partition-0", "ptopic-partition-3"],
    "$1": ["nptopic2", "ptopic-partition-1"],
    "$2": ["nptopic1", "ptopic-partition-2"],
}
"""As the proposal draws it."""


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("persistent://t/n/x", "/managed-ledgers/t/n/persistent/x"),
        ("persistent://t/n/x-partition-3", "/managed-ledgers/t/n/persistent/x-partition-3"),
        ("persistent://t/n/a~b", "/managed-ledgers/t/n/persistent/a%7Eb"),
        ("topic://t/n/a/b", "/managed-ledgers/t/n/topic/a%2Fb"),
        ("segment://t/n/a/b/0000-ffff-0", "/managed-ledgers/t/n/segment/a%2Fb/0000-ffff-0"),
    ],
)
def test_without_buckets_a_topic_stands_below_its_domain(name: str, path: str) -> None:
    assert log_path(parse_topic(name), 1) == path
    assert without_bucket(path) == path


# Hashes and buckets computed with Java's own String.hashCode and URLEncoder.
@pytest.mark.parametrize(
    ("local", "node", "of_3", "of_16", "of_1000"),
    [
        ("nptopic1", "nptopic1", 2, 12, 340),
        ("nptopic2", "nptopic2", 1, 11, 339),
        ("ptopic-partition-0", "ptopic-partition-0", 0, 15, 135),
        ("ptopic-partition-1", "ptopic-partition-1", 1, 0, 136),
        ("ptopic-partition-2", "ptopic-partition-2", 2, 1, 137),
        ("ptopic-partition-3", "ptopic-partition-3", 0, 2, 138),
        ("__change_events", "__change_events", 0, 8, 264),
        ("polygenelubricants", "polygenelubricants", 2, 0, 648),
        ("orders/eu", "orders%2Feu", 2, 12, 252),
        ("orders eu", "orders+eu", 2, 10, 138),
        ("café", "caf%C3%A9", 2, 0, 960),
        ("日本", "%E6%97%A5%E6%9C%AC", 1, 14, 902),
        ("topic~1", "topic%7E1", 2, 13, 573),
        ("$0", "%240", 1, 9, 977),
    ],
)
def test_the_bucket_is_told_by_the_encoded_name(
    local: str, node: str, of_3: int, of_16: int, of_1000: int
) -> None:
    assert encode_local(local) == node
    assert [bucket_of(node, count) for count in (1, 3, 16, 1000)] == [0, of_3, of_16, of_1000]


def test_three_buckets_hold_what_the_proposal_draws() -> None:
    for bucket, locals_ in EXAMPLE.items():
        for local in locals_:
            path = log_path(parse_topic(f"persistent://{NAMESPACE}/{local}"), 3)
            assert path == f"/managed-ledgers/tenant/namespace/persistent/{bucket}/{local}"
            assert without_bucket(f"{path}/sub") == path.replace(f"/{bucket}", "") + "/sub"


def test_the_segments_of_a_topic_share_its_bucket() -> None:
    name = parse_topic("segment://t/n/orders/eu/0000-7fff-0")
    path = "/managed-ledgers/t/n/segment/$12/orders%2Feu/0000-7fff-0"
    assert log_path(name, 16) == path
    assert without_bucket(path) == path.replace("/$12", "")


def test_a_topic_named_like_a_bucket_is_not_taken_for_one() -> None:
    path = log_path(parse_topic("persistent://t/n/$0"), 1)
    assert path == "/managed-ledgers/t/n/persistent/%240"
    assert without_bucket(path) == path
    assert [is_bucket(each) for each in ("$0", "$17", "%240", "$", "$-2", "$1x")] == [
        True,
        True,
        False,
        False,
        False,
        False,
    ]


def test_only_one_bucket_is_no_level_of_its_own() -> None:
    parent = "/managed-ledgers/tenant/namespace/persistent"
    assert bucket_paths(NAMESPACE, TopicDomain.PERSISTENT, 1) == (parent,)
    assert bucket_paths(NAMESPACE, TopicDomain.PERSISTENT, 3) == tuple(
        f"{parent}/{bucket}" for bucket in EXAMPLE
    )


def test_a_hundred_thousand_names_fit_into_answers_of_a_megabyte() -> None:
    sizes = [20] * 97
    for number in range(100_000):
        node = f"orders-of-a-long-named-customer-{number:06d}-partition-0"
        sizes[bucket_of(node, len(sizes))] += 4 + len(node)
    assert max(sizes) < 1_048_575 / 8
    assert min(sizes) > max(sizes) * 0.9

"""How many partitions a topic and how many buckets a namespace may have, and where clusters are."""

from __future__ import annotations

import re
from typing import Final

from magnetar.errors import BadRequest, NotAcceptable, PreconditionFailed
from magnetar.model.policy import Policies
from magnetar.model.tenancy import ClusterData

TOPIC_BUCKETS_MAX: Final = 10_000
_SCHEMES: Final = {
    "serviceUrl": ("http", "Illegal service url, example: http://pulsar.example.com:8080"),
    "serviceUrlTls": ("https", "Illegal service tls url, example: https://pulsar.example.com:8443"),
    "brokerServiceUrl": (
        "pulsar",
        "Illegal broker service url, example: pulsar://pulsar.example.com:6650",
    ),
    "brokerServiceUrlTls": (
        "pulsar+ssl",
        "Illegal broker service tls url, example: pulsar+ssl://pulsar.example.com:6651",
    ),
}
_URL: Final = re.compile(r"([a-z+]+)://[^\s/]+/?")


def check_partitions(count: int, *, partitions_max: int = 0) -> None:
    """The number of partitions of a topic to be created."""
    if count <= 0:
        raise NotAcceptable("Number of partitions should be more than 0")
    if 0 < partitions_max < count:
        raise NotAcceptable(
            f"Number of partitions should be less than or equal to {partitions_max}"
        )


def check_topic_buckets(count: int | None) -> None:
    if count is not None and not 1 <= count <= TOPIC_BUCKETS_MAX:
        raise PreconditionFailed(
            f"Invalid value for numberOfTopicBuckets: {count};"
            f" a namespace has 1 to {TOPIC_BUCKETS_MAX} buckets"
        )


def check_topic_buckets_kept(before: Policies, after: Policies) -> None:
    """Topics are found by their bucket, so the number is fixed when the namespace is made."""
    present, asked = before.numberOfTopicBuckets or 1, after.numberOfTopicBuckets or 1
    if present != asked:
        raise PreconditionFailed(
            f"numberOfTopicBuckets cannot be changed: the namespace was created with {present},"
            f" and its topics are found by that number. Create another namespace with {asked}"
            f" (magnetar admin namespaces create TENANT/NAMESPACE --topic-buckets {asked})"
            " and let producers and consumers move there"
        )


def check_cluster_urls(data: ClusterData) -> None:
    for field, (scheme, sentence) in _SCHEMES.items():
        value = getattr(data, field)
        if not value:
            continue
        found = _URL.fullmatch(value.split(",")[0])
        if found is None or found.group(1) != scheme:
            raise BadRequest(sentence)

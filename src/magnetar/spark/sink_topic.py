"""The topics of a write: made where they are missing, and able to tell duplicates."""

from __future__ import annotations

import time
from typing import Final

from magnetar import Admin, AdminConflict, AdminError, AdminNotFound, AdminPreconditionFailed
from magnetar.errors import MagnetarError
from magnetar.model.name import TopicDomain
from magnetar.spark.access import open_admin
from magnetar.spark.option import parse_name
from magnetar.spark.sink_option import SinkOptions

_KNOWN_S: Final = 30.0


class DeduplicationOff(MagnetarError):
    """Exactly once needs the broker to know what it has stored of a producer."""


def prepare_topics(options: SinkOptions, topics: list[str]) -> None:
    """Make what is missing, and see that the broker tells duplicates; again changes nothing."""
    broker = options.broker
    with open_admin(broker.admin_url, broker.access, timeout_s=broker.timeout_s) as admin:
        for topic in topics:
            prepare_topic(admin, options, topic)


def prepare_topic(admin: Admin, options: SinkOptions, topic: str) -> None:
    name = parse_name(topic)
    key = f"{name.namespace}/{name.local}"
    is_scalable = _is_scalable(admin, key)
    if is_scalable is None:
        is_scalable = name.domain is TopicDomain.TOPIC
        try:
            if is_scalable:
                admin.scalable_topics.create(key)
            else:
                admin.topics.create(f"persistent://{key}")
        except AdminConflict:
            pass  # another task was quicker
    if not options.exactly_once:
        return
    full = f"topic://{key}" if is_scalable else f"persistent://{key}"
    if _deduplicates(admin, full):
        return
    if not options.enable_deduplication:
        raise DeduplicationOff(
            f"Deduplication is off for {full}, so a row could be stored twice; switch it on with"
            f" `magnetar admin topic-policies set-deduplication {full} --enable`, leave"
            " enableDeduplication at true, or set exactlyOnce to false"
        )
    admin.topic_policies.set(full, "deduplication", True)
    _await_deduplication(admin, key, is_scalable)


def check_deduplication(admin: Admin, topic: str) -> None:
    """That a regular topic, or one of Apache Pulsar, still tells duplicates."""
    if not _deduplicates(admin, parse_name(topic).full):
        raise DeduplicationOff(
            f"Deduplication of {topic} was switched off while the query wrote to it, so a row could"
            " be stored twice"
        )


def _deduplicates(admin: Admin, topic: str) -> bool:
    try:
        return bool(admin.topic_policies.get(topic, "deduplication", applied=True))
    except AdminNotFound:  # Apache Pulsar has no policies of scalable topics
        _check_namespace(admin, str(parse_name(topic).namespace), topic)
        return True


def _check_namespace(admin: Admin, namespace: str, topic: str) -> None:
    if not admin.namespaces.policy(namespace, "deduplication"):
        raise DeduplicationOff(
            f"Deduplication is off for {topic}, so a row could be stored twice, and this broker has"
            " no policies of scalable topics; switch it on for all topics of the namespace with"
            f" `magnetar admin namespaces set-deduplication {namespace} --enable`, or set"
            " exactlyOnce to false"
        )


def _is_scalable(admin: Admin, key: str) -> bool | None:
    """None when there is no such topic."""
    try:
        admin.scalable_topics.metadata(key)
        return True
    except AdminNotFound:
        pass
    try:
        count = int(admin.topics.partitioned_metadata(f"persistent://{key}").get("partitions", 0))
        if not count:
            admin.topics.stats(f"persistent://{key}")
        return False
    except AdminNotFound:
        return None


def _await_deduplication(admin: Admin, key: str, is_scalable: bool) -> None:
    """A topic that is in use takes a moment to look through what it has."""
    if not is_scalable:
        return
    deadline = time.monotonic() + _KNOWN_S
    while True:
        try:
            admin.scalable_topics.last_sequence_ids(key, producer="spark")
            return
        except AdminPreconditionFailed:
            if time.monotonic() > deadline:
                raise
        except AdminError:
            return  # not asked for this way: the producers learn it when they attach
        time.sleep(0.02)

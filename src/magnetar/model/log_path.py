"""Where the logs of topics stand in the metadata store.

A namespace with one bucket keeps its topics as direct children of the domain's node. One with more
has a level `$N` between: the bucket of a topic follows from the name of its node alone, so every
broker and every language finds it without asking.
"""

from __future__ import annotations

import re
from typing import Final

from magnetar.errors import InvalidName
from magnetar.model.name import (
    NamespaceName,
    TopicDomain,
    TopicName,
    decode_local,
    encode_local,
    parse_topic,
)

LOGS: Final = "/managed-ledgers"

_BUCKETED: Final = (TopicDomain.PERSISTENT, TopicDomain.SEGMENT)
_BUCKET: Final = re.compile(r"\$[0-9]+")
_SIGN: Final = 1 << 31
JOURNALS: Final = "/magnetar/transaction"
_JOURNAL: Final = "transaction:"


def bucket_of(component: str, buckets: int) -> int:
    """The bucket of a node by its encoded name: 32-bit `31·h + c`, without its sign.

    The sign goes in more than 32 bits, where the least number has a positive counterpart too.
    """
    value = 0
    for byte in component.encode("ascii"):
        value = (31 * value + byte) & 0xFFFF_FFFF
    return abs(value - 2 * _SIGN if value & _SIGN else value) % buckets


def domain_path(namespace: NamespaceName, domain: TopicDomain) -> str:
    return f"{LOGS}/{namespace}/{domain.value}"


def bucket_paths(namespace: NamespaceName, domain: TopicDomain, buckets: int) -> tuple[str, ...]:
    """The nodes whose children are topics, by bucket."""
    parent = domain_path(namespace, domain)
    if buckets == 1 or domain not in _BUCKETED:
        return (parent,)
    return tuple(f"{parent}/${index}" for index in range(buckets))


def log_path(name: TopicName, buckets: int) -> str:
    """The node of a topic's log in a namespace with so many buckets.

    A segment stands below its topic, in that topic's bucket; every other topic is one component.
    """
    local = node_of(name)
    path = domain_path(name.namespace, name.domain)
    if buckets > 1 and name.domain in _BUCKETED:
        path += f"/${bucket_of(local, buckets)}"
    path += f"/{local}"
    if name.domain is TopicDomain.SEGMENT and "/" in name.local:
        path += f"/{encode_local(name.local.rpartition('/')[2])}"
    return path


def node_of(name: TopicName) -> str:
    """The encoded name by which a topic is listed: a segment by its topic's."""
    if name.domain is TopicDomain.SEGMENT and "/" in name.local:
        return encode_local(name.local.rpartition("/")[0])
    return name.encoded_local


def is_bucket(component: str) -> bool:
    """No topic is called so: a dollar sign is spelled `%24` in a name."""
    return _BUCKET.fullmatch(component) is not None


def without_bucket(path: str) -> str:
    """The path that a record would have in a namespace with one bucket."""
    parts = path.split("/")
    return "/".join(parts[:5] + parts[6:]) if len(parts) > 5 and is_bucket(parts[5]) else path


def managed_name(name: TopicName) -> str:
    """How Pulsar calls the log of a topic: its path without the root, in one bucket."""
    return log_path(name, 1).removeprefix(f"{LOGS}/")


def parse_managed_name(text: str) -> TopicName:
    """Raise InvalidName for what is no name of a log."""
    parts = text.split("/")
    if len(parts) < 4:
        raise InvalidName(f"Invalid name of a managed ledger: {text}")
    tenant, namespace, domain, *local = parts
    return parse_topic(f"{domain}://{tenant}/{namespace}/{'/'.join(map(decode_local, local))}")


def coordinator_journal(number: int) -> str:
    """The name of a transaction coordinator's journal."""
    return f"{_JOURNAL}coordinator/{number}"


def participant_journal(topic: TopicName) -> str:
    """The name of the journal in which a topic keeps what it knows of transactions."""
    return f"{_JOURNAL}participant/{encode_local(topic.full)}"


def is_journal(name: str) -> bool:
    return name.startswith(_JOURNAL)


def journal_path(name: str) -> str:
    """The node of a journal by its name, which no topic has."""
    return f"{JOURNALS}/{name.removeprefix(_JOURNAL)}"


def journal_name(path: str) -> str:
    """The name of the journal at a node."""
    return _JOURNAL + path.removeprefix(f"{JOURNALS}/")

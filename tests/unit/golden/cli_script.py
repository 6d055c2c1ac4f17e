"""The command lines whose output is recorded, in their order."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Final

from tests.unit.golden.request import PUBLISH
from tests.unit.golden.rest_script import SCRIPTS

# Of each policy what sets it; where it may be called otherwise, by that name too.
_RATE: Final = "-md 10 -bd 1000 -dt 2 -rp"
_S3: Final = "-d aws-s3 -r r -b bucket -oat 1G -oats 1h -oae 2h -orp tiered-storage-first"
_SHARED: Final = {
    "retention": "-t 10m -s 20G",
    "message-ttl": "-t 5m",
    "persistence": "-e 1 -w 1 -a 1 -r 2.5",
    "delayed-delivery": "-e -t 2s -md 1h",
    "inactive-topic-policies": "-e -t 1h -m delete_when_no_subscriptions",
    "deduplication": "-e",
    "deduplication-enabled": "-d",
    "auto-subscription-creation": "-e",
    "subscription-types-enabled": "-t Shared,Exclusive",
    "entry-filters": "-efn nobody",
    "entry-filters-per-topic": "-efn nobody",
    "dispatcher-pause-on-ack-state-persistent": "",
    "subscription-expiration-time": "-t 60",
    "offload-policies": _S3,
    "schema-compatibility-strategy": "-c FULL",
    "schema-validation-enforce": "-e",
    "backlog-quota": "-l 10M -p producer_exception",
    "backlog-quotas": "-l 20M -p producer_request_hold",
    "dispatch-rate": _RATE,
    "subscription-dispatch-rate": _RATE,
    "replicator-dispatch-rate": _RATE,
    "publish-rate": "-m 10 -b 1000",
    "subscribe-rate": "-sr 5 -st 30",
    "deduplication-snapshot-interval": "-i 10",
    "max-consumers-per-subscription": "-c 4",
    "max-subscriptions-per-topic": "-m 4",
    "max-subscriptions": "-m 5",
    "max-unacked-messages-per-consumer": "-c 4",
    "max-unacked-messages-on-consumer": "-c 5",
    "max-unacked-messages-per-subscription": "-c 4",
    "max-unacked-messages-on-subscription": "-c 5",
    "compaction-threshold": "-t 1M",
}
_NAMESPACE: Final = {
    **_SHARED,
    "clusters": "-c standalone",
    "allowed-clusters": "-c standalone",
    "auto-topic-creation": "-e -t partitioned -n 3",
    "offload-deletion-lag": "-l 1h",
    "is-allow-auto-update-schema": "-d",
    "encryption-required": "-e",
    "subscription-auth-mode": "-m Prefix",
    "max-producers-per-topic": "-p 4",
    "max-consumers-per-topic": "-c 4",
    "max-topics-per-namespace": "-t 1000",
    "offload-threshold": "-s 1G",
    "scalable-topic-auto-scale-policy": "-e --max-segments 8 --merge-cooldown 5m",
}
_TOPIC: Final = {
    **_SHARED,
    "replication-clusters": "-c standalone",
    "max-producers": "-p 4",
    "maxProducers": "-p 5",
    "max-consumers": "-c 4",
    "max-message-size": "-m 1000",
}
# These can be set and never removed.
_KEPT: Final = (
    "clusters",
    "allowed-clusters",
    "schema-compatibility-strategy",
    "schema-validation-enforce",
    "is-allow-auto-update-schema",
    "encryption-required",
    "subscription-auth-mode",
    "offload-threshold",
)


def command_lines(name: str = "cli") -> Iterator[list[str]]:
    """The words of each, or `PUBLISH` with a topic and a payload."""
    for line in (SCRIPTS / f"{name}.txt").read_text().splitlines():
        words = shlex.split(line, comments=True)
        match words:
            case []:
                continue
            case ["+", *words]:
                yield words
                yield ["-o", "json", *words]
            case ["@", group, of]:
                yield from _policies(group, of)
            case _:
                yield words


def help_lines() -> Iterator[list[str]]:
    """Every verb of the script, asked for its help."""
    verbs = {
        tuple(words[:2]): None
        for words in command_lines()
        if words[0] != PUBLISH and len(words) > 1 and not any(w[0] == "-" for w in words[:2] if w)
    }
    yield from ([*verb, "--help"] for verb in verbs)


def _policies(group: str, name: str) -> Iterator[list[str]]:
    is_namespace = group == "namespaces"
    for policy, flags in (_NAMESPACE if is_namespace else _TOPIC).items():
        get, words = [group, f"get-{policy}", name], flags.split()
        remove = [group, f"remove-{policy}", name]
        yield get
        yield [group, f"set-{policy}", name, *words]
        yield get
        yield ["-o", "json", *get]
        if not is_namespace:
            yield [*get, "-ap"]
            yield [group, f"set-{policy}", name, *words, "-g"]
            yield [*get, "-g", "-o", "json"]
            yield [*remove, "-g"]
        if not (is_namespace and policy in _KEPT):
            yield remove
            yield [*get, "--output=json"]
    if not is_namespace:
        of_one = [f"{verb}-subscription-dispatch-rate" for verb in ("set", "get", "remove")]
        for verb, flags in zip(of_one, (_RATE, "", ""), strict=True):
            yield [group, verb, name, *flags.split(), "-s", "sub"]

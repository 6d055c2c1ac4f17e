"""The policies that limit something: rates, counts and sizes."""

from __future__ import annotations

from typing import Any, Final

from magnetar.cli.command import Flag, Options, Switch
from magnetar.cli.form import Form
from magnetar.cli.value import parse_duration_s, parse_size

QUOTA_TYPE: Final = Flag(
    ("-t", "--type"),
    "what the quota limits (destination_storage)",
    choices=("destination_storage", "message_age"),
    default="destination_storage",
)


def _number(key: str, what: str, *names: str, aliases: tuple[str, ...] = ()) -> Form:
    flag = Flag(names, what, parse=int, required=True, variable="N")
    return Form(key, what, (flag,), lambda o: getattr(o, flag.target), aliases)


def _rate(key: str, what: str) -> Form:
    return Form(
        key,
        what,
        (
            Flag(
                ("-md", "--msg-dispatch-rate"),
                "messages per period, -1 for no limit",
                int,
                default=-1,
            ),
            Flag(
                ("-bd", "--byte-dispatch-rate"),
                "bytes per period, -1 for no limit",
                int,
                default=-1,
            ),
            Flag(("-dt", "--dispatch-rate-period"), "seconds of a period (1)", int, default=1),
            Switch(("-rp", "--relative-to-publish-rate"), "count on top of the publish rate"),
        ),
        lambda o: {
            "dispatchThrottlingRateInMsg": o.msg_dispatch_rate,
            "dispatchThrottlingRateInByte": o.byte_dispatch_rate,
            "ratePeriodInSecond": o.dispatch_rate_period,
            "relativeToPublishRate": o.relative_to_publish_rate,
        },
    )


def _build_quota(options: Options) -> dict[str, Any]:
    quota: dict[str, Any] = {"policy": options.policy}
    if options.limit is not None:
        quota["limitSize"] = options.limit
    if options.limitTime is not None:
        quota["limitTime"] = options.limitTime
    return quota


LIMITS: Final[tuple[Form, ...]] = (
    Form(
        "backlog-quota",
        "how large a backlog may grow, and what happens then",
        (
            Flag(("-l", "--limit"), "size, such as 10M or 16G; -1 without limit", parse=parse_size),
            Flag(
                ("-lt", "--limitTime"),
                "age, such as 90s or 3h; -1 without limit",
                parse=parse_duration_s,
            ),
            Flag(
                ("-p", "--policy"),
                "what to do at the limit",
                required=True,
                choices=(
                    "producer_request_hold",
                    "producer_exception",
                    "consumer_backlog_eviction",
                ),
            ),
            QUOTA_TYPE,
        ),
        _build_quota,
        aliases=("backlog-quotas",),
    ),
    _rate("dispatch-rate", "how fast messages are handed out"),
    _rate("subscription-dispatch-rate", "how fast one subscription is served"),
    _rate("replicator-dispatch-rate", "how fast other clusters are served"),
    Form(
        "publish-rate",
        "how fast messages are taken in",
        (
            Flag(
                ("-m", "--msg-publish-rate"),
                "messages per second, -1 for no limit",
                int,
                default=-1,
            ),
            Flag(
                ("-b", "--byte-publish-rate"), "bytes per second, -1 for no limit", int, default=-1
            ),
        ),
        lambda o: {
            "publishThrottlingRateInMsg": o.msg_publish_rate,
            "publishThrottlingRateInByte": o.byte_publish_rate,
        },
    ),
    Form(
        "subscribe-rate",
        "how often one consumer may subscribe",
        (
            Flag(("-sr", "--subscribe-rate"), "times per period, -1 for no limit", int, default=-1),
            Flag(("-st", "--subscribe-rate-period"), "seconds of a period (30)", int, default=30),
        ),
        lambda o: {
            "subscribeThrottlingRatePerConsumer": o.subscribe_rate,
            "ratePeriodInSecond": o.subscribe_rate_period,
        },
    ),
    _number(
        "deduplication-snapshot-interval",
        "seconds between snapshots of the deduplication state",
        "-i",
        "--interval",
    ),
    _number(
        "max-producers-per-topic", "most producers of one topic", "-p", "--max-producers-per-topic"
    ),
    _number(
        "max-producers",
        "most producers of the topic",
        "-p",
        "--max-producers",
        aliases=("maxProducers",),
    ),
    _number(
        "max-consumers-per-topic", "most consumers of one topic", "-c", "--max-consumers-per-topic"
    ),
    _number("max-consumers", "most consumers of the topic", "-c", "--max-consumers"),
    _number(
        "max-consumers-per-subscription",
        "most consumers of one subscription",
        "-c",
        "--max-consumers-per-subscription",
    ),
    _number(
        "max-subscriptions-per-topic",
        "most subscriptions of one topic",
        "-m",
        "-s",
        "--max-subscriptions-per-topic",
        aliases=("max-subscriptions",),
    ),
    _number(
        "max-unacked-messages-per-consumer",
        "most unacknowledged messages of one consumer",
        "-c",
        "-m",
        "--maxNum",
        "--max-unacked-messages-per-topic",
        aliases=("max-unacked-messages-on-consumer",),
    ),
    _number(
        "max-unacked-messages-per-subscription",
        "most unacknowledged messages of one subscription",
        "-c",
        "-m",
        "--maxNum",
        "--max-unacked-messages-per-subscription",
        aliases=("max-unacked-messages-on-subscription",),
    ),
    _number(
        "max-topics-per-namespace",
        "most topics of the namespace",
        "-t",
        "--max-topics-per-namespace",
    ),
    _number("max-message-size", "most bytes of one message", "-m", "--max-message-size"),
    Form(
        "compaction-threshold",
        "backlog at which compaction starts by itself",
        (
            Flag(
                ("-t", "--threshold"),
                "size, such as 10M; 0 to switch it off",
                parse=parse_size,
                required=True,
            ),
        ),
        lambda o: o.threshold,
    ),
    Form(
        "offload-threshold",
        "size at which old data moves to other storage",
        (
            Flag(
                ("-s", "--size"), "size, such as 10G; -1 for never", parse=parse_size, required=True
            ),
        ),
        lambda o: o.size,
    ),
)

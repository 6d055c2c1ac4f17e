"""How a policy about topics that scale themselves is written on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from magnetar.cli.command import Flag, Options, Part, Switch, UsageError
from magnetar.cli.form import Form
from magnetar.cli.value import parse_duration_s, parse_size

PARTS: Final[tuple[Part, ...]] = (
    Flag(("--file",), "a JSON object of values, such as what-if recommends", parse=Path),
    Switch(("-e", "--enable"), "let topics split and merge by themselves"),
    Switch(("-d", "--disable"), "let them stay as they are"),
    Flag(("--max-segments",), "active segments at most", parse=int),
    Flag(("--min-segments",), "active segments at least", parse=int),
    Flag(("--max-dag-depth",), "merges behind a segment at most", parse=int),
    Flag(("--split-cooldown",), "time between splits, such as 60s", parse=parse_duration_s),
    Flag(("--merge-cooldown",), "time between merges, such as 5m", parse=parse_duration_s),
    Flag(("--merge-window",), "how long the load must stay low", parse=parse_duration_s),
    Flag(("--split-msg-rate-in",), "split above so many messages/s in", parse=float),
    Flag(("--split-msg-rate-out",), "split above so many messages/s out", parse=float),
    Flag(("--split-bytes-rate-in",), "split above so many bytes/s in, such as 50M", parse_size),
    Flag(("--split-bytes-rate-out",), "split above so many bytes/s out", parse_size),
    Flag(("--merge-msg-rate-in",), "merge below so many messages/s in", parse=float),
    Flag(("--merge-msg-rate-out",), "merge below so many messages/s out", parse=float),
    Flag(("--merge-bytes-rate-in",), "merge below so many bytes/s in, such as 5M", parse_size),
    Flag(("--merge-bytes-rate-out",), "merge below so many bytes/s out", parse_size),
    Flag(("--consumers-per-segment",), "split beyond so many consumers; 0: never", parse=int),
)


def build_override(options: Options) -> dict[str, Any]:
    """The fields that were given, those on the line before those in a file; the others fall
    through to what is above.
    """
    if options.enable and options.disable:
        raise UsageError("magnetar: give one of --enable and --disable")
    fields = {
        "enabled": True if options.enable else False if options.disable else None,
        "maxSegments": options.max_segments,
        "minSegments": options.min_segments,
        "maxDagDepth": options.max_dag_depth,
        "splitCooldownSeconds": options.split_cooldown,
        "mergeCooldownSeconds": options.merge_cooldown,
        "mergeWindowSeconds": options.merge_window,
        "splitMsgRateInThreshold": options.split_msg_rate_in,
        "splitMsgRateOutThreshold": options.split_msg_rate_out,
        "splitBytesRateInThreshold": options.split_bytes_rate_in,
        "splitBytesRateOutThreshold": options.split_bytes_rate_out,
        "mergeMsgRateInThreshold": options.merge_msg_rate_in,
        "mergeMsgRateOutThreshold": options.merge_msg_rate_out,
        "mergeBytesRateInThreshold": options.merge_bytes_rate_in,
        "mergeBytesRateOutThreshold": options.merge_bytes_rate_out,
        "consumersPerSegment": options.consumers_per_segment,
    }
    given = _read(options.file) if options.file is not None else {}
    given |= {name: value for name, value in fields.items() if value is not None}
    if not given:
        raise UsageError("magnetar: give at least one value to set")
    return given


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"magnetar: {path} cannot be read as JSON: {error}") from None
    if not isinstance(found, dict):
        raise UsageError(f"magnetar: {path} holds no JSON object")
    return found


AUTO_SCALE: Final = Form(
    "scalable-topic-auto-scale-policy",
    "how scalable topics split and merge by themselves",
    PARTS,
    build_override,
)

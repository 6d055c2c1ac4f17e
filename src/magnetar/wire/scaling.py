"""What a topic remembers of scaling itself, as JSON:

{"splits": 2, "merges": 1, "splitsSuppressed": 0, "mergesSuppressed": 0, "epoch": 7,
 "decisions": [{"atMs": 1700000000000, "decision": "split", …}, …]}
"""

from __future__ import annotations

import msgspec

from magnetar.model.scaling import ScaleMemory, ScaleTally
from magnetar.wire.field import decode_object, number_in, objects_in


def encode_scaling(memory: ScaleMemory) -> bytes:
    tally = memory.tally
    return msgspec.json.encode(
        {
            "splits": tally.splits,
            "merges": tally.merges,
            "splitsSuppressed": tally.splits_capped,
            "mergesSuppressed": tally.merges_capped,
            "epoch": tally.epoch,
            "decisions": memory.decisions,
        }
    )


def decode_scaling(data: bytes) -> ScaleMemory:
    value = decode_object(data, "the scaling of a topic")
    tally = ScaleTally(
        number_in(value, "splits"),
        number_in(value, "merges"),
        number_in(value, "splitsSuppressed"),
        number_in(value, "mergesSuppressed"),
        number_in(value, "epoch"),
    )
    return ScaleMemory(tally, tuple(objects_in(value, "decisions")))

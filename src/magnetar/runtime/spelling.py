"""Other ways to write keys and values: those of the proposal for topics that scale themselves.

It names durations without their unit and gives it in the value (`scalableTopicSplitCooldown=1m`),
sizes as `50MB` and shares as `25%`. Pulsar's own keys are in plain seconds, bytes and fractions.
"""

from __future__ import annotations

import re
from typing import Final

_TIMED: Final = (
    "scalableTopicAutoScaleInterval",
    "scalableTopicLoadReportInterval",
    "scalableTopicMergeCooldown",
    "scalableTopicMergeWindow",
    "scalableTopicSplitCooldown",
)
_KEYS: Final = {name: f"{name}Seconds" for name in _TIMED}
_SIZES: Final = re.compile(r"scalableTopic(?:Split|Merge)BytesRate(?:In|Out)Threshold")
_SHARE: Final = "scalableTopicLoadReportRateChangeThreshold"
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_BYTES: Final = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9}


def canonical_name(name: str) -> str:
    """Pulsar's name of a key."""
    return _KEYS.get(name, name)


def canonical_text(name: str, text: str) -> str:
    """A value as Pulsar writes it; what is not written in another way stays as it is."""
    if name in _KEYS.values():
        found = re.fullmatch(r"([0-9]+)\s*([smhd])", text)
        return str(int(found[1]) * _SECONDS[found[2]]) if found else text
    if _SIZES.fullmatch(name):
        found = re.fullmatch(r"([0-9]+)\s*([KMG]?)B", text)
        return str(int(found[1]) * _BYTES[found[2]]) if found else text
    if name == _SHARE:
        found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*%", text)
        return str(float(found[1]) / 100) if found else text
    return text

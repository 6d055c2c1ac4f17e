"""Which clients can follow a regular topic when it becomes scalable, as far as they say so.

Published V5 clients announce nothing when they connect, and ask for the old names of a migrated
topic over connections on which nothing else was said. Only what rules them out is certain there:
a library without the scalable protocol. Producers and consumers identify themselves on attach.
"""

from __future__ import annotations

import re
from typing import Final

_OFFICIAL: Final = re.compile(r"pulsar[- ](?:[a-z]+[- ])?v?(\d+)\.", re.IGNORECASE)
_OWN: Final = "Magnetar-Python-"
"""Our clients know scalable topics, also those that do not announce it yet."""
_FIRST_SCALABLE: Final = 5
"""The first release of the official clients that can have the scalable protocol."""


def may_be_scalable(version: str, *, announces: bool) -> bool:
    """Whether a client of this version may know scalable topics.

    Clients of other makers are believed when they announce it as a feature.
    """
    if announces or version.startswith(_OWN):
        return True
    found = _OFFICIAL.match(version)
    return found is not None and int(found[1]) >= _FIRST_SCALABLE

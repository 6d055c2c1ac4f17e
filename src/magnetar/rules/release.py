"""What a client understands, inferred from the name and version that it sends.

Clients announce few of their abilities; where a command has no field to ask with, the release is
the only thing to go by.
"""

from __future__ import annotations

import re
from typing import Final

_JAVA: Final = re.compile(r"Pulsar-Java-v(\d+)\.(\d+)\.(\d+)(?:-M(\d+))?(-SNAPSHOT)?(?!\S)")
_FINAL: Final = 1 << 30
"""The milestone of a version that is none: it comes after all of them."""
_FIRST_WITHOUT: Final = (5, 0, 0, 1, False)
_OURS: Final = "Magnetar-Python-v"


def shares_buckets(client_version: str) -> bool:
    """Whether a stream consumer of this client can read some entry buckets of a segment only.

    The first milestone of 5.0.0 cannot: it would ask for the whole segment. Ours always could.
    """
    found = _JAVA.match(client_version)
    if found is None:
        return client_version.startswith(_OURS)
    major, minor, patch = (int(found[index]) for index in (1, 2, 3))
    milestone = int(found[4]) if found[4] else _FINAL
    return (major, minor, patch, milestone, found[5] is not None) > _FIRST_WITHOUT

"""What a process that serves sets up for itself: garbage, open files."""

from __future__ import annotations

import gc
import resource
from typing import Final

_GC_THRESHOLD: Final = 50_000
_DESCRIPTORS_MAX: Final = 1 << 20


def freeze_garbage() -> None:
    """What is there once a broker serves, stays: do not look through it again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GC_THRESHOLD, 20, 50)


def raise_descriptor_limit() -> None:
    """As many connections as the system allows: the usual soft limit is for programs that may use
    `select`.
    """
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    most = _DESCRIPTORS_MAX if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS_MAX)
    if descriptor_limit() < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def descriptor_limit() -> int:
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _DESCRIPTORS_MAX if soft == resource.RLIM_INFINITY else soft

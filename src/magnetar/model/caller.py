"""Who asks: the role a connection or a request acts in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Caller:
    """What authentication found out; never a credential.

    `role` is who connected, None where authentication is off. A proxy names whom it speaks for
    in `original_role`. `is_anonymous` says that no credential was given and the anonymous role
    was granted.
    """

    role: str | None
    original_role: str | None = None
    is_anonymous: bool = False


ANONYMOUS: Final = Caller(None)
"""Everybody, where authentication is off."""

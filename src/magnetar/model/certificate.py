"""Certificates as the TLS handshake tells them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def common_name(certificate: Mapping[str, Any] | None) -> str | None:
    """The subject's common name; of several the last, which is the most specific one.

    None for no certificate, and for one that was not verified: those come without a subject.
    """
    names = [
        value
        for part in (certificate or {}).get("subject", ())
        for key, value in part
        if key == "commonName" and value
    ]
    return names[-1] if names else None

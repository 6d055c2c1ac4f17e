"""Transactions: asked for in the places where they would be given, and refused."""

from __future__ import annotations

from magnetar.client.error import FeatureNotSupportedError


def refuse_transaction(transaction: object) -> None:
    if transaction is not None:
        raise FeatureNotSupportedError("Transactions are not supported; call without one")

"""How several parts share what a query may read at once."""

from __future__ import annotations

from collections.abc import Sequence


def share_out(total: int, weights: Sequence[int]) -> list[int]:
    """Shares in proportion to the weights, which together are at most `total`: what rounding leaves
    over goes to the first ones with a weight.
    """
    whole = sum(weights)
    if not whole:
        return [0] * len(weights)
    shares = [total * weight // whole for weight in weights]
    left = total - sum(shares)
    for index, weight in enumerate(weights):
        if not left:
            break
        if weight:
            shares[index] += 1
            left -= 1
    return shares

"""Numbers that grow, and the names made of them."""

from __future__ import annotations

from collections.abc import Sequence

from magnetar.errors import BadRequest
from magnetar.metadata.store import ANY_VERSION, MetadataStore


def check_deltas(deltas: Sequence[int]) -> None:
    if not deltas or deltas[0] <= 0 or any(delta < 0 for delta in deltas):
        raise BadRequest(
            f"Sequence deltas are {list(deltas)}; the first must be positive, none negative"
        )


def advance(counters: Sequence[int], deltas: Sequence[int]) -> tuple[int, ...]:
    """Add the deltas to the counters; a dimension seen for the first time starts at 0."""
    longest = max(len(counters), len(deltas))
    padded = [*counters, *[0] * (longest - len(counters))]
    added = [*deltas, *[0] * (longest - len(deltas))]
    return tuple(counter + delta for counter, delta in zip(padded, added, strict=True))


async def take_number(store: MetadataStore, prefix: str) -> int:
    """A number that is not given a second time for this path."""
    path, _ = await store.put_sequence(prefix, b"", deltas=(1,), ephemeral=True)
    await store.delete(path, expect=ANY_VERSION)
    return int(path.rpartition("-")[2])


def format_sequence(prefix: str, numbers: Sequence[int]) -> str:
    return prefix + "".join(f"-{number:020d}" for number in numbers)

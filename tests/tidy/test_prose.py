"""Names and sentences use the terms of the field: caller, owner, holder, invalid, unreadable."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from tests.tidy.source import written_sources

AVOIDED = re.compile(r"whoever|nobody|that cannot be\b|is told", re.I)
# Rooms that still have some, with the most that they may have: the numbers only fall.
LEFT: Mapping[str, int] = {"client": 19, "operation": 2}


def test_rooms_do_not_go_back_to_words_that_hide_the_term() -> None:
    found = Counter(
        source.room for source in written_sources() for _ in AVOIDED.finditer(source.text)
    )
    more = {room: (count, LEFT.get(room, 0)) for room, count in found.items()}
    assert not {room: pair for room, pair in more.items() if pair[0] > pair[1]}, more

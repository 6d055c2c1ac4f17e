from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.client.error import ConfigurationError
from magnetar.client.message_id import EARLIEST, LATEST, MessageId, parse_message_id

NUMBERS = st.integers(-1, 2**62)


@given(NUMBERS, NUMBERS, st.integers(-1, 2**31 - 1), st.integers(-1, 10**6))
def test_an_id_reads_back_as_it_is_written(
    ledger: int, entry: int, partition: int, batch: int
) -> None:
    id = MessageId(ledger, entry, partition, batch)
    assert parse_message_id(str(id)) == id


def test_words_and_short_forms_are_understood() -> None:
    assert parse_message_id("earliest") is EARLIEST
    assert parse_message_id("latest") is LATEST
    assert parse_message_id("3:4") == MessageId(3, 4)
    assert parse_message_id("3:4:1") == MessageId(3, 4, 1)


@pytest.mark.parametrize("text", ["", "3", "3:x", "1:2:3:4:5", "first"])
def test_anything_else_is_refused_with_the_forms_there_are(text: str) -> None:
    with pytest.raises(ConfigurationError, match="ledger:entry"):
        parse_message_id(text)


def test_ids_are_ordered_and_the_batch_size_does_not_count() -> None:
    assert EARLIEST < MessageId(0, 0) < MessageId(0, 0, -1, 1) < MessageId(0, 1) < LATEST
    assert MessageId(1, 1, -1, 0, 5) == MessageId(1, 1, -1, 0)

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.client.error import ConfigurationError
from magnetar.client.message_id import (
    EARLIEST,
    LATEST,
    MessageId,
    choose_start,
    choose_target,
    parse_message_id,
)

NUMBERS = st.integers(-1, 2**62)


@given(NUMBERS, NUMBERS, st.integers(-1, 2**31 - 1), st.integers(-1, 10**6))
def test_an_id_reads_back_as_it_is_written(
    ledger: int, entry: int, partition: int, batch: int
) -> None:
    id = MessageId(ledger, entry, partition, batch)
    assert parse_message_id(str(id)) == id


@given(
    NUMBERS,
    NUMBERS,
    st.integers(-1, 2**31 - 1),
    st.integers(-1, 10**6),
    st.integers(0, 10**6),
)
def test_an_id_comes_back_from_its_bytes(
    ledger: int, entry: int, partition: int, batch: int, size: int
) -> None:
    id = MessageId(ledger, entry, partition, batch, size)
    again = MessageId.from_bytes(bytes(id))
    assert again == id and again.batch_size == size


@pytest.mark.parametrize("data", [b"", b"\xff", b"\x08\x01"])
def test_bytes_that_are_no_id_are_refused(data: bytes) -> None:
    with pytest.raises(ConfigurationError, match="Not the bytes of a message id"):
        MessageId.from_bytes(data)


def test_a_place_is_an_id_a_word_or_a_time() -> None:
    assert choose_start("earliest") is EARLIEST
    assert choose_target(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)) == 1000
    assert choose_target(5) == 5 and choose_target("latest") is LATEST
    with pytest.raises(ConfigurationError, match="earliest or latest"):
        choose_start("first")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="time zone"):
        choose_target(datetime(1970, 1, 1))


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

from __future__ import annotations

from magnetar.wire.ackset import decode_ack_set, encode_ack_set, full_ack_set


def test_acknowledged_messages_have_their_bits_cleared() -> None:
    assert encode_ack_set(full_ack_set(5) & ~0b101) == [26]
    assert encode_ack_set(full_ack_set(70) & ~(1 << 69)) == [-1, 31]


def test_zero_words_at_the_end_are_left_out() -> None:
    assert encode_ack_set(0) == []
    assert encode_ack_set(1 << 64) == [0, 1]
    assert decode_ack_set([]) == 0
    assert decode_ack_set([26, 0, 0]) == 26


def test_words_come_back_as_bits() -> None:
    assert decode_ack_set([-1, 31]) == full_ack_set(69)
    assert decode_ack_set([-(2**63)]) == 1 << 63

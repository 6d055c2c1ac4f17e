from __future__ import annotations

import pytest

from magnetar.model.hash import boost_hash31, java_hash31, murmur3_32, murmur31, sign_safe_mod

# key, raw Murmur3, Murmur3 without sign, Java's hash without sign
VECTORS = [
    ("", 0x00000000, 0, 0),
    ("a", 0x3C2569B2, 1009084850, 97),
    ("key-1", 0x98B115A0, 414258592, 101943363),
    ("key-2", 0xF3F8550C, 1945654540, 101943364),
    ("user-42", 0xB972DAD0, 963828432, 2000300992),
    ("order:12345", 0x65E5963B, 1709545019, 851011847),
    ("pulsar", 0x80547BBB, 5536699, 1170364285),
    ("héllo", 0xBC9FA068, 1017094248, 103094734),
    ("日本", 0xC4D9F942, 1155135810, 835047),
]


@pytest.mark.parametrize(("key", "raw", "positive", "java"), VECTORS)
def test_the_hashes_of_known_keys(key: str, raw: int, positive: int, java: int) -> None:
    assert murmur3_32(key.encode()) == raw
    assert murmur31(key.encode()) == positive
    assert java_hash31(key) == java


@pytest.mark.parametrize(
    ("text", "expected"),
    [("hello", 0x248BFA47), ("hello, world", 0x149BBB7F), ("test", 0xBA6BD213)],
)
def test_murmur3_agrees_with_its_published_vectors(text: str, expected: int) -> None:
    assert murmur3_32(text.encode()) == expected


def test_the_sign_bit_is_cut_off() -> None:
    assert murmur31(b"k1") == 2110152746
    assert murmur31(b"key01") == 39696932
    assert java_hash31("keykeykeykeykey1") == 434058482
    assert java_hash31("keykeykey2") == 42978643


def test_java_counts_a_character_beyond_the_first_plane_as_two_units() -> None:
    assert java_hash31("😀") == (31 * 0xD83D + 0xDE00) & 0x7FFFFFFF


def test_a_remainder_is_never_negative() -> None:
    assert [sign_safe_mod(value, 3) for value in (-4, -3, -1, 0, 5)] == [2, 0, 2, 0, 2]


def test_boosts_hash_places_keys_as_the_official_client_for_python_does() -> None:
    """Partitions out of 7 that pulsar-client 4.2.0 chose for keys of every length up to 24."""
    keys = ["customer-number-1234-blue"[:length] for length in range(1, 25)]
    chosen = [boost_hash31(key.encode()) % 7 for key in keys]
    assert chosen == [6, 1, 3, 2, 5, 3, 3, 0, 5, 5, 3, 0, 2, 4, 0, 3, 0, 6, 6, 3, 2, 0, 6, 0]

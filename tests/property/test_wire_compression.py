from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from magnetar.errors import ProtocolViolation
from magnetar.wire.command import CompressionType
from magnetar.wire.compression import compress, decompress

CODECS = st.sampled_from(
    [
        CompressionType.NONE,
        CompressionType.LZ4,
        CompressionType.ZLIB,
        CompressionType.ZSTD,
        CompressionType.SNAPPY,
    ]
)
PAYLOADS = st.binary(max_size=300) | st.builds(
    lambda part, times: part * times, st.binary(max_size=20), st.integers(0, 400)
)


@given(CODECS, PAYLOADS)
def test_a_payload_comes_back_as_it_was(codec: int, payload: bytes) -> None:
    packed = compress(codec, payload)
    assert decompress(codec, packed, len(payload), bytes_max=len(payload)) == payload


@given(CODECS, st.binary(max_size=100), st.integers(-1, 600))
def test_arbitrary_bytes_are_a_payload_or_refused(
    codec: int, data: bytes, uncompressed_size: int
) -> None:
    try:
        payload = decompress(codec, data, uncompressed_size, bytes_max=500)
    except ProtocolViolation:
        return
    assert payload == data or len(payload) == uncompressed_size <= 500


@given(CODECS, PAYLOADS.filter(bool), st.data())
def test_a_damaged_payload_is_read_or_refused(
    codec: int, payload: bytes, data: st.DataObject
) -> None:
    packed = bytearray(compress(codec, payload))
    at = data.draw(st.integers(0, len(packed) - 1))
    packed[at] = data.draw(st.integers(0, 255))
    try:
        unpacked = decompress(codec, bytes(packed), len(payload), bytes_max=len(payload))
    except ProtocolViolation:
        return
    assert len(unpacked) == len(payload)

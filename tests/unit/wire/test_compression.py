from __future__ import annotations

import subprocess
import sys
import zlib

import cramjam
import pytest
import zstandard

from magnetar.errors import ProtocolViolation
from magnetar.wire.command import CompressionType
from magnetar.wire.compression import compress, decompress

CODECS = [
    CompressionType.LZ4,
    CompressionType.ZLIB,
    CompressionType.ZSTD,
    CompressionType.SNAPPY,
]
TEXT = b"a payload that repeats itself, a payload that repeats itself, " * 40


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("payload", [TEXT, b"", b"x"])
def test_a_payload_comes_back(codec: int, payload: bytes) -> None:
    packed = compress(codec, payload)
    assert decompress(codec, packed, len(payload), bytes_max=len(payload)) == payload
    assert len(compress(codec, TEXT)) < len(TEXT)


def test_an_uncompressed_payload_passes_through() -> None:
    assert compress(CompressionType.NONE, TEXT) == TEXT
    assert decompress(CompressionType.NONE, TEXT, 0, bytes_max=0) == TEXT


def test_lz4_and_snappy_are_raw_blocks() -> None:
    # one literal run: token, then the bytes; and for Snappy the length first
    assert compress(CompressionType.LZ4, b"hi") == b"\x20hi"
    assert compress(CompressionType.SNAPPY, b"hi") == b"\x02\x04hi"


def test_a_zlib_stream_that_java_left_open_is_read() -> None:
    packer = zlib.compressobj()
    packed = packer.compress(TEXT) + packer.flush(zlib.Z_SYNC_FLUSH)
    with pytest.raises(zlib.error):
        zlib.decompress(packed)
    assert decompress(CompressionType.ZLIB, packed, len(TEXT), bytes_max=10_000) == TEXT


def test_a_zstd_frame_that_does_not_state_its_size_is_read() -> None:
    packer = zstandard.ZstdCompressor(write_content_size=False)
    packed = packer.compress(TEXT)
    assert zstandard.get_frame_parameters(packed).content_size == zstandard.CONTENTSIZE_UNKNOWN
    assert decompress(CompressionType.ZSTD, packed, len(TEXT), bytes_max=10_000) == TEXT
    with pytest.raises(ProtocolViolation):
        decompress(CompressionType.ZSTD, packed, len(TEXT) - 1, bytes_max=10_000)


@pytest.mark.parametrize("codec", CODECS)
def test_a_payload_larger_or_smaller_than_announced_is_refused(codec: int) -> None:
    packed = compress(codec, TEXT)
    for announced in (len(TEXT) - 1, len(TEXT) + 1, 1):
        with pytest.raises(ProtocolViolation):
            decompress(codec, packed, announced, bytes_max=10_000)


@pytest.mark.parametrize("codec", CODECS)
def test_a_payload_announced_beyond_the_limit_is_refused_unopened(codec: int) -> None:
    with pytest.raises(ProtocolViolation, match="limit"):
        decompress(codec, compress(codec, TEXT), len(TEXT), bytes_max=len(TEXT) - 1)


def test_a_frame_that_states_a_monstrous_size_is_refused_unopened() -> None:
    # a ZSTD head that states 2**62 bytes; a Snappy head that states 2**32 - 1
    zstd = b"\x28\xb5\x2f\xfd\xe0" + (2**62).to_bytes(8, "little")
    assert zstandard.get_frame_parameters(zstd).content_size == 2**62
    snappy = b"\xff\xff\xff\xff\x0f" + b"\x00" * 8
    assert cramjam.snappy.decompress_raw_len(snappy) == 2**32 - 1
    for codec, data in ((CompressionType.ZSTD, zstd), (CompressionType.SNAPPY, snappy)):
        with pytest.raises(ProtocolViolation):
            decompress(codec, data, 100, bytes_max=1000)


@pytest.mark.parametrize("codec", [*CODECS, 5, -1])
def test_garbage_is_refused(codec: int) -> None:
    with pytest.raises(ProtocolViolation):
        decompress(codec, b"\xff" * 20, 100, bytes_max=1000)


def test_no_codec_is_loaded_before_it_is_needed() -> None:
    check = (
        "import sys, magnetar.wire.compression;"
        "sys.exit(any(name in sys.modules for name in ('lz4', 'zstandard', 'cramjam')))"
    )
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0

"""Compression of payloads, with the codecs and exact byte formats that every client knows.

Codecs are imported when first used: a broker never needs them and most clients need one.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import Final

from magnetar.errors import ProtocolViolation
from magnetar.wire.command import CompressionType


def _compress_lz4(payload: bytes) -> bytes:
    import lz4.block

    packed: bytes = lz4.block.compress(payload, store_size=False)
    return packed


def _decompress_lz4(data: bytes, size: int) -> bytes:
    import lz4.block

    try:
        payload: bytes = lz4.block.decompress(data, uncompressed_size=size)
    except lz4.block.LZ4BlockError:
        raise ProtocolViolation("an undecodable LZ4 payload") from None
    return payload


def _decompress_zlib(data: bytes, size: int) -> bytes:
    # Java ends a stream with a flush, without a last block or a trailer: only a decoder that
    # does not ask for the end reads it.
    try:
        return zlib.decompressobj().decompress(data, size + 1)
    except zlib.error:
        raise ProtocolViolation("an undecodable ZLIB payload") from None


def _compress_zstd(payload: bytes) -> bytes:
    import zstandard

    return zstandard.ZstdCompressor().compress(payload)


def _decompress_zstd(data: bytes, size: int) -> bytes:
    import zstandard

    try:
        # The decoder allocates what the frame says, whatever limit it is given: look first.
        stated = zstandard.get_frame_parameters(data).content_size
        if stated not in (size, zstandard.CONTENTSIZE_UNKNOWN):
            raise ProtocolViolation(f"a ZSTD payload of {stated} bytes where {size} were announced")
        return zstandard.ZstdDecompressor().decompress(data, max_output_size=size)
    except zstandard.ZstdError:
        raise ProtocolViolation("an undecodable ZSTD payload") from None


def _compress_snappy(payload: bytes) -> bytes:
    import cramjam

    return bytes(cramjam.snappy.compress_raw(payload))


def _decompress_snappy(data: bytes, size: int) -> bytes:
    import cramjam

    try:
        stated = cramjam.snappy.decompress_raw_len(data)
        if stated != size:
            raise ProtocolViolation(f"a SNAPPY payload of {stated} bytes instead of {size}")
        return bytes(cramjam.snappy.decompress_raw(data))
    except cramjam.DecompressionError:
        raise ProtocolViolation("an undecodable SNAPPY payload") from None


_COMPRESS: Final[Mapping[int, Callable[[bytes], bytes]]] = {
    CompressionType.LZ4: _compress_lz4,
    CompressionType.ZLIB: zlib.compress,
    CompressionType.ZSTD: _compress_zstd,
    CompressionType.SNAPPY: _compress_snappy,
}
_DECOMPRESS: Final[Mapping[int, Callable[[bytes, int], bytes]]] = {
    CompressionType.LZ4: _decompress_lz4,
    CompressionType.ZLIB: _decompress_zlib,
    CompressionType.ZSTD: _decompress_zstd,
    CompressionType.SNAPPY: _decompress_snappy,
}


def compress(compression: int, payload: bytes) -> bytes:
    """Pack a payload; the metadata must then carry the codec and the size before."""
    if compression == CompressionType.NONE:
        return payload
    return _COMPRESS[compression](payload)


def decompress(compression: int, data: bytes, uncompressed_size: int, *, bytes_max: int) -> bytes:
    """Unpack a payload whose metadata announces its size; never allocate more than that."""
    if compression == CompressionType.NONE:
        return data
    if compression not in _DECOMPRESS:
        raise ProtocolViolation(f"a payload with unknown compression {compression}")
    if not 0 <= uncompressed_size <= bytes_max:
        raise ProtocolViolation(f"a payload of {uncompressed_size} bytes; the limit is {bytes_max}")
    if uncompressed_size == 0:
        return b""
    payload = _DECOMPRESS[compression](data, uncompressed_size)
    if len(payload) != uncompressed_size:
        raise ProtocolViolation(
            f"a compressed payload is not the announced {uncompressed_size} bytes"
        )
    return payload

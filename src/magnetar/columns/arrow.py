"""Arrow arrays over numbers that are there already.

`pyarrow.array` looks for pandas first, which takes longer to load than a task may take to read.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Mask = npt.NDArray[np.bool_]

INSTANT: Final = pa.timestamp("us", tz="UTC")
_TYPES: Final = {"int64": pa.int64(), "int32": pa.int32()}


def make_numbers(
    values: npt.NDArray[Any], *, missing: Mask | None = None, kind: pa.DataType | None = None
) -> pa.Array:
    """The numbers of an array, and nulls where it says so."""
    valid = None
    if missing is not None and missing.any():
        valid = pa.py_buffer(np.packbits(~missing, bitorder="little"))
    buffers = [valid, pa.py_buffer(np.ascontiguousarray(values))]
    return pa.Array.from_buffers(kind or _TYPES[values.dtype.name], len(values), buffers)


def make_instants(values_ms: npt.NDArray[np.int64], *, missing: Mask | None = None) -> pa.Array:
    """Times from milliseconds since 1970."""
    return make_numbers(values_ms * 1000, missing=missing, kind=INSTANT)


def make_texts(texts: Sequence[str]) -> pa.Array:
    return make_binary([text.encode() for text in texts], kind=pa.string())


def make_binary(values: Sequence[bytes], *, kind: pa.DataType | None = None) -> pa.Array:
    edges = np.fromiter(accumulate(map(len, values), initial=0), np.int32, len(values) + 1)
    buffers = [None, pa.py_buffer(edges), pa.py_buffer(b"".join(values))]
    return pa.Array.from_buffers(kind or pa.binary(), len(values), buffers)


def make_flags(values: Mask) -> pa.Array:
    packed = pa.py_buffer(np.packbits(values, bitorder="little"))
    return pa.Array.from_buffers(pa.bool_(), len(values), [None, packed])

"""Load histories with a known shape, as Parquet."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

DAY_S = 86_400


def write_history(
    path: Path, *, topics: int, days: float, interval_s: int = 300, seed: int = 1
) -> Path:
    """Topics of one segment that breathe with the day; odd ones are twice as busy."""
    chance = np.random.default_rng(seed)
    steps = int(days * DAY_S / interval_s)
    seconds = np.arange(steps) * interval_s
    path.mkdir(parents=True, exist_ok=True)
    for number in range(topics):
        peak = 9_000.0 * (1 + number % 2)
        wave = np.maximum(0.0, np.sin(2 * np.pi * seconds / DAY_S))
        msgs = peak * 1.6 * wave * np.exp(chance.normal(0, 0.1, steps)) + 20
        table = pa.table(
            {
                "topic": pa.array([f"topic://public/default/t{number}"] * steps),
                "at": pa.array(seconds * 1000, pa.timestamp("ms", tz="UTC")),
                "segment": pa.array(np.zeros(steps, np.int64)),
                "hash_first": pa.array(np.zeros(steps, np.int32)),
                "hash_last": pa.array(np.full(steps, 65_535, np.int32)),
                "msg_rate_in": msgs,
                "bytes_rate_in": msgs * 100,
                "msg_rate_out": msgs,
                "bytes_rate_out": msgs * 100,
                "consumers": pa.array(np.zeros(steps, np.int32)),
            }
        )
        pq.write_table(table, path / f"{number}.parquet")
    return path

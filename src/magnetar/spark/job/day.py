"""Days and hours of UTC, by which tables lie in folders: a session's time zone has no say.

Two runs of a job with sessions of different zones would otherwise put what belongs together into
different folders, and the same again into a second one.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

_HOUR_S: Final = 3600
_DAY_S: Final = 86_400


def utc_day(at: Column) -> Column:
    return F.date_from_unix_date(F.floor(F.unix_seconds(at) / _DAY_S).cast("int"))


def utc_hour(at: Column) -> Column:
    """From 0 to 23."""
    return F.floor(F.unix_seconds(at) % _DAY_S / _HOUR_S).cast("int")

"""The data pipeline on Apache Spark: a source and a sink of the Python Data Source API."""

from magnetar.spark.hold import release_hold
from magnetar.spark.session import make_session, register

__all__ = ["make_session", "register", "release_hold"]

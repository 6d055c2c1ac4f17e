"""Found by Spark itself: packages of this prefix may bring a data source of their own."""

from magnetar.spark.source import MagnetarSource


class DefaultSource(MagnetarSource):
    """`format("magnetar")` in every session whose Python has this package."""

"""The data pipeline on Apache Spark: a source and a sink of the Python Data Source API."""

try:
    from magnetar.spark.hold import release_hold
    from magnetar.spark.lag import lag_of
    from magnetar.spark.session import make_session, register
except ModuleNotFoundError as error:
    if (error.name or "").split(".")[0] == "magnetar":
        raise
    raise ModuleNotFoundError(
        f"magnetar.spark needs {error.name}, which is not installed;"
        " install it with: pip install 'magnetar[spark]'",
        name=error.name,
    ) from None

__all__ = ["lag_of", "make_session", "register", "release_hold"]

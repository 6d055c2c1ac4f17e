"""One local Spark session for all tests of the pipeline: a JVM takes its time to start."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import SparkSession

from magnetar.client.admin import AdminClient
from magnetar.spark import make_session
from magnetar.spark.delta import delta_settings, find_jars
from magnetar.testing import MagnetarBroker

JAVA_OPTIONS = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    " -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
"""No JVM of a test lives long enough for its code to be worth more work, or to be verified."""
DAEMON = "magnetar.spark.daemon"
"""Tests start many workers, each of which would import the same for half a second. Programs with a
session of their own have the daemon that PySpark has by default, as whoever sets nothing.
"""
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    assert find_jars(), "Delta Lake's jars are not there: run `make spark-jars` (needs Maven)"
    places = {
        **delta_settings(),
        "spark.python.daemon.module": DAEMON,
        "spark.local.dir": str(tmp_path_factory.mktemp("spark-local")),
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("spark-warehouse")),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session = make_session(master="local[2,3]", name="tests", settings=SETTINGS | places)
        session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture
def set_zone(spark: SparkSession) -> Iterator[Callable[[str], None]]:
    """Of the session, until the test is over."""
    name = "spark.sql.session.timeZone"
    before = spark.conf.get(name)
    yield lambda zone: spark.conf.set(name, zone)
    spark.conf.set(name, before)


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Of a program that starts a session of its own."""
    folder = tmp_path_factory.mktemp("spark-conf")
    lines = (f"{key} {value}\n" for key, value in SETTINGS.items() if value != JAVA_OPTIONS)
    (folder / "spark-defaults.conf").write_text("".join(lines))
    return {"SPARK_CONF_DIR": str(folder), "JAVA_TOOL_OPTIONS": JAVA_OPTIONS}


@pytest.fixture
def admin(magnetar_broker: MagnetarBroker) -> Iterator[AdminClient]:
    with AdminClient(magnetar_broker.admin_url) as client:
        yield client


@pytest.fixture
def connection(magnetar_broker: MagnetarBroker) -> dict[str, str]:
    """The options that say where the session's broker is."""
    return {
        "serviceUrl": magnetar_broker.service_url,
        "adminUrl": magnetar_broker.admin_url,
        "operationTimeout": "20s",
    }

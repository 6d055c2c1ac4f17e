"""A folder on any file system that Hadoop knows (file, hdfs, s3a, abfs), as the driver sees it.

Rows are written and read by Spark's own readers and writers, which take the same URI. What goes
through here is small text: manifests, pages and pictures. On this machine's disk that needs nothing
of Spark; the other file systems have no public interface in PySpark.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import socket
import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from magnetar import ConfigurationError

_LOCK: Final = "_lock"
LEASE_MS: Final = 600_000
"""A writer that has not renewed its claim for so long is taken for dead."""
_SCHEME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+:")
_FILE: Final = re.compile(r"file:(?://)?(/(?!/).*)", re.IGNORECASE)
_HADOOP_VARIABLES: Final = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
_DEFAULT_SYSTEM: Final = "fs.defaultFS"
_ATOMIC_CLOSE: Final = "fs.capability.outputstream.abortable"
"""Of object stores: a file is there when its stream is closed, and not before."""


def find_folder(
    spark: SparkSession, uri: str, *, environment: Mapping[str, str] = os.environ
) -> Folder:
    """A path without a scheme is on this machine's disk, unless Hadoop was configured otherwise."""
    if (stated := _FILE.fullmatch(uri)) is not None:
        return LocalFolder(stated[1], uri)
    if _SCHEME.match(uri) is None and _is_disk_default(spark, environment):
        return LocalFolder(uri, uri)
    return HadoopFolder(spark, uri)


def _is_disk_default(spark: SparkSession, environment: Mapping[str, str]) -> bool:
    system = spark.conf.get(f"spark.hadoop.{_DEFAULT_SYSTEM}", None)
    if system is None and any(environment.get(name) for name in _HADOOP_VARIABLES):
        system = spark._jsc.hadoopConfiguration().get(_DEFAULT_SYSTEM)
    return system is None or system.startswith("file:")


class Folder(ABC):
    """Names are below the folder."""

    def __init__(self, uri: str, given: str) -> None:
        self.uri = uri
        self._given = given

    def child(self, name: str) -> str:
        return f"{self.uri.rstrip('/')}/{name}"

    def shown(self, name: str) -> str:
        """Below the folder as it was given."""
        return f"{self._given.rstrip('/')}/{name}"

    @abstractmethod
    def locked(self) -> AbstractContextManager[None]:
        """One writer at a time."""

    @abstractmethod
    def has(self, name: str) -> bool: ...

    @abstractmethod
    def names(self, folder: str) -> list[str]:
        """What a folder has in it; nothing where there is none."""

    @abstractmethod
    def remove(self, name: str) -> None: ...

    @abstractmethod
    def read(self, name: str) -> str | None: ...

    @abstractmethod
    def write(self, name: str, text: str) -> str:
        """Whole or not at all, in place of what is there; return where, as the folder was given."""


class LocalFolder(Folder):
    """A folder of this machine's disk; a relative path is meant from where the job was started."""

    def __init__(self, path: str, given: str) -> None:
        self._path = Path(os.path.abspath(path))
        super().__init__(f"file://{self._path}", given)  # Hadoop's paths have no escapes

    @contextmanager
    def locked(self) -> Iterator[None]:
        """The lock of a writer that was killed goes with it."""
        self._path.mkdir(parents=True, exist_ok=True)
        with (self._path / _LOCK).open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ConfigurationError(f"Another job writes to {self._path}") from None
            yield

    def has(self, name: str) -> bool:
        return (self._path / name).exists()

    def names(self, folder: str) -> list[str]:
        return sorted(os.listdir(self._path / folder)) if self.has(folder) else []

    def remove(self, name: str) -> None:
        path = self._path / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

    def read(self, name: str) -> str | None:
        return (self._path / name).read_bytes().decode() if self.has(name) else None

    def write(self, name: str, text: str) -> str:
        target = self._path / name
        passing = target.with_name(f".{target.name}.new")
        target.parent.mkdir(parents=True, exist_ok=True)
        with passing.open("wb") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        passing.replace(target)
        return self.shown(name)


class HadoopFolder(Folder):
    """A folder that the driver's JVM reaches."""

    def __init__(
        self, spark: SparkSession, given: str, *, renewal_s: float = LEASE_MS / 10_000
    ) -> None:
        self._renewal_s = renewal_s
        self._claim: str | None = None
        self._gateway: Any = spark.sparkContext._gateway
        self._java: Any = spark.sparkContext._jvm
        self._configuration = spark._jsc.hadoopConfiguration()
        path = self._path(given)
        self._system = path.getFileSystem(self._configuration)
        super().__init__(self._system.makeQualified(path).toString(), given)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """A writer puts a claim there first and looks for others then, so that of two at least one
        sees the other. How old a claim is, only times of the file system say.
        """
        claim = f"{_LOCK}-{socket.gethostname()}-{uuid.uuid4().hex[:12]}"
        self._put(self._path(self.child(claim)), "")
        try:
            self._remove_old_claims(claim)
            self._claim = claim
            with self._renewing(claim):
                yield
        finally:
            if self._claim == claim:
                self._claim = None
            self.remove(claim)

    def _remove_old_claims(self, own: str) -> None:
        """Refuse where another claim was renewed lately."""
        claims = {
            each.getPath().getName(): int(each.getModificationTime())
            for each in self._system.listStatus(self._path(self.uri))
            if each.getPath().getName().startswith(f"{_LOCK}-")
        }
        for name, renewed_ms in claims.items():
            silent_ms = max(0, claims[own] - renewed_ms)
            if name != own and silent_ms < LEASE_MS:
                raise ConfigurationError(
                    f"Another job writes to {self.uri}, and was there {silent_ms // 1000} s ago;"
                    f" if it was killed, try again when it was silent for {LEASE_MS // 60_000}"
                    f" minutes, or remove {self.child(name)}"
                )
        for name in claims.keys() - {own}:
            self.remove(name)

    @contextmanager
    def _renewing(self, claim: str) -> Iterator[None]:
        over = threading.Event()
        thread = threading.Thread(target=self._renew, args=(claim, over), daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _renew(self, claim: str, over: threading.Event) -> None:
        while not over.wait(self._renewal_s):
            with suppress(Py4JJavaError):  # there are more attempts than one within a lease
                if not self.has(claim):
                    return
                self._put(self._path(self.child(claim)), "")

    def _check_claim(self) -> None:
        if self._claim is not None and not self.has(self._claim):
            raise ConfigurationError(
                f"Another job writes to {self.uri}: the claim of this one was removed"
            )

    def has(self, name: str) -> bool:
        return bool(self._system.exists(self._path(self.child(name))))

    def names(self, folder: str) -> list[str]:
        if not self.has(folder):
            return []
        return sorted(
            each.getPath().getName()
            for each in self._system.listStatus(self._path(self.child(folder)))
        )

    def remove(self, name: str) -> None:
        self._system.delete(self._path(self.child(name)), True)

    def read(self, name: str) -> str | None:
        if not self.has(name):
            return None
        stream = self._system.open(self._path(self.child(name)))
        try:
            return bytes(self._java.org.apache.commons.io.IOUtils.toByteArray(stream)).decode()
        finally:
            stream.close()

    def write(self, name: str, text: str) -> str:
        self._check_claim()
        target = self._path(self.child(name))
        if self._system.hasPathCapability(target, _ATOMIC_CLOSE):
            self._put(target, text)
            return self.shown(name)
        passing = self._path(self.child(f".{name}.new"))
        self._put(passing, text)
        rename = getattr(self._java.org.apache.hadoop.fs, "Options$Rename")
        how = self._gateway.new_array(rename, 1)
        how[0] = rename.OVERWRITE
        context = self._java.org.apache.hadoop.fs.FileContext.getFileContext(
            target.toUri(), self._configuration
        )
        context.rename(passing, target, how)
        return self.shown(name)

    def _put(self, path: Any, text: str) -> None:
        stream = self._system.create(path, True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()

    def _path(self, uri: str) -> Any:
        return self._java.org.apache.hadoop.fs.Path(uri)

"""A folder on any file system that Hadoop knows (file, hdfs, s3a, abfs), as the driver sees it.

Rows are written and read by Spark's own readers and writers, which take the same URI. What goes
through here is small text: manifests, pages and pictures.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from magnetar import ConfigurationError

_LOCK: Final = "_lock"
_SCHEME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+:")
_ATOMIC_CLOSE: Final = "fs.capability.outputstream.abortable"
"""Of object stores: a file is there when its stream is closed, and not before."""


class Place:
    """Names are below the folder. Hadoop's file systems have no public door in PySpark."""

    def __init__(self, spark: SparkSession, uri: str) -> None:
        self._gateway: Any = spark.sparkContext._gateway
        self._java: Any = spark.sparkContext._jvm
        self._configuration = spark._jsc.hadoopConfiguration()
        path = self._path(_absolute(uri, self._configuration.get("fs.defaultFS", "file:///")))
        self._system = path.getFileSystem(self._configuration)
        self._root = self._system.makeQualified(path)
        self.uri: str = self._root.toString()
        self._given = uri

    @property
    def local(self) -> Path | None:
        """Where it is on this machine's disk, if it is there."""
        uri = self._root.toUri()
        return Path(uri.getPath()) if uri.getScheme() == "file" else None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One writer at a time. On a disk, the lock of one that was killed goes with it."""
        if (path := self.local) is not None:
            path.mkdir(parents=True, exist_ok=True)
            with (path / _LOCK).open("w") as lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    raise ConfigurationError(f"Another job writes to {path}") from None
                yield
            return
        if not self._system.createNewFile(self._path(self.child(_LOCK))):
            raise ConfigurationError(
                f"Another job writes to {self.uri}; if it was killed, remove {self.child(_LOCK)}"
            )
        try:
            yield
        finally:
            self.remove(_LOCK)

    def child(self, name: str) -> str:
        return f"{self.uri.rstrip('/')}/{name}"

    def shown(self, name: str) -> str:
        """Below the folder as it was given."""
        return f"{self._given.rstrip('/')}/{name}"

    def has(self, name: str) -> bool:
        return bool(self._system.exists(self._path(self.child(name))))

    def names(self, folder: str) -> list[str]:
        """What a folder has in it; nothing where there is none."""
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
        """Whole or not at all, in place of what is there; return where, as the folder was given."""
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


def _absolute(uri: str, default: str) -> str:
    """A relative path on this machine's disk is meant from where the job was started."""
    if _SCHEME.match(uri) or not default.startswith("file:"):
        return uri
    return os.path.abspath(uri)

"""Apache Pulsar's Java clients, in small programs of one file each."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

PROGRAMS: Final = Path(__file__).parent / "java"
_PATIENCE_S: Final = 240


@functools.cache
def class_path() -> str:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = os.environ.get("MAGNETAR_JAVA_CLIENT_HOME") or str(cache / "magnetar" / "java-client")
    jars = sorted(str(each) for each in (Path(home) / "lib").glob("*.jar"))
    assert jars, "the Java clients are not there: run `make java-clients` (needs a JDK and Maven)"
    return os.pathsep.join(jars)


def start_java(program: str, *words: str) -> subprocess.Popen[str]:
    """Compile and run a program; its output is a pipe, its log goes nowhere."""
    java = shutil.which("java")
    assert java is not None, "install a JDK 17 or later (openjdk-17-jdk-headless)"
    options = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    command = [java, *options, "-cp", class_path(), str(PROGRAMS / f"{program}.java"), *words]
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run_java(program: str, *words: str) -> list[str]:
    """The lines a program prints; it must end well."""
    with start_java(program, *words) as process:
        try:
            output, _ = process.communicate(timeout=_PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    assert process.returncode == 0, output[-4000:]
    return output.splitlines()

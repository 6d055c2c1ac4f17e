"""Spark runs on Java; where there is none, a sentence says what to install."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from typing import Final

from magnetar import ConfigurationError

JAVA_LEAST: Final = 17
_INSTALL: Final = (
    "install one, such as with: apt install openjdk-17-jre-headless,"
    " or set JAVA_HOME to where it is"
)


def check_java(environment: Mapping[str, str] = os.environ) -> None:
    """Refuse to start where Spark could not."""
    home = environment.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin" if home else environment.get("PATH", ""))
    if java is None:
        where = f"JAVA_HOME is {home}, which has no bin/java" if home else "no java was found"
        raise ConfigurationError(f"Spark needs Java {JAVA_LEAST} or newer, but {where}; {_INSTALL}")
    told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60)
    match = re.search(r'version "(?:1\.)?(\d+)', told.stderr + told.stdout)
    if match is not None and int(match[1]) < JAVA_LEAST:
        raise ConfigurationError(
            f"Spark needs Java {JAVA_LEAST} or newer, but {java} is version {match[1]}; {_INSTALL}"
        )

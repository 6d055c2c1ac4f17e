"""PySpark's daemon, which forks the workers that run tasks, with all in memory that they need.

Spark starts this one when its setting spark.python.daemon.module is magnetar.spark.daemon: a worker
begins with its task, instead of half a second of imports.
"""

from __future__ import annotations

import gc
import sys
from importlib import import_module
from typing import Final

from pyspark.daemon import manager

_NEEDED: Final = "magnetar.spark.source"


def main() -> None:
    """Spark names the module that workers run."""
    for name in (_NEEDED, *sys.argv[1:2]):
        import_module(name)
    gc.freeze()  # what all workers have stays shared
    manager()


if __name__ == "__main__":
    main()

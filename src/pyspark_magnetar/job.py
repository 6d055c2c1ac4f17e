"""What spark-submit runs on the driver: a job with its words, as `magnetar spark` takes them."""

from __future__ import annotations

import sys

from magnetar.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["spark", *sys.argv[1:]]))

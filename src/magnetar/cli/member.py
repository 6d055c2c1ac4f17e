"""`magnetar broker`: a broker among others."""

from __future__ import annotations

import sys

from magnetar.cli import standalone
from magnetar.cli.command import Options


def run(options: Options) -> int:
    """As standalone, on Pulsar's defaults for a broker, and never on metadata of its own."""
    chosen = standalone.overrides_of(options)
    named = any(each.startswith("metadataStoreUrl=") for each in chosen)
    if not named and options.config is None:
        print(
            "magnetar: a broker shares its metadata store with others: name it with"
            " --metadata zk://host:port/chroot, or metadataStoreUrl in --config;"
            " a broker alone is started by: magnetar standalone",
            file=sys.stderr,
        )
        return 1
    return standalone.run(options, standalone=False)

"""What authentication and authorization cost the broker: per connection, per attach, per entry."""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from pathlib import Path
from typing import Final

from bench.cpu_per_entry import Meter
from bench.line import Line
from magnetar.cli.token import create_token, load_sign_key
from magnetar.client.admin import AdminClient
from magnetar.testing import MagnetarBroker

TOPIC: Final = "persistent://public/default/cost"
WARM: Final = 200
GRANTS: Final = 1000
"""Other roles with a grant on the namespace, and topics with a grant of their own."""


def settings_of(kind: str, secret: Path) -> dict[str, str | bool]:
    if kind == "off":
        return {}
    return {
        "authenticationEnabled": True,
        "authenticationProviders": "token",
        "tokenSecretKey": f"file://{secret}",
        "superUserRoles": "root",
        "authorizationEnabled": kind == "authorization",
        "allowAclChangesOnNonExistentTopics": True,
    }


def grant(broker: MagnetarBroker, token: str) -> None:
    """The role that is measured, among many others."""
    with AdminClient(broker.admin_url, token=token) as root:
        for number in range(GRANTS):
            role = f"role-{number}"
            root.topics.grant(f"persistent://public/default/other-{number}", role, ["produce"])
        root.topics.grant(TOPIC, "shop", ["produce", "consume"])


async def measure(
    broker: MagnetarBroker, token: str, attaches: int, entries: int
) -> dict[str, dict[str, float]]:
    rows: dict[str, dict[str, float]] = {}
    for warm, count in ((True, WARM), (False, attaches)):
        meter = Meter(broker.pid)
        for _ in range(count):
            async with Line.open("127.0.0.1", broker.port, token=token):
                pass
        if not warm:
            rows["connection"] = meter.read(count)
    async with Line.open("127.0.0.1", broker.port, token=token) as line:
        for number in range(WARM):
            await line.create_producer(number, TOPIC)
        meter = Meter(broker.pid)
        for number in range(attaches):
            await line.create_producer(WARM + number, TOPIC)
        rows["lookup and producer"] = meter.read(attaches)
        frames = [line.encode_send(0, number, b"x" * 100) for number in range(entries)]
        meter = Meter(broker.pid)
        await line.send_all(frames, window=2000, burst=250)
        rows["entry of 100 bytes"] = meter.read(entries)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--attaches", type=int, default=2000)
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    results: dict[str, dict[str, dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        secret = Path(folder) / "secret.key"
        secret.write_bytes(b"k" * 32)
        key = load_sign_key(secret_key=f"file://{secret}", private_key=None)
        for kind in ("off", "authentication", "authorization"):
            with MagnetarBroker(set=settings_of(kind, secret)) as broker:
                token = "" if kind == "off" else create_token("shop", key)
                if kind == "authorization":
                    grant(broker, create_token("root", key))
                results[kind] = asyncio.run(
                    measure(broker, token, options.attaches, options.entries)
                )
    if options.json:
        print(json.dumps(results))
        return
    print(f"{'broker, processor per':<24}" + "".join(f"{kind:>18}" for kind in results))
    for name in results["off"]:
        cells = "".join(f"{rows[name]['us_per_entry']:>15.1f} µs" for rows in results.values())
        print(f"{name:<24}{cells}")


if __name__ == "__main__":
    main()

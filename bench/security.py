"""What TLS and authorization cost: the broker's processor time per entry, and entries per second.

Each row runs on a broker of its own; with `--repeat` the median counts. The client shares the
machine and pays for TLS too, so the processor time tells more than the rate.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import ssl
import tempfile
from pathlib import Path

from bench.cpu_per_entry import measure_line
from bench.gauge import median
from bench.line import Line
from magnetar.cli.token import create_token, make_secret_key
from magnetar.testing import MagnetarBroker
from magnetar.testing.broker import Setting, find_ports
from magnetar.wire.jwt import SecretKey
from tests.authority import Authority

ROLE = "bench"
ROWS = {
    "neither": (False, False),
    "TLS": (True, False),
    "authorization": (False, True),
    "both": (True, True),
}


def settings(home: Path, key: SecretKey, port: int, *, tls: bool, auth: bool) -> dict[str, Setting]:
    found: dict[str, Setting] = {}
    if tls:
        certificate, private = Authority(home).issue("localhost", host="localhost")
        found |= {
            "brokerServicePortTls": port,
            "tlsCertificateFilePath": str(certificate),
            "tlsKeyFilePath": str(private),
        }
    if auth:
        found |= {
            "authenticationEnabled": True,
            "authenticationProviders": "token",
            "tokenSecretKey": f"data:;base64,{base64.b64encode(key.key).decode()}",
            "authorizationEnabled": True,
            "superUserRoles": ROLE,
        }
    return found


def measure(entries: int, size: int, *, tls: bool, auth: bool) -> dict[str, dict[str, float]]:
    key = SecretKey(make_secret_key())
    (port,) = find_ports(1)

    async def run(
        broker: MagnetarBroker, context: ssl.SSLContext | None
    ) -> dict[str, dict[str, float]]:
        token = create_token(ROLE, key) if auth else ""
        chosen = port if tls else broker.port
        async with Line.open("localhost", chosen, tls=context, token=token) as line:
            return await measure_line(line, broker.pid, entries, size)

    with tempfile.TemporaryDirectory() as home:
        given = settings(Path(home), key, port, tls=tls, auth=auth)
        context = None
        if tls:
            context = ssl.create_default_context(cafile=f"{home}/signer.pem")
        with MagnetarBroker(set=given) as broker:
            return asyncio.run(run(broker, context))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found: dict[str, dict[str, dict[str, float]]] = {}
    for name, (tls, auth) in ROWS.items():
        runs = [
            measure(options.entries, options.size, tls=tls, auth=auth)
            for _ in range(options.repeat)
        ]
        found[name] = {
            what: {key: median([run[what][key] for run in runs]) for key in runs[0][what]}
            for what in ("produce", "consume")
        }
    if options.json:
        print(json.dumps(found))
        return
    print(
        f"{'':<16} {'produce':>21} {'ratio':>6} {'consume':>21} {'ratio':>6}   per entry, entries/s"
    )
    for name, row in found.items():
        cells = [f"{name:<16}"]
        for what in ("produce", "consume"):
            used, off = row[what]["us_per_entry"], found["neither"][what]["us_per_entry"]
            cells.append(f"{used:>8.2f} µs {row[what]['rate_per_s']:>9,.0f} {used / off:>6.2f}")
        print(" ".join(cells))


if __name__ == "__main__":
    main()

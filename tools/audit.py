"""Asks whether an advisory is known about any locked package.

A vulnerability fails; a source of advisories that cannot be reached is told and fails nothing, so
that work goes on without a network. `--advisories DIR` reads a checkout of the Python Packaging
Advisory Database (github.com/pypa/advisory-database) instead of asking anybody.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "requirements.lock"
WAIT_S = 120


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--advisories", type=Path, help="a checkout of the advisory database")
    options = parser.parse_args()
    if options.advisories is not None:
        return read_database(options.advisories)
    return ask()


def ask() -> int:
    command = [sys.executable, "-m", "pip_audit", "-r", str(LOCK), "--disable-pip", "--no-deps"]
    try:
        done = subprocess.run(
            [*command, "-f", "json"], capture_output=True, text=True, timeout=WAIT_S
        )
        rows: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
    except (subprocess.TimeoutExpired, ValueError, KeyError):
        print("audit: NOT DONE, the source of advisories cannot be reached", file=sys.stderr)
        return 0
    audited = [row for row in rows if "vulns" in row]
    for row in audited:
        for found in row["vulns"]:
            print(f"{row['name']} {row['version']}: {found['id']}", file=sys.stderr)
    if len(audited) < len(rows):
        count = f"{len(rows) - len(audited)} of {len(rows)}"
        print(f"audit: {count} packages NOT DONE, no advisories were found out", file=sys.stderr)
    else:
        print(f"audit: {len(rows)} packages")
    return 1 if any(row["vulns"] for row in audited) else 0


def read_database(folder: Path) -> int:
    import yaml
    from packaging.version import Version

    pins = dict(locked())
    count = 0
    for name, version in pins.items():
        for file in sorted((folder / "vulns" / name).glob("*.yaml")):
            advisory = yaml.safe_load(file.read_text())
            if is_affected(advisory, name, Version(version)) and "withdrawn" not in advisory:
                print(f"{name} {version}: {advisory['id']}", file=sys.stderr)
                count += 1
    print(f"audit: {len(pins)} packages, {count} advisories")
    return 1 if count else 0


def locked() -> Iterator[tuple[str, str]]:
    for line in LOCK.read_text().splitlines():
        if "==" in line and not line.startswith((" ", "#")):
            name, _, rest = line.partition("==")
            yield name.partition("[")[0].strip().lower(), rest.split()[0]


def is_affected(advisory: dict[str, Any], name: str, version: Any) -> bool:
    from packaging.version import Version

    for affected in advisory.get("affected", ()):
        if affected["package"]["name"].lower() != name:
            continue
        if str(version) in affected.get("versions", ()):
            return True
        for span in affected.get("ranges", ()):
            if span["type"] != "ECOSYSTEM":
                continue
            inside = False
            for event in span["events"]:
                if "introduced" in event and version >= Version(event["introduced"]):
                    inside = True
                if "fixed" in event and version >= Version(event["fixed"]):
                    inside = False
            if inside:
                return True
    return False


if __name__ == "__main__":
    sys.exit(main())

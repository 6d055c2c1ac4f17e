"""Build what is published: wheel, sdist, bill of materials, changes and checksums, into dist/.

python tools/build_release.py [DIRECTORY]   build, after tools/release/fetch

The same commit gives the same bytes: the tools are locked, the times are those of the commit
(SOURCE_DATE_EPOCH), and only what git knows is packed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

ROOT = Path(__file__).parent.parent
TOOLS = ROOT / "build" / "release-tools"
CHANGES = ROOT / "CHANGELOG.md"
LOCK = ROOT / "uv.lock"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", nargs="?", type=Path, default=ROOT / "dist")
    target = parser.parse_args().directory
    target.mkdir(parents=True, exist_ok=True)
    version = project()["version"]
    build(target)
    locked = tomllib.loads(LOCK.read_text())["package"]
    materials = json.dumps(bill_of_materials(project(), locked, epoch()), indent=2)
    (target / f"magnetar-{version}.cdx.json").write_text(materials + "\n")
    (target / f"CHANGES-{version}.md").write_text(changes_of(CHANGES.read_text(), version))
    (target / "SHA256SUMS").write_text(checksums(target))
    for path in sorted(target.iterdir()):
        print(f"{path.stat().st_size:>10,}  {path.name}")


def project() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return found


def epoch() -> int:
    """When the commit was made, unless the caller says otherwise."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    return int(given or _git("log", "-1", "--format=%ct").decode())


def build(target: Path) -> None:
    """From a copy of what git knows, so that nothing else that lies about gets in."""
    environment = os.environ | {"SOURCE_DATE_EPOCH": str(epoch()), "PYTHONHASHSEED": "0"}
    with tempfile.TemporaryDirectory() as folder:
        for name in _git("ls-files", "-z").decode().split("\0")[:-1]:
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            source = ROOT / name
            path.write_bytes(source.read_bytes())
            path.chmod(0o755 if os.access(source, os.X_OK) else 0o644)
        command = [str(TOOLS / "bin" / "python"), "-m", "hatchling", "build", "-d", str(target)]
        subprocess.run(
            [*command, "-t", "sdist", "-t", "wheel"], cwd=folder, env=environment, check=True
        )


def _git(*words: str) -> bytes:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, check=True).stdout


def bill_of_materials(
    described: Mapping[str, Any], locked: Sequence[Mapping[str, Any]], at_s: int
) -> dict[str, Any]:
    """CycloneDX 1.6 of all that the lock names for any extra, with hashes and who needs it."""
    name, version = described["name"], described["version"]
    found = {each["name"]: each for each in locked}
    root = f"pkg:pypi/{name}@{version}"
    others = sorted(each for each in found if each != name)
    serial = uuid5(NAMESPACE_URL, f"{root}?at={at_s}")
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {
            "timestamp": _format_time(at_s),
            "component": {
                "type": "application",
                "bom-ref": root,
                "name": name,
                "version": version,
                "purl": root,
                "licenses": [{"license": {"id": described["license"]}}],
            },
        },
        "components": [_component(found[each]) for each in others],
        "dependencies": [
            {"ref": _purl(each), "dependsOn": sorted({_purl(found[n]) for n in _needs(each)})}
            for each in (found[name], *(found[other] for other in others))
        ],
    }


def _component(package: Mapping[str, Any]) -> dict[str, Any]:
    files = [*package.get("wheels", ()), *([package["sdist"]] if "sdist" in package else ())]
    hashes = sorted({each["hash"].removeprefix("sha256:") for each in files})
    return {
        "type": "library",
        "bom-ref": _purl(package),
        "name": package["name"],
        "version": package["version"],
        "purl": _purl(package),
        "hashes": [{"alg": "SHA-256", "content": each} for each in hashes],
    }


def _purl(package: Mapping[str, Any]) -> str:
    return f"pkg:pypi/{package['name']}@{package['version']}"


def _needs(package: Mapping[str, Any]) -> list[str]:
    optional = package.get("optional-dependencies", {}).values()
    listed = [*package.get("dependencies", ()), *(each for extra in optional for each in extra)]
    return [each["name"] for each in listed]


def _format_time(at_s: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def changes_of(text: str, version: str) -> str:
    """The section of one version."""
    sections = text.split("\n## ")
    for section in sections[1:]:
        if section.split()[0] == version:
            return f"# {section.strip()}\n"
    raise SystemExit(f"CHANGELOG.md has no section for {version}")


def checksums(folder: Path) -> str:
    files = sorted(path for path in folder.iterdir() if path.name != "SHA256SUMS")
    return "".join(
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files
    )


if __name__ == "__main__":
    main()

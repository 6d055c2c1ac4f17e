"""Write the list of jars that ZooKeeper and BookKeeper servers need, with checksums.

Run it after a change of tools/bookkeeper/pom.xml. Maven resolves the pom; each line of the list is
the path below a repository, the SHA-256 of the file and its size.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
POM: Final = ROOT / "tools/bookkeeper/pom.xml"
TARGET: Final = ROOT / "src/magnetar/testing/bookkeeper.jars"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        command = ["mvn", "-q", "-B", "-ntp", "-f", str(POM), "dependency:copy-dependencies"]
        command += ["-DincludeScope=runtime", "-Dmdep.useRepositoryLayout=true"]
        subprocess.run([*command, f"-DoutputDirectory={folder}"], check=True)
        lines = [describe(jar, Path(folder)) for jar in sorted(Path(folder).rglob("*.jar"))]
    TARGET.write_text("".join(lines))
    print(f"{TARGET.relative_to(ROOT)}: {len(lines)} jars", file=sys.stderr)


def describe(jar: Path, folder: Path) -> str:
    content = jar.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    return f"{jar.relative_to(folder).as_posix()} {digest} {len(content)}\n"


if __name__ == "__main__":
    main()

"""Compile src/magnetar/wire/pb/*.proto; with --check, tell whether the result is committed.

The compiler is pinned and runs in an environment of its own: generated code refuses a protobuf
runtime older than its compiler, so the oldest runtime that pyproject.toml allows decides which.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
SOURCE: Final = ROOT / "src"
FOLDER: Final = SOURCE / "magnetar" / "wire" / "pb"
# This compiler writes code for protobuf 6.31 and later; its own import needs pkg_resources.
COMPILER: Final = ("grpcio-tools==1.73.1", "setuptools<81")
# The compiler's taste is not ours: bare generics in stubs, its own layout.
HEADER: Final = b'# ruff: noqa\n# fmt: off\n# mypy: disable-error-code="type-arg"\n'


def prepare_compiler() -> Path:
    """The Python of an environment that has the compiler; made once for each pinned version."""
    folder = ROOT / "build" / COMPILER[0]
    python = folder / "bin" / "python"
    stamp = folder / "installed"
    if not stamp.exists():
        venv.create(folder, clear=True, with_pip=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, *COMPILER], check=True)
        stamp.touch()
    return python


def compile_into(target: Path) -> None:
    protos = [str(path.relative_to(SOURCE)) for path in sorted(FOLDER.glob("*.proto"))]
    command = [str(prepare_compiler()), "-m", "grpc_tools.protoc", "-I", str(SOURCE)]
    command += [f"--python_out={target}", f"--pyi_out={target}", *protos]
    subprocess.run(command, check=True, cwd=SOURCE)
    for path in (target / FOLDER.relative_to(SOURCE)).glob("*_pb2.py*"):
        path.write_bytes(HEADER + path.read_bytes())


def stale_files(fresh: Path) -> list[str]:
    """Names of committed files that differ from what the compiler writes now."""
    stale = []
    for path in sorted((fresh / FOLDER.relative_to(SOURCE)).iterdir()):
        committed = FOLDER / path.name
        if not committed.exists() or committed.read_bytes() != path.read_bytes():
            stale.append(path.name)
    return stale


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 when stale")
    if not parser.parse_args().check:
        compile_into(SOURCE)
        return 0
    with tempfile.TemporaryDirectory() as fresh:
        compile_into(Path(fresh))
        stale = stale_files(Path(fresh))
    if stale:
        print(f"out of date: {', '.join(stale)}; run tools/generate_pb.py", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())

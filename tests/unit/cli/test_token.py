from __future__ import annotations

import stat
from pathlib import Path

import pytest

from magnetar.cli.main import EXIT_USAGE, main


def secret(path: Path) -> list[str]:
    return ["tokens", "create-secret-key", "--output", str(path)]


def pair(private: Path, public: Path) -> list[str]:
    command = ["tokens", "create-key-pair", "--output-private-key", str(private)]
    return [*command, "--output-public-key", str(public)]


def test_a_secret_key_is_replaced_by_force_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "secret.key"
    assert main(secret(path)) == 0
    first = path.read_bytes()
    assert main(secret(path)) == EXIT_USAGE
    assert path.read_bytes() == first
    said = capsys.readouterr().err
    assert f"{path} is there already" in said and "--force" in said
    assert main([*secret(path), "--force"]) == 0
    assert path.read_bytes() != first
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("there", ["private.key", "public.key"])
def test_a_key_pair_replaces_neither_key(tmp_path: Path, there: str) -> None:
    private, public = tmp_path / "private.key", tmp_path / "public.key"
    (tmp_path / there).write_bytes(b"precious")
    assert main(pair(private, public)) == EXIT_USAGE
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [(there, b"precious")]
    assert main([*pair(private, public), "--force"]) == 0
    assert b"precious" not in (private.read_bytes(), public.read_bytes())
    assert stat.S_IMODE(private.stat().st_mode) == 0o600


def test_a_link_to_a_key_is_not_followed(tmp_path: Path) -> None:
    path = tmp_path / "secret.key"
    path.symlink_to(tmp_path / "elsewhere.key")
    assert main(secret(path)) == EXIT_USAGE
    assert path.is_symlink() and not (tmp_path / "elsewhere.key").exists()


def test_the_two_keys_of_a_pair_need_a_file_each(tmp_path: Path) -> None:
    assert main(pair(tmp_path / "one.key", tmp_path / "one.key")) == EXIT_USAGE
    assert not list(tmp_path.iterdir())

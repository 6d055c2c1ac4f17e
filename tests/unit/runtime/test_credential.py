"""Where keys and tokens may be."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from magnetar.errors import InvalidConfiguration
from magnetar.runtime.credential import load_credential, load_text

KEY = bytes(range(32))


def test_a_key_is_found_in_every_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a key"
    file.write_bytes(KEY)
    text = base64.b64encode(KEY).decode()
    monkeypatch.setenv("KEY_AS_BASE64", text)
    monkeypatch.setenv("KEY_AS_PLACE", f"file://{file}")
    for place in (
        str(file),
        f"file:{file}",
        f"file://{file}",
        f"file://localhost{file}",
        f"file://{str(file).replace(' ', '%20')}",
        f" file:{file} ",
        f"data:;base64,{text}",
        f"data:application/octet-stream;base64,{text}",
        text,
        "env:KEY_AS_BASE64",
        "env:KEY_AS_PLACE",
    ):
        assert load_credential("key", place) == KEY, place
    assert load_credential("key", "data:,plain%20text") == b"plain text"


def test_a_token_is_itself_or_lies_somewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    file.write_text("a.b.c\n")
    monkeypatch.setenv("MY_TOKEN", "a.b.c")
    for place in ("a.b.c", f"file:{file}", f"file://{file}", "env:MY_TOKEN", "data:,a.b.c"):
        assert load_text("--token", place) == "a.b.c"


@pytest.mark.parametrize(
    "place",
    [
        "hunter2, a secret that is no base64!",
        "data:;base64,hunter2!",
        "data:hunter2",
        "hunter2" * 1000 + "!",
        "hunter2\0",
    ],
)
def test_a_refusal_never_repeats_what_was_given(place: str) -> None:
    with pytest.raises(InvalidConfiguration) as refusal:
        load_credential("tokenSecretKey", place)
    assert "hunter2" not in refusal.value.sentence
    assert refusal.value.sentence.startswith("tokenSecretKey")


def test_a_place_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfiguration, match="No such file"):
        load_credential("key", f"file:{tmp_path}/absent")
    with pytest.raises(InvalidConfiguration, match="no variable ABSENT_KEY"):
        load_credential("key", "env:ABSENT_KEY")
    with pytest.raises(InvalidConfiguration, match="no variable ABSENT_KEY"):
        load_text("--token", "env:ABSENT_KEY")
    large = tmp_path / "large"
    large.write_bytes(b"x" * (1 << 20) + b"x")
    with pytest.raises(InvalidConfiguration, match="larger than"):
        load_credential("key", str(large))

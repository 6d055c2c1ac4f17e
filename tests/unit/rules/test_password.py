"""Passwords against what a `.htpasswd` keeps; the samples come from openssl."""

from __future__ import annotations

import pytest

from magnetar.errors import InvalidConfiguration
from magnetar.rules.password import apr1, is_password, parse_htpasswd


@pytest.mark.parametrize(
    ("password", "salt", "stored"),
    [
        ("päss word", "abcdefgh", "$apr1$abcdefgh$nnbOcusibcRVN8hvNIDex0"),
        ("", "ab", "$apr1$ab$S8K6Sgp3W8c9Jb6LxgywZ."),
        ("123456", "FG4AO6aX", "$apr1$FG4AO6aX$KGYPuMoLUou3i6vUkPUUf."),
    ],
)
def test_the_md5_of_apache_is_made(password: str, salt: str, stored: str) -> None:
    assert apr1(password.encode(), salt.encode()) == stored


USERS = parse_htpasswd("# ours\n\nadmin:$apr1$FG4AO6aX$KGYPuMoLUou3i6vUkPUUf.\n")


@pytest.mark.parametrize(
    ("user", "password", "expected"),
    [
        ("admin", "123456", True),
        ("admin", "12345", False),
        ("admin", "", False),
        ("nobody", "123456", False),
        ("", "", False),
    ],
)
def test_only_the_right_password_of_a_known_user_is_right(
    user: str, password: str, expected: bool
) -> None:
    assert is_password(USERS, user, password.encode()) is expected


@pytest.mark.parametrize(
    "line",
    [
        "nothing",
        ":$apr1$FG4AO6aX$KGYPuMoLUou3i6vUkPUUf.",
        "a:b:c",
        "a:plaintext",
        "a:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=",
        "a:$2y$05$c4WoMPo3SXsafkva.HHa6uXQZWr7oboPiC2bT/r7q1BB8I2s0BRqC",
        "a:$apr1$toolongsalt$KGYPuMoLUou3i6vUkPUUf.",
    ],
)
def test_a_line_of_another_form_is_refused_by_its_number_alone(line: str) -> None:
    with pytest.raises(InvalidConfiguration, match="line 2 ") as refusal:
        parse_htpasswd(f"ok:$apr1$FG4AO6aX$KGYPuMoLUou3i6vUkPUUf.\n{line}\n")
    assert line.rpartition(":")[2] not in refusal.value.sentence or len(line) < 8


def test_a_password_kept_by_des_is_refused_with_what_to_do() -> None:
    with pytest.raises(InvalidConfiguration) as refusal:
        parse_htpasswd("old:rl.3StKT.4T8M\n")
    assert refusal.value.sentence == (
        "basicAuthConf: the password in line 1 is a DES crypt, which is refused:"
        " set it again with htpasswd -m"
    )
